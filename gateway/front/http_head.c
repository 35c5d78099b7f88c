#include "gateway/front/http_head.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#include "gateway/front/http.h"
#include "proto/str.h"

/* libwebsockets keeps the headers that it knows apart from others. */
static bool is_own_token(const char *name, enum lws_token_indexes *ret)
{
    static const struct {
        const char *name;
        enum lws_token_indexes token;
    } known[] = {
        {"authorization:", WSI_TOKEN_HTTP_AUTHORIZATION},
        {"cookie:", WSI_TOKEN_HTTP_COOKIE},
        {"host:", WSI_TOKEN_HOST},
        {"origin:", WSI_TOKEN_ORIGIN},
        {"content-length:", WSI_TOKEN_HTTP_CONTENT_LENGTH},
        {"if-none-match:", WSI_TOKEN_HTTP_IF_NONE_MATCH},
        {"if-range:", WSI_TOKEN_HTTP_IF_RANGE},
        {"range:", WSI_TOKEN_HTTP_RANGE},
        {"content-type:", WSI_TOKEN_HTTP_CONTENT_TYPE},
        {"content-disposition:", WSI_TOKEN_HTTP_CONTENT_DISPOSITION},
    };
    for (size_t i = 0; i < countof(known); i++)
        if (strcmp(name, known[i].name) == 0) {
            *ret = known[i].token;
            return true;
        }
    return false;
}

char *http_head_value(struct lws *wsi, const char *name)
{
    enum lws_token_indexes token;
    bool known = is_own_token(name, &token);
    int n = known ? lws_hdr_total_length(wsi, token)
                  : lws_hdr_custom_length(wsi, name, (int)strlen(name));
    if (n <= 0)
        return NULL;
    char *value = xcalloc((size_t)n + 1);
    int copied = known ? lws_hdr_copy(wsi, value, n + 1, token)
                       : lws_hdr_custom_copy(wsi, value, n + 1, name, (int)strlen(name));
    if (copied < 0)
        value[0] = 0;
    struct str text = str_trim(str_of(value)); /* RFC 9110 section 5.5 */
    memmove(value, text.p, text.n);
    value[text.n] = 0;
    return value;
}

char *http_trace(struct lws *wsi)
{
    struct buf head = {0};
    char *parent = http_head_value(wsi, "traceparent:");
    char *state = parent ? http_head_value(wsi, "tracestate:") : NULL;
    if (parent) {
        trace_put_head(&head, str_of(parent), str_of(state));
        buf_putc(&head, 0);
    }
    free(parent);
    free(state);
    return parent ? buf_take(&head) : NULL;
}

bool http_value_is_json(struct str v)
{
    if (str_eq(v, STR("true")) || str_eq(v, STR("false")))
        return true;
    for (size_t i = 0; i < v.n; i++)
        if (v.p[i] < '0' || v.p[i] > '9')
            return false;
    return v.n > 0 && v.n < 20 && (v.p[0] != '0' || v.n == 1);
}

bool http_head_is_json(struct lws *wsi)
{
    char type[128] = "";
    lws_hdr_copy(wsi, type, sizeof type, WSI_TOKEN_HTTP_CONTENT_TYPE);
    type[strcspn(type, "; ")] = 0;
    return strcasecmp(type, "application/json") == 0 ||
           strcasecmp(type, "application/a2a+json") == 0;
}

/* A proxy that ends TLS says so; only the links in our answers depend on it. */
static bool is_secure(struct lws *wsi)
{
    char *proto = http_head_value(wsi, "x-forwarded-proto:");
    bool secure = lws_is_ssl(wsi) || (proto && strcmp(proto, "https") == 0);
    free(proto);
    return secure;
}

char *http_base(struct lws *wsi)
{
    struct buf out = {0};
    char host[256] = "";
    if (lws_hdr_copy(wsi, host, sizeof host, WSI_TOKEN_HOST) > 0)
        buf_putf(&out, "%s://%s", is_secure(wsi) ? "https" : "http", host);
    buf_putc(&out, 0);
    return buf_take(&out);
}

/* Digits and nothing else (RFC 9110 section 8.6), and few enough for lws, which has 32 bytes for
 * them. */
static bool is_length(struct str text)
{
    while (text.n > 0 && is_blank(text.p[text.n - 1]))
        text.n--;
    for (size_t i = 0; i < text.n; i++)
        if (!is_digit(text.p[i]))
            return false;
    return text.n > 0 && text.n < 20;
}

/* "Content-Length : 5" is no header to lws, but one to some other programs (RFC 9112 section
 * 5.1). */
static bool has_blurred_name(struct lws *wsi)
{
    static const char *const names[] = {
        "content-length :", "content-length\t:", "transfer-encoding :", "transfer-encoding\t:"};
    for (size_t i = 0; i < countof(names); i++)
        if (lws_hdr_custom_length(wsi, names[i], (int)strlen(names[i])) >= 0)
            return true;
    return false;
}

const char *http_head_length(struct lws *wsi, size_t *ret)
{
    char text[32] = "";
    int total = lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH);
    int n = lws_hdr_copy_fragment(wsi, text, sizeof text, WSI_TOKEN_HTTP_CONTENT_LENGTH, 0);
    *ret = 0;
    if (n >= 0 && total > n)
        return "Content-Length appears twice";
    if (n < 0 && total <= 0)
        return has_blurred_name(wsi) ? "there is white space before a colon" : NULL;
    if (n < 0 || !is_length((struct str){text, (size_t)n}))
        return "Content-Length is not a number";
    *ret = (size_t)strtoull(text, NULL, 10);
    return has_blurred_name(wsi) ? "there is white space before a colon" : NULL;
}

bool http_head_waits(struct lws *wsi)
{
    char expect[16] = "";
    lws_hdr_copy(wsi, expect, sizeof expect, WSI_TOKEN_HTTP_EXPECT);
    return strcasecmp(expect, "100-continue") == 0 && !http_is_1_0(wsi);
}

void http_put_encoded(struct buf *out, const char *text, const char *but)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (isalnum(*p) || strchr("-._~", *p) || strchr(but, *p))
            buf_putc(out, (char)*p);
        else
            buf_putf(out, "%%%02X", *p);
    }
}
