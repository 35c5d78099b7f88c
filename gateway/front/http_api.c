#include "gateway/front/http_api.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/handover.h"
#include "gateway/auth/file_link.h"
#include "gateway/base/deadline.h"
#include "gateway/base/header_list.h"
#include "gateway/front/address.h"
#include "gateway/front/admin.h"
#include "gateway/front/admin_state.h"
#include "gateway/front/http_files.h"
#include "gateway/front/http_head.h"
#include "gateway/front/lws_quirks.h"
#include "gateway/front/relay.h"
#include "gateway/front/tcp.h"

#define LAST_EVENT_ID "last-event-id:"
#define DROPPED_BODY (4u << 20) /* bytes of an unwanted body that are read nevertheless */
#define BODY_MS 30000           /* for a whole body */
#define IMPATIENT_MS 1000       /* a peer answered sooner than this may have sent more requests */
bool http_api_serves(const char *path)
{
    return strncmp(path, "/v1/", 4) == 0 || strncmp(path, "/.well-known/", 13) == 0;
}

/* --- identity --------------------------------------------------------------------------------- */

static void take_identity(struct exchange *x, struct identity *who)
{
    struct front *f = x->front;
    struct str name = {who->owner, who->owner_len};
    char group[NET_TEXT];
    address_group(f, x->wsi, group);
    http_set_quota(group, who);
    x->owner = owner_ref(f->hub, name);
    x->quota = owner_ref(f->hub, who->quota[0] ? str_of(who->quota) : name);
    x->expires_at_ms = who->expires_at_ms;
    x->rights = who->rights;
    address_text(f, x->wsi, x->from);
    x->trace = http_trace(x->wsi);
}

/* A proof that is not good, for any reason: there is no such file. */
static enum error identify_link(struct exchange *x, const char *proof, char *why, size_t n)
{
    struct file_link link = {.conversation_id = str_of(x->conversation_id),
                             .file_id = str_of(x->task_id)};
    struct identity who = {0};
    if (front_identify_link(x->front, &link, str_of(proof), &who)) {
        take_identity(x, &who);
        return ERR_NONE;
    }
    snprintf(why, n, NO_SUCH_FILE);
    return ERR_NOT_FOUND;
}

static enum error identify(struct exchange *x, char *why, size_t n)
{
    struct front *f = x->front;
    char *proof = x->route->takes_link ? http_query_value(x->wsi, FILE_LINK_QUERY) : NULL;
    if (proof) {
        enum error wrong = identify_link(x, proof, why, n);
        free(proof);
        return wrong;
    }
    char *bearer = http_bearer(x->wsi), *cookie = http_cookie(f, x->wsi);
    struct identity who = {0};
    enum error e = ERR_NONE;
    if (!bearer && !cookie) {
        snprintf(why, n, "a token is missing");
        e = ERR_UNAUTHORIZED;
    } else if (!front_identify(f, STR_NULL, str_of(bearer), str_of(cookie), &who)) {
        snprintf(why, n, "%s", who.error);
        e = who.later ? ERR_OVERLOADED : ERR_UNAUTHORIZED;
    } else {
        take_identity(x, &who);
    }
    buf_done(&who.token);
    free(bearer);
    free(cookie);
    return e;
}

/* --- answers ---------------------------------------------------------------------------------- */

void http_api_ready(struct exchange *x, int status)
{
    x->answered = true;
    x->status = status;
    lws_callback_on_writable(x->wsi);
}

static void put_refusal(struct exchange *x, enum error e, const char *message)
{
    buf_clear(&x->answer);
    if (x->route && x->route->kind)
        x->route->kind->put_error(x, &x->answer, e, message);
    else
        http_put_error(&x->answer, e, message);
}

void http_api_fail(struct exchange *x, enum error e, const char *message)
{
    x->front->hub->stats.refusals[e]++;
    put_refusal(x, e, message);
    http_api_ready(x, error_status(e));
}

static void on_reply(void *arg, enum error e, struct str line)
{
    struct exchange *x = arg;
    x->call = NULL;
    if (e) {
        http_put_error_line(&x->answer, line);
        http_api_ready(x, error_status(e));
        return;
    }
    static const char repeated[] = ",\"repeated\":true}";
    bool again = line.n > sizeof repeated &&
                 memcmp(line.p + line.n - sizeof repeated + 1, repeated, sizeof repeated - 1) == 0;
    buf_putstr(&x->answer, line);
    http_api_ready(x, again ? 200 : x->route->made_status);
}

/* --- the request ------------------------------------------------------------------------------ */

/* Whether the name is in a list that is separated by spaces. */
static bool has_name(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; n && (at = strstr(at, name)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0))
            return true;
    return false;
}

/* ?limit=10&before=… of those that the route knows, as members of a JSON object. */
static void put_query(struct exchange *x, struct buf *out)
{
    int n = lws_hdr_total_length(x->wsi, WSI_TOKEN_HTTP_URI_ARGS); /* no pair is longer */
    char *pair = xcalloc((size_t)(n > 0 ? n : 0) + 1);
    buf_putc(out, '{');
    for (int i = 0; lws_hdr_copy_fragment(x->wsi, pair, n + 1, WSI_TOKEN_HTTP_URI_ARGS, i) >= 0;
         i++) {
        char *value = strchr(pair, '=');
        if (!value)
            continue;
        *value++ = 0;
        if (!has_name(x->route->query, pair))
            continue;
        struct str v = str_of(value);
        if (has_name("after cursor", pair) &&
            lws_hdr_custom_length(x->wsi, LAST_EVENT_ID, sizeof LAST_EVENT_ID - 1) > 0)
            continue; /* EventSource repeats its address, but the header is newer */
        bool is_id = has_name("before cursor webhook_id schedule_id share_id query", pair);
        bool raw = !is_id && http_value_is_json(v);
        if (raw)
            js_put_raw(out, pair, v);
        else
            js_put_field(out, pair, v);
    }
    free(pair);
    buf_putc(out, '}');
}

/* A header that stands for a member: its value goes first, so that a body that has the member too
 * contains a duplicate, and is refused. */
static void put_header(struct exchange *x, struct buf *body, const char *header, const char *member,
                       bool number)
{
    char *value = http_head_value(x->wsi, header);
    struct str text = body->len ? buf_str(body) : STR("{}"); /* both with a NUL at the end */
    const char *rest = text.p + strspn(text.p, " \t\r\n");
    if (!value || *rest++ != '{') { /* the decoder reports what is not an object */
        free(value);
        return;
    }
    struct buf with = {0};
    struct str v = str_of(value);
    buf_putc(&with, '{');
    if (number && http_value_is_json(v))
        js_put_raw(&with, member, v);
    else
        js_put_field(&with, member, v);
    if (*(rest + strspn(rest, " \t\r\n")) != '}')
        buf_putc(&with, ',');
    buf_put(&with, rest, (size_t)(text.p + text.n - rest));
    buf_done(body);
    *body = with;
    free(value);
}

/* RFC 7240 section 4.4. */
static bool wants_strict(struct exchange *x)
{
    char *value = http_head_value(x->wsi, "prefer:");
    bool wants = false;
    for (struct str list = str_of(value); list.p && list.n > 0;)
        wants = wants || str_eq(header_list_next(&list, ','), STR("handling=strict"));
    free(value);
    return wants;
}

static void carry_out(struct exchange *x)
{
    struct hub *h = x->front->hub;
    struct request req;
    struct request_fault fault;
    bool is_watch = x->route->verb == VERB_WATCH;
    const char *last_id = is_watch ? "cursor" : "after";
    if (x->route->own) {
        x->route->own(x);
        return;
    }
    if (x->route->kind) {
        x->route->kind->begin(x);
        return;
    }
    if (x->route->method == GET || x->route->method == DELETE) {
        buf_clear(&x->body);
        put_query(x, &x->body);
    }
    if (x->route->is_events)
        put_header(x, &x->body, LAST_EVENT_ID, last_id, !is_watch);
    if (x->route->verb == VERB_CHAT)
        put_header(x, &x->body, "idempotency-key:", "request_key", false);
    if (!request_from_body(&h->doc, x->route->verb, str_of(x->conversation_id), str_of(x->task_id),
                           buf_str(&x->body), &req, &fault)) {
        http_api_fail(x, fault.code, fault.message);
        return;
    }
    if (wants_strict(x) && !request_knows_members(&h->doc, x->route->verb, &fault)) {
        request_done(&req);
        http_api_fail(x, fault.code, fault.message);
        return;
    }
    if (x->route->is_events) {
        sse_follow(x, &req);
    } else {
        struct asker who = http_asker(x);
        x->call = hub_request(h, &who, &req, on_reply, x);
    }
}

static int api_run(struct exchange *x)
{
    if (x->answered)
        return 0;
    carry_out(x);
    if (!x->answered && !x->streams && !x->own) /* libwebsockets allows 5 s, and a link 6 */
        deadline_set(x->wsi, HTTP_ANSWER_S);
    if (!x->answered && x->length == 0)
        list_push(&x->front->under_way, &x->under_way);
    return 0;
}

static bool takes_pieces(const struct exchange *x)
{
    return x->route && x->route->kind && x->route->kind->piece;
}

/* While a request is carried out, bytes after its body are not read: libwebsockets 4.1 then reports
 * again and again that the body is whole, and serves nobody else.  So a peer that does not wait for
 * the answer is disconnected. */
int http_api_body_ended(struct exchange *x)
{
    if (x->body_ended)
        return -1;
    http_api_hold(x,
                  false); /* libwebsockets writes nothing on a connection that it does not read */
    x->body_ended = true;
    x->to_come = 0;
    list_remove(&x->coming);
    if (x->answered)
        lws_callback_on_writable(x->wsi);  /* it waited for this */
    return x->length > 0 ? api_run(x) : 0; /* without a body it was carried out at once */
}

int http_api_body(struct exchange *x, const char *piece, size_t len)
{
    if (x->front->hub->clock.now_ms - x->begun_ms > BODY_MS)
        return -1;
    x->to_come -= len < x->to_come ? len : x->to_come;
    if (!x->answered && takes_pieces(x))
        x->route->kind->piece(x, piece, len);
    else if (!x->answered)
        buf_put(&x->body, piece, len);
    if (takes_pieces(x))
        x->begun_ms = x->front->hub->clock.now_ms; /* silence is limited, not the whole */
    return 0;
}

void http_api_hold(struct exchange *x, bool hold)
{
    if (x->held == hold || x->body_ended)
        return;
    x->held = hold;
    x->begun_ms = x->front->hub->clock.now_ms;
    lws_rx_flow_control(x->wsi, hold ? 0 : 1);
}

/* The same without a body: there libwebsockets 4.1 neither reads nor stops polling, and the loop
 * would spin until the answer is complete, which for events means the end of their task.  Readable
 * input is mostly the end: the reader has left.  A peer that sent a request during another's answer
 * is served if that answer is quick. */
static void hang_up_the_impatient(struct front *f)
{
    list_each (it, &f->under_way) {
        struct exchange *x = list_item(it, struct exchange, under_way);
        if (f->hub->clock.now_ms - x->begun_ms >= IMPATIENT_MS &&
            tcp_has_input(lws_get_socket_fd(x->wsi)))
            deadline_now(x->wsi);
    }
}

/* Between two pieces of a body libwebsockets allows 5 s, and a phone in a tunnel is silent for
 * longer.  So the remaining time is set anew before those are over. */
void http_api_tick(struct front *f)
{
    hang_up_the_impatient(f);
    http_files_tick(f);
    list_each (it, &f->bodies) {
        struct exchange *x = list_item(it, struct exchange, coming);
        if (x->held)
            x->begun_ms = f->hub->clock.now_ms;
        msec_t left = x->begun_ms + BODY_MS - f->hub->clock.now_ms;
        if (left > 0)
            deadline_set(x->wsi, (int)(left / 1000) + 1);
        else
            deadline_now(x->wsi);
    }
}

/* --- the beginning ---------------------------------------------------------------------------- */

/* Paced by owner, or by address if there is none. */
static bool is_in_time(struct exchange *x)
{
    struct front *f = x->front;
    char group[NET_TEXT + 1] = "\x01"; /* no owner has such a name */
    if (!x->owner)
        address_group(f, x->wsi, group + 1);
    if (pace_take(f, str_of(x->owner ? x->owner->name : group)))
        return true;
    f->hub->stats.limit_hits[LIMIT_RATE]++;
    http_api_fail(x, ERR_RATE_LIMITED, "too many requests");
    return false;
}

static bool refuse_as(struct exchange *x, int status, const char *message)
{
    put_refusal(x, ERR_UNSUPPORTED, message);
    http_api_ready(x, status);
    return false;
}

static bool fits_file(struct exchange *x)
{
    size_t most = (size_t)x->front->config->rim_limits.file_mib << 20;
    if (x->length <= most || most == 0) /* its own answer says that none are taken */
        return true;
    http_api_fail(x, ERR_TOO_LARGE, "the body is larger than limits.file_mib");
    return false;
}

/* The checks before anything of the body is read; a failure is answered. */
static bool is_welcome(struct exchange *x, bool from_cookie)
{
    struct front *f = x->front;
    char why[128] = "";
    bool pieces = takes_pieces(x);
    if (from_cookie && !only_reads(x->route->method) && !x->route->allow && !pieces &&
        !http_head_is_json(x->wsi))
        return refuse_as(x, 415, "with a cookie a change must be application/json");
    if (x->is_admins && !x->route->own && !admin_take_owner(x))
        return false;
    enum error e = x->is_admins || x->route->own ? ERR_NONE : identify(x, why, sizeof why);
    if (!x->is_admins && !is_in_time(x))
        return false;
    if (e) {
        http_api_fail(x, e, why);
        return false;
    }
    if (x->route->allow)
        return refuse_as(x, 405, "this method is not served here");
    if (pieces)
        return fits_file(x);
    bool face = x->route->kind; /* other protocols send the whole history with each message */
    if (x->length > (face ? f->config->rim_limits.face_bytes : f->config->limits.message_bytes)) {
        http_api_fail(x, ERR_TOO_LARGE,
                      face ? "the body is larger than limits.face_bytes"
                           : "the body is larger than limits.message_bytes");
        return false;
    }
    if (x->length > 0 && !http_head_is_json(x->wsi))
        return refuse_as(x, 415, "the body must be application/json");
    return true;
}

static void await_body(struct exchange *x)
{
    x->hangs_up = false;
    x->to_come = x->length;
    if (x->to_come > 0 && !list_is_in(&x->coming))
        list_push(&x->front->bodies, &x->coming);
}

static int ask_for_body(struct exchange *x)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    unsigned char bytes[LWS_PRE + sizeof line];
    memcpy(bytes + LWS_PRE, line, sizeof line - 1);
    await_body(x);
    return lws_write(x->wsi, bytes + LWS_PRE, sizeof line - 1, LWS_WRITE_HTTP_HEADERS) < 0 ? -1 : 0;
}

/* How many bytes follow the head.  When that is unclear, or too much, the answer is the last
 * one. */
static const char *expect_body(struct exchange *x)
{
    const char *wrong = http_head_length(x->wsi, &x->length);
    x->hangs_up = true;
    x->waits = x->length > 0 && http_head_waits(x->wsi);
    if (wrong || lws_hdr_total_length(x->wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0)
        return wrong;
    if (x->length <= DROPPED_BODY && !x->waits)
        await_body(x);
    return NULL;
}

/* Browsers omit Origin on same-site GETs, so a cookie alone is accepted there.  When the browser
 * says that the request comes from another site, it needs an Origin. */
static bool needs_origin(struct lws *wsi)
{
    char *site = http_head_value(wsi, "sec-fetch-site:");
    bool own = !site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0;
    free(site);
    return !only_reads(http_method(wsi)) || !own;
}

int http_api_begin(struct front *f, struct lws *wsi, struct exchange **slot, const char *path)
{
    if (lws_hdr_total_length(wsi, WSI_TOKEN_OPTIONS_URI) > 0)
        return http_answer_preflight(f, wsi);
    struct exchange *x = xcalloc(sizeof *x);
    x->front = f;
    x->wsi = wsi;
    *slot = x;
    x->begun_ms = f->hub->clock.now_ms;
    const char *wrong = expect_body(x);
    x->is_head = http_is_head(wsi);
    x->is_admins = admin_claims(x, path);
    bool from_cookie = !x->is_admins && http_identity_is_cookie(f, wsi);
    if (http_check_origin_of(f, wsi, from_cookie && needs_origin(wsi)) != ORIGIN_OK) {
        http_put_error(&x->answer, ERR_UNAUTHORIZED, "this origin or host is not allowed");
        http_api_ready(x, 403);
        return 0;
    }
    x->origin = http_listed_origin(f, wsi);
    x->route = http_route_find(x, http_method(wsi), path);
    if (!x->route)
        return 0;
    if (lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0) {
        http_put_error(&x->answer, ERR_BAD_REQUEST, "a body needs a Content-Length");
        http_api_ready(x, 411);
        return 0;
    }
    if (wrong) {
        http_put_error(&x->answer, ERR_BAD_REQUEST, wrong);
        http_api_ready(x, 400);
        return 0;
    }
    if (!is_welcome(x, from_cookie))
        return 0;
    if (!relay_takes(x, path) && takes_pieces(x))
        x->route->kind->head(x);
    if (takes_pieces(x)) {
        if (!x->answered && !x->waits)
            await_body(x);
    }
    if (x->length == 0)
        return api_run(x);
    return x->waits && !x->answered ? ask_for_body(x) : 0;
}

int http_api_writable(struct exchange *x)
{
    if (!x)
        return 0;
    if (x->streams)
        return sse_writable(x);
    if (x->watches)
        return admin_watch_writable(x);
    if (x->sends)
        return x->route->kind->writable(x);
    /* A peer that sends head and body in two packets would find the connection closed after a
     * refusal of the head, and the refusal lost in a reset. */
    if (!x->answered || x->to_come > 0)
        return 0;
    struct http_json json = {x->status, x->origin, .is_head = x->is_head};
    json.body = buf_str(&x->answer);
    if (x->own) {
        json.name = x->route->kind->header(x, &json.value);
        json.lines = x->route->kind->lines(x);
    } else if (x->status == 405) {
        json.name = "allow:";
        json.value = x->route->allow;
    }
    return http_answer_json(x->wsi, &json) < 0 ? -1 : http_api_complete(x);
}

int http_api_complete(struct exchange *x)
{
    struct lws *wsi = x->wsi;
    bool close = x->hangs_up;
    *(struct exchange **)lws_wsi_user(wsi) = NULL;
    http_api_closed(x);
    return close || lws_http_transaction_completed(wsi) ? -1 : 0;
}

void http_api_closed(struct exchange *x)
{
    if (!x)
        return;
    if (x->call)
        call_forget(x->call);
    admin_forget(x);
    handover_forget(x->redeeming);
    sse_done(x);
    if (x->own)
        x->route->kind->closed(x);
    list_remove(&x->coming);
    list_remove(&x->under_way);
    if (x->owner) {
        owner_unref(x->front->hub, x->owner);
        owner_unref(x->front->hub, x->quota);
    }
    rights_unref(x->rights);
    buf_done(&x->body);
    buf_done(&x->answer);
    free(x->conversation_id);
    free(x->task_id);
    free(x->agent);
    free(x->origin);
    free(x->watched_owner);
    free(x->operator_);
    free(x->trace);
    free(x);
}
