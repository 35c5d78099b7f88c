#include "gateway/front/http.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/header_list.h"
#include "gateway/base/log.h"
#include "gateway/front/address.h"
#include "gateway/front/admin.h"
#include "gateway/front/http_api.h"
#include "gateway/front/http_page.h"
#include "gateway/front/lws_quirks.h"
#include "gateway/front/web_files.h"
#include "gateway/front/ws.h"
#include "proto/js.h"
#include "proto/str.h"

#define HEADERS_MAX 2048
#define HEADER_VALUE_MAX 16384

#define ETAG_MAX 32
#define CONSOLE "/console/"

/* The pages may only reach their own origin, and only run and show what was built in. */
#define PAGE_POLICY                                                                   \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " \
    "font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; "       \
    "form-action 'none'; "                                                            \
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types default"

/* NULL when it is absent; "" when it has no value. */
static char *header(struct lws *wsi, enum lws_token_indexes token)
{
    char none;
    int n = lws_hdr_total_length(wsi, token);
    if (n > HEADER_VALUE_MAX || (n <= 0 && lws_hdr_copy_fragment(wsi, &none, 1, token, 0) < 0))
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

char *http_query(struct lws *wsi)
{
    struct buf out = {0};
    int n = lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_URI_ARGS);
    char *pair = xcalloc((size_t)(n > 0 ? n : 0) + 1);
    for (int i = 0; lws_hdr_copy_fragment(wsi, pair, n + 1, WSI_TOKEN_HTTP_URI_ARGS, i) >= 0; i++) {
        if (out.len)
            buf_putc(&out, '&');
        buf_puts(&out, pair);
    }
    free(pair);
    buf_putc(&out, 0);
    return buf_take(&out);
}

char *http_query_value(struct lws *wsi, const char *name)
{
    size_t n = strlen(name);
    int most = lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_URI_ARGS);
    char *pair = xcalloc((size_t)(most > 0 ? most : 0) + 1), *value = NULL;
    for (int i = 0;
         !value && lws_hdr_copy_fragment(wsi, pair, most + 1, WSI_TOKEN_HTTP_URI_ARGS, i) >= 0; i++)
        if (strncmp(pair, name, n) == 0 && pair[n] == '=')
            value = xstrdup(str_of(pair + n + 1));
    free(pair);
    return value;
}

char *http_cookie(struct front *f, struct lws *wsi)
{
    char *value = header(wsi, WSI_TOKEN_HTTP_COOKIE);
    char *token = xstrdup(auth_cookie(f->auth, str_of(value)));
    free(value);
    return token;
}

bool http_is_1_0(struct lws *wsi)
{
    char version[16] = "";
    lws_hdr_copy(wsi, version, sizeof version, WSI_TOKEN_HTTP);
    return strcmp(version, "HTTP/1.0") == 0;
}

bool http_is_head(struct lws *wsi)
{
    return lws_hdr_total_length(wsi, WSI_TOKEN_HEAD_URI) > 0;
}

bool http_identity_is_cookie(struct front *f, struct lws *wsi)
{
    char *bearer = http_bearer(wsi), *cookie = http_cookie(f, wsi);
    bool is = !bearer && cookie;
    free(bearer);
    free(cookie);
    return is;
}

char *http_listed_origin(struct front *f, struct lws *wsi)
{
    char *origin = header(wsi, WSI_TOKEN_ORIGIN);
    if (origin && origin_is_listed(&f->config->parsed_origins, str_of(origin)))
        return origin;
    free(origin);
    return NULL;
}

void http_set_quota(const char *group, struct identity *who)
{
    size_t n = strlen(GUEST_PREFIX);
    if (who->owner_len <= n || memcmp(who->owner, GUEST_PREFIX, n) != 0)
        return;
    snprintf(who->quota, sizeof who->quota, "\x01guests of %.46s", group);
}

enum origin_verdict http_check_origin(struct front *f, struct lws *wsi)
{
    return http_check_origin_of(f, wsi, false);
}

enum origin_verdict http_check_origin_of(struct front *f, struct lws *wsi, bool from_cookie)
{
    if (admin_is(wsi)) /* no browser reaches that socket */
        return ORIGIN_OK;
    char *origin = header(wsi, WSI_TOKEN_ORIGIN);
    char *host = header(wsi, WSI_TOKEN_HOST);
    enum origin_verdict verdict = origin_check(&f->config->parsed_origins, str_of(origin),
                                               str_of(host), f->config->is_loopback, from_cookie);
    /* A browser hides the reason from the page; the log tells the operator. */
    f->refusals[REFUSED_ORIGIN] += verdict != ORIGIN_OK;
    if (verdict != ORIGIN_OK)
        log_event_limited(LEVEL_WARN, "http", "refused",
                          LOG_TEXT("why", origin_verdict_text(verdict)));
    free(origin);
    free(host);
    return verdict;
}

struct answer_head {
    int status;
    const char *type;
    const char *etag;         /* NULL for none */
    const char *origin;       /* the page that may read it, if another one; NULL for none */
    const char *caching;      /* NULL: no such header */
    const char *encoding;     /* NULL: not encoded */
    const char *name, *value; /* of an extra header, or NULL */
    struct str lines;         /* further ones (struct http_json) */
    bool is_page;
    bool no_body;    /* HEAD, 304 */
    bool is_for_now; /* the client may ask again after a second */
    bool is_last;    /* the connection ends after it */
};

static bool http_add(struct lws *wsi, const char *name, const char *value, unsigned char **p,
                     unsigned char *end)
{
    return !value ||
           !lws_add_http_header_by_name(wsi, (const unsigned char *)name,
                                        (const unsigned char *)value, (int)strlen(value), p, end);
}

static bool add_lines(struct lws *wsi, struct str lines, unsigned char **p, unsigned char *end)
{
    char name[48];
    while (lines.n > 0) {
        const char *newline = memchr(lines.p, '\n', lines.n);
        size_t n = (size_t)(newline - lines.p), colon = strcspn(lines.p, ":");
        ASSERT(colon + 2 < sizeof name && colon + 2 <= n);
        snprintf(name, sizeof name, "%.*s", (int)colon + 1, lines.p);
        if (lws_add_http_header_by_name(wsi, (const unsigned char *)name,
                                        (const unsigned char *)lines.p + colon + 2,
                                        (int)(n - colon - 2), p, end))
            return false;
        lines = str_from(lines, n + 1);
    }
    return true;
}

/* Unless the lines have it. */
static bool add_own(struct lws *wsi, struct str lines, const char *name, const char *value,
                    unsigned char **p, unsigned char *end)
{
    for (struct str at = lines; at.n > 0;) {
        if (str_begins(at, str_of(name)))
            return true;
        at = str_from(at, (size_t)((const char *)memchr(at.p, '\n', at.n) - at.p) + 1);
    }
    return http_add(wsi, name, value, p, end);
}

/* Only for entries of origins, exact, with credentials. */
static bool add_cors(struct lws *wsi, const char *origin, unsigned char **p, unsigned char *end)
{
    return !origin || (http_add(wsi, "access-control-allow-origin:", origin, p, end) &&
                       http_add(wsi, "access-control-allow-credentials:", "true", p, end) &&
                       http_add(wsi, "access-control-expose-headers:",
                                "ETag, MCP-Session-Id, Stream-Closed, Stream-Cursor, "
                                "Stream-Next-Offset, Stream-Up-To-Date, Upload-Offset",
                                p, end) &&
                       http_add(wsi, "vary:", "Origin", p, end));
}

static bool add_page(struct lws *wsi, const char *encoding, unsigned char **p, unsigned char *end)
{
    return http_add(wsi, "content-encoding:", encoding, p, end) &&
           http_add(wsi, "vary:", "Accept-Encoding", p, end) &&
           http_add(wsi, "content-security-policy:", PAGE_POLICY, p, end) &&
           http_add(wsi, "cross-origin-opener-policy:", "same-origin", p, end) &&
           http_add(wsi, "referrer-policy:", "no-referrer", p, end);
}

/* Head and body in one write. */
static int answer(struct lws *wsi, const struct answer_head *head, struct str body)
{
    size_t cap = LWS_PRE + HEADERS_MAX + (head->no_body ? 0 : body.n);
    unsigned char *bytes = xalloc(cap);
    unsigned char *start = bytes + LWS_PRE, *p = start, *end = start + HEADERS_MAX - 1;
    /* RFC 9110 section 8.6: without a length. */
    bool is_empty = head->status == 204 || (head->no_body && head->lines.n && !body.n);
    /* A refused page cannot read the reason; this lets it tell a refusal from an unreachable
     * gateway. */
    const char *readers = head->status == 403 ? "cross-origin" : "same-origin";
    lws_quirk_head_is_read(wsi);
    bool ok = !lws_add_http_header_status(wsi, (unsigned)head->status, &p, end) &&
              (is_empty || !lws_add_http_header_content_length(wsi, body.n, &p, end)) &&
              add_own(wsi, head->lines, "content-type:", head->type, &p, end) &&
              http_add(wsi, "x-content-type-options:", "nosniff", &p, end) &&
              http_add(wsi, "cross-origin-resource-policy:", readers, &p, end) &&
              add_own(wsi, head->lines,
                      "cache-control:", head->caching ? head->caching : "no-store", &p, end);
    ok = ok && (!head->name || http_add(wsi, head->name, head->value, &p, end)) &&
         add_lines(wsi, head->lines, &p, end);
    ok = ok && http_add(wsi, "etag:", head->etag, &p, end) && add_cors(wsi, head->origin, &p, end);
    if (ok && head->is_page)
        ok = add_page(wsi, head->encoding, &p, end);
    if (ok && head->is_for_now)
        ok = http_add(wsi, "retry-after:", "1", &p, end);
    if (ok && head->is_last) {
        lws_quirk_set_version(start);
        ok = http_add(wsi, "connection:", "close", &p, end);
    }
    if (ok && head->status == 426) /* RFC 6455 section 4.4: the supported version */
        ok = http_add(wsi, "sec-websocket-version:", "13", &p, end);
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

void http_put_error(struct buf *out, enum error e, const char *message)
{
    struct buf line = {0};
    error_line(&line, e, STR_NULL, message, -1, -1);
    http_put_error_line(out, buf_str(&line));
    buf_done(&line);
}

void http_put_error_line(struct buf *out, struct str line)
{
    static const char head[] = "{\"type\":\"error\",";
    ASSERT(line.n > sizeof head && memcmp(line.p, head, sizeof head - 1) == 0);
    buf_puts(out, "{\"error\":{");
    buf_put(out, line.p + sizeof head - 1, line.n - sizeof head + 1);
    buf_putc(out, '}');
}

int http_answer_json(struct lws *wsi, const struct http_json *json)
{
    int status = json->status;
    return answer(wsi,
                  &(struct answer_head){.status = status,
                                        .type = "application/json",
                                        .origin = json->origin,
                                        .name = json->name,
                                        .value = json->value,
                                        .lines = json->lines,
                                        .no_body = json->is_head || status == 204,
                                        .is_for_now = status == 503 || status == 429},
                  status == 204 ? STR("") : json->body);
}

/* For a request that may have no body: nobody reads one, so the connection ends after the
 * answer. */
static bool has_body(struct lws *wsi)
{
    return lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) > 0 ||
           lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0;
}

int http_answer_preflight(struct front *f, struct lws *wsi)
{
    unsigned char bytes[LWS_PRE + HEADERS_MAX], *start = bytes + LWS_PRE, *p = start;
    unsigned char *end = bytes + sizeof bytes - 1;
    char *origin = http_listed_origin(f, wsi);
    bool unread = has_body(wsi);
    bool ok = !lws_add_http_header_status(wsi, origin ? 204 : 403, &p, end) &&
              (origin || !lws_add_http_header_content_length(wsi, 0, &p, end)) &&
              add_cors(wsi, origin, &p, end);
    if (ok && origin)
        ok =
            http_add(wsi, "access-control-allow-methods:", "GET, POST, PATCH, DELETE", &p, end) &&
            http_add(
                wsi, "access-control-allow-headers:",
                "A2A-Extensions, A2A-Version, Accept, Authorization, Cache-Control, "
                "Content-Disposition, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, "
                "MCP-Protocol-Version, MCP-Session-Id, OpenAI-Organization, OpenAI-Project, "
                "Pragma, Prefer, Range, Upload-Offset, User-Agent, "
                "X-Requested-With, X-Stainless-Arch, X-Stainless-Helper-Method, "
                "X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version, "
                "X-Stainless-Retry-Count, X-Stainless-Runtime, "
                "X-Stainless-Runtime-Version, X-Stainless-Timeout",
                &p, end) &&
            http_add(wsi, "access-control-max-age:", "600", &p, end);
    free(origin);
    ok = ok && !lws_finalize_http_header(wsi, &p, end) &&
         lws_write(wsi, start, (size_t)(p - start), LWS_WRITE_HTTP_HEADERS) >= 0;
    return ok && !unread && !lws_http_transaction_completed(wsi) ? 0 : -1;
}

/* Chunked by hand; otherwise every cut would look like a clean end. */
int http_begin_events(struct lws *wsi, const char *origin, bool plain, const char *name,
                      const char *value, struct str lines)
{
    unsigned char bytes[LWS_PRE + HEADERS_MAX], *start = bytes + LWS_PRE, *p = start;
    unsigned char *end = bytes + sizeof bytes - 1;
    bool ok = !lws_add_http_header_status(wsi, 200, &p, end) &&
              add_own(wsi, lines, "content-type:", "text/event-stream", &p, end) &&
              (plain ? http_add(wsi, "connection:", "close", &p, end)
                     : http_add(wsi, "transfer-encoding:", "chunked", &p, end)) &&
              add_own(wsi, lines, "cache-control:", "no-store", &p, end) &&
              http_add(wsi, "x-accel-buffering:", "no", &p, end) &&
              http_add(wsi, "x-content-type-options:", "nosniff", &p, end) &&
              http_add(wsi, "cross-origin-resource-policy:", "same-origin", &p, end) &&
              (!name || http_add(wsi, name, value, &p, end)) && add_lines(wsi, lines, &p, end) &&
              add_cors(wsi, origin, &p, end) && !lws_finalize_http_header(wsi, &p, end) &&
              lws_write(wsi, start, (size_t)(p - start), LWS_WRITE_HTTP_HEADERS) >= 0;
    lws_set_timeout(wsi, NO_PENDING_TIMEOUT, 0);
    return ok ? 0 : -1;
}

static int answer_error_as(struct lws *wsi, struct answer_head head, enum error e,
                           const char *message)
{
    struct buf body = {0};
    http_put_error(&body, e, message);
    head.type = "application/json";
    head.is_for_now = e == ERR_OVERLOADED;
    int result = answer(wsi, &head, buf_str(&body));
    buf_done(&body);
    return result;
}

static int answer_error(struct lws *wsi, int status, enum error e, const char *message,
                        bool no_body)
{
    return answer_error_as(wsi, (struct answer_head){.status = status, .no_body = no_body}, e,
                           message);
}

int http_refuse(struct lws *wsi, int status, enum error e, const char *message)
{
    struct answer_head head = {.status = status, .no_body = http_is_head(wsi), .is_last = true};
    (void)answer_error_as(wsi, head, e, message);
    return 1;
}

void http_refuse_head(struct lws *wsi)
{
    (void)http_refuse(wsi, 400, ERR_BAD_REQUEST,
                      "the request's head cannot be read: its method, its path, or its length");
}

/* Whether a list of codings ("br, gzip;q=0.5, *;q=0") allows gzip.  It must name gzip: "*" may
 * include it, but plain is a valid answer to that, too. */
static bool takes_gzip(struct lws *wsi)
{
    char *codings = header(wsi, WSI_TOKEN_HTTP_ACCEPT_ENCODING);
    struct str list = str_of(codings);
    bool takes = false;
    while (list.n > 0 && !takes) {
        struct str coding = header_list_next(&list, ','), name = header_list_next(&coding, ';');
        takes = name.n == 4 && str_begins_nocase(name, STR("gzip"));
        while (coding.n > 0) {
            struct str parameter = header_list_next(&coding, ';');
            if (takes && str_begins_nocase(parameter, STR("q=")))
                takes = strtod(parameter.p + 2, NULL) > 0;
        }
    }
    free(codings);
    return takes;
}

/* Whether If-None-Match names it, in either coding. */
static bool is_fresh(struct lws *wsi, const struct web_file *f)
{
    char *have = header(wsi, WSI_TOKEN_HTTP_IF_NONE_MATCH);
    bool fresh = have && strstr(have, f->hash);
    free(have);
    return fresh;
}

static int serve_file(struct lws *wsi, const struct web_file *f, bool head)
{
    bool packed = f->gzip.p && takes_gzip(wsi), fresh = is_fresh(wsi, f);
    const struct web_bytes *bytes = packed ? &f->gzip : &f->plain;
    char etag[ETAG_MAX];
    snprintf(etag, sizeof etag, packed ? "\"%s-gzip\"" : "\"%s\"", f->hash);
    return answer(wsi,
                  &(struct answer_head){.status = fresh ? 304 : 200,
                                        .type = f->mime,
                                        .etag = etag,
                                        .caching = f->is_immutable
                                                       ? "public, max-age=31536000, immutable"
                                                       : "no-cache",
                                        .encoding = packed ? "gzip" : NULL,
                                        .is_page = true,
                                        .no_body = head || fresh},
                  (struct str){(const char *)bytes->p, fresh ? 0 : bytes->n});
}

/* The console's files hold no secret, but where nobody could use them they are not there. */
static bool is_served(struct front *f, struct lws *wsi, const char *path)
{
    return strncmp(path, CONSOLE, strlen(CONSOLE)) != 0 || admin_is(wsi) ||
           f->config->auth.admin_claim;
}

static int serve_page(struct front *f, struct lws *wsi, const char *path, bool head)
{
    char hash[HTTP_PAGE_HASH];
    struct web_file mark;
    if (strcmp(path, "/mark") == 0 && http_page_mark(f->config, hash, &mark))
        return serve_file(wsi, &mark, head);
    if (strcmp(path, CONSOLE) == 0)
        path = CONSOLE "index.html";
    for (size_t i = 0; i < n_web_files; i++)
        if (strcmp(path, web_files[i].path) == 0 && is_served(f, wsi, path))
            return serve_file(wsi, &web_files[i], head);
    return answer_error(wsi, 404, ERR_NOT_FOUND, "no such page", head);
}

static int serve_text(struct lws *wsi, int status, const char *type, struct str body, bool head)
{
    return answer(wsi, &(struct answer_head){.status = status, .type = type, .no_body = head},
                  body);
}

/* A proxy on this machine may ask for an unnamed client: then loopback alone is no reason. */
static bool may_read_metrics(struct front *f, struct lws *wsi)
{
    const struct config *config = f->config;
    struct net_address address;
    char ip[NET_TEXT];
    address_text(f, wsi, ip);
    if (admin_is(wsi) || config->metrics.is_public)
        return true;
    if (!net_parse_address(str_of(ip), &address))
        return false;
    return (net_is_loopback(&address) && !address_was_forwarded(wsi)) ||
           net_list_has(config->metrics.allow_nets, config->metrics.allow.n, &address);
}

static int serve_page_facts(struct front *f, struct lws *wsi, bool head)
{
    struct buf facts = {0};
    http_page_put_facts(f->config, &facts);
    int result = serve_text(wsi, 200, "application/json", buf_str(&facts), head);
    buf_done(&facts);
    return result;
}

static int serve_metrics(struct front *f, struct lws *wsi, bool head)
{
    if (!may_read_metrics(f, wsi))
        return answer_error(wsi, 403, ERR_UNAUTHORIZED, "metrics are for allowed addresses", head);
    struct buf body = {0};
    f->write_metrics(f->metrics_arg, &body);
    int result = serve_text(wsi, 200, "text/plain; version=0.0.4", buf_str(&body), head);
    buf_done(&body);
    return result;
}

static int http_serve(struct front *f, struct lws *wsi, const char *path)
{
    bool head = http_is_head(wsi);
    if (!head && lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) <= 0)
        return answer_error(wsi, 400, ERR_UNSUPPORTED, "this method is not served here", head);
    if (http_check_origin(f, wsi) != ORIGIN_OK)
        return answer_error(wsi, 403, ERR_UNAUTHORIZED, "this origin or host is not allowed", head);
    if (strcmp(path, "/healthz") == 0)
        return serve_text(wsi, 200, "text/plain", STR("alive\n"), head);
    if (strcmp(path, "/readyz") == 0)
        return front_is_ready(f) ? serve_text(wsi, 200, "text/plain", STR("ready\n"), head)
                                 : serve_text(wsi, 503, "text/plain", STR("not ready\n"), head);
    if (strcmp(path, "/metrics") == 0)
        return serve_metrics(f, wsi, head);
    if (strcmp(path, "/page.json") == 0)
        return serve_page_facts(f, wsi, head);
    return serve_page(f, wsi, strcmp(path, "/") == 0 ? "/index.html" : path, head);
}

static int http_begin(struct front *f, struct lws *wsi, struct exchange **slot, const char *path,
                      size_t len)
{
    lws_quirk_head_is_read(wsi);
    if (!lws_quirk_line_is_whole(wsi)) {
        (void)answer_error(wsi, 400, ERR_BAD_REQUEST, "the request line is incomplete", false);
        return -1;
    }
    if (!http_api_serves(path) && lws_quirk_path_has_nul(wsi, path, len)) {
        http_refuse_head(wsi);
        return -1;
    }
    if (http_api_serves(path))
        return http_api_begin(f, wsi, slot, path);
    bool unread = has_body(wsi);
    int result = http_serve(f, wsi, path);
    return unread ? -1 : complete(wsi, result);
}

static int dropped(struct lws *wsi)
{
    lws_quirk_awaits_a_head(wsi);
    return 0;
}

/* CONNECT: lws would keep the connection without a time-out. */
static int is_no_tunnel(struct lws *wsi)
{
    lws_quirk_head_is_read(wsi);
    return -1;
}

static int body_came(struct exchange **slot, const char *piece, size_t len)
{
    return slot && *slot ? http_api_body(*slot, piece, len) : 0;
}

static int body_ended(struct exchange **slot)
{
    /* A body after its answer: libwebsockets 4.1 would report for ever that it is whole. */
    return slot && *slot ? http_api_body_ended(*slot) : -1;
}

static int writable(struct exchange **slot)
{
    return slot && *slot ? http_api_writable(*slot) : 0;
}

static int http_closed(struct exchange **slot)
{
    if (!slot)
        return 0;
    http_api_closed(*slot);
    *slot = NULL;
    return 0;
}

int http_callback(struct front *f, struct lws *wsi, enum lws_callback_reasons why, void *user,
                  void *in, size_t len)
{
    switch (why) {
    case LWS_CALLBACK_HTTP: return http_begin(f, wsi, user, in, len);
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL: return dropped(wsi);
    case LWS_CALLBACK_HTTP_BODY: return body_came(user, in, len);
    case LWS_CALLBACK_HTTP_BODY_COMPLETION: return body_ended(user);
    case LWS_CALLBACK_HTTP_WRITEABLE: return writable(user);
    case LWS_CALLBACK_CLOSED_HTTP: return http_closed(user);
    case LWS_CALLBACK_RAW_CONNECTED:
    case LWS_CALLBACK_RAW_ADOPT:
    case LWS_CALLBACK_RAW_RX: return is_no_tunnel(wsi);
    default: return lws_callback_http_dummy(wsi, why, user, in, len);
    }
}
