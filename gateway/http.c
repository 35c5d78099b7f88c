#include "gateway/http.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/metrics.h"
#include "gateway/web_files.h"
#include "gateway/ws.h"

#define HEADERS_MAX 2048
#define HEADER_VALUE_MAX 16384

/* The page talks to its own origin alone, and runs and shows nothing that was not built in. */
#define PAGE_POLICY                                                                              \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "            \
    "connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static char *header(struct lws *wsi, enum lws_token_indexes token)
{
    int n = lws_hdr_total_length(wsi, token);
    if (n <= 0 || n > HEADER_VALUE_MAX)
        return NULL;
    char *value = xcalloc((size_t)n + 1);
    if (lws_hdr_copy(wsi, value, n + 1, token) < 0)
        value[0] = 0;
    return value;
}

char *http_bearer(struct lws *wsi)
{
    char *value = header(wsi, WSI_TOKEN_HTTP_AUTHORIZATION);
    char *token = xstrdup(auth_bearer(str_of(value)));
    free(value);
    return token;
}

char *http_cookie(struct server *s, struct lws *wsi)
{
    char *value = header(wsi, WSI_TOKEN_HTTP_COOKIE);
    char *token = xstrdup(auth_cookie(s->auth, str_of(value)));
    free(value);
    return token;
}

enum origin_verdict http_check_origin(struct server *s, struct lws *wsi)
{
    char *origin = header(wsi, WSI_TOKEN_ORIGIN);
    char *host = header(wsi, WSI_TOKEN_HOST);
    enum origin_verdict verdict = origin_check(s->config, str_of(origin), str_of(host),
                                               s->config->is_loopback, false);
    free(origin);
    free(host);
    return verdict;
}

struct answer_head {
    int status;
    const char *type;
    const char *etag;     /* NULL for none */
    bool is_page;
    bool no_body;         /* HEAD, 304 */
    msec_t retry_after_s; /* 0 for none */
};

static bool add(struct lws *wsi, const char *name, const char *value, unsigned char **p, unsigned char *end)
{
    return !lws_add_http_header_by_name(wsi, (const unsigned char *)name, (const unsigned char *)value,
                                        (int)strlen(value), p, end);
}

/* Head and body in one write. */
static int answer(struct lws *wsi, const struct answer_head *head, struct str body)
{
    size_t cap = LWS_PRE + HEADERS_MAX + body.n;
    unsigned char *bytes = xalloc(cap);
    unsigned char *start = bytes + LWS_PRE, *p = start, *end = start + HEADERS_MAX - 1;
    bool ok = !lws_add_http_header_status(wsi, (unsigned)head->status, &p, end) &&
              !lws_add_http_header_content_length(wsi, body.n, &p, end) &&
              add(wsi, "content-type:", head->type, &p, end) &&
              add(wsi, "x-content-type-options:", "nosniff", &p, end) &&
              add(wsi, "cache-control:", head->etag ? "no-cache" : "no-store", &p, end);
    if (ok && head->etag)
        ok = add(wsi, "etag:", head->etag, &p, end);
    if (ok && head->is_page)
        ok = add(wsi, "content-security-policy:", PAGE_POLICY, &p, end) &&
             add(wsi, "referrer-policy:", "no-referrer", &p, end);
    if (ok && head->retry_after_s)
        ok = add(wsi, "retry-after:", "1", &p, end);
    ok = ok && !lws_finalize_http_header(wsi, &p, end);
    if (ok && !head->no_body && body.n) {
        memcpy(p, body.p, body.n);
        p += body.n;
    }
    int sent = ok ? lws_write(wsi, start, (size_t)(p - start), LWS_WRITE_HTTP_HEADERS) : -1;
    free(bytes);
    return sent < 0 ? -1 : 0;
}

static int complete(struct lws *wsi, int result)
{
    return result < 0 || lws_http_transaction_completed(wsi) ? -1 : 0;
}

static void put_error(struct buf *out, enum error e, const char *message)
{
    buf_puts(out, "{\"error\":{");
    js_put_field(out, "code", str_of(error_code(e)));
    js_put_field(out, "message", str_of(message));
    buf_puts(out, "}}");
}

static int answer_error(struct lws *wsi, int status, enum error e, const char *message, bool no_body)
{
    struct buf body = {0};
    put_error(&body, e, message);
    int result = answer(wsi,
                        &(struct answer_head){.status = status,
                                              .type = "application/json",
                                              .no_body = no_body,
                                              .retry_after_s = e == ERR_OVERLOADED ? 1 : 0},
                        buf_str(&body));
    buf_done(&body);
    return result;
}

int http_refuse(struct lws *wsi, int status, enum error e, const char *message)
{
    (void)answer_error(wsi, status, e, message, false);
    return 1;
}

static int serve_file(struct lws *wsi, const char *path, bool head)
{
    for (size_t i = 0; i < n_web_files; i++) {
        const struct web_file *f = &web_files[i];
        if (strcmp(path, f->path) != 0)
            continue;
        char *have = header(wsi, WSI_TOKEN_HTTP_IF_NONE_MATCH);
        bool fresh = have && strcmp(have, f->etag) == 0;
        free(have);
        struct str body = {(const char *)f->bytes, fresh ? 0 : f->len};
        return answer(wsi,
                      &(struct answer_head){.status = fresh ? 304 : 200,
                                            .type = f->mime,
                                            .etag = f->etag,
                                            .is_page = true,
                                            .no_body = head || fresh},
                      body);
    }
    return answer_error(wsi, 404, ERR_NOT_FOUND, "no such page", head);
}

static int serve_text(struct lws *wsi, int status, const char *type, struct str body, bool head)
{
    return answer(wsi, &(struct answer_head){.status = status, .type = type, .no_body = head}, body);
}

static int serve_metrics(struct server *s, struct lws *wsi, bool head)
{
    char ip[64] = "";
    lws_get_peer_simple(wsi, ip, sizeof ip);
    if (!metrics_are_allowed(s->config, ip))
        return answer_error(wsi, 403, ERR_UNAUTHORIZED, "metrics are for allowed addresses", head);
    struct buf body = {0};
    metrics_write(s, &body);
    int result = serve_text(wsi, 200, "text/plain; version=0.0.4", buf_str(&body), head);
    buf_done(&body);
    return result;
}

static int serve(struct server *s, struct lws *wsi, const char *path)
{
    bool head = lws_hdr_total_length(wsi, WSI_TOKEN_HEAD_URI) > 0;
    bool get = head || lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) > 0;
    if (!get)
        return answer_error(wsi, 400, ERR_UNSUPPORTED, "this method is not served here", head);
    if (http_check_origin(s, wsi) != ORIGIN_OK)
        return answer_error(wsi, 403, ERR_UNAUTHORIZED, "this origin or host is not allowed", head);
    if (strcmp(path, "/healthz") == 0)
        return serve_text(wsi, 200, "text/plain", STR("alive\n"), head);
    if (strcmp(path, "/readyz") == 0)
        return server_is_ready(s) ? serve_text(wsi, 200, "text/plain", STR("ready\n"), head)
                                  : serve_text(wsi, 503, "text/plain", STR("not ready\n"), head);
    if (strcmp(path, "/metrics") == 0)
        return serve_metrics(s, wsi, head);
    return serve_file(wsi, strcmp(path, "/") == 0 ? "/index.html" : path, head);
}

int http_callback(struct server *s, struct lws *wsi, enum lws_callback_reasons why, void *user,
                  void *in, size_t len)
{
    switch (why) {
    case LWS_CALLBACK_HTTP: return complete(wsi, serve(s, wsi, in));
    default: return lws_callback_http_dummy(wsi, why, user, in, len);
    }
}
