/* Design.  The life of one server.
 *
 *              no answer in 2 s, or an error
 *   PROBING ─────────────────────────────────▶ INITIALIZING ──▶ SETTLING
 *     │ it is modern                                               │ quiet for 250 ms
 *     └────────────────────▶ LISTING ◀──────────────────────────────┘
 *                               │ the last page
 *                               ▼
 *                             READY ──── it ends, hangs, floods ───▶ STOPPED ── a pause ──▶ PROBING
 *
 * A list that is asked for again while it is READY changes no phase: the old one is good until the
 * new one is whole. */
#include <stdio.h>
#include <stdlib.h>

#include "core/backoff.h"
#include "gateway/base/log.h"
#include "gateway/mcp/mcp_private.h"
#include "proto/forms/say.h"

#define PROBE_MS 2000 /* then a program is spoken to by the older protocol */
#define HTTP_PROBE_MS 10000
#define INITIALIZE_MS 30000
#define LIST_MS 30000
#define SETTLE_MS 250
#define CHANGE_MS 250   /* changes that come together make one list */
#define CHANGES_MS 5000 /* a list at most so often */
#define LIFE_MS 10000   /* to show that it still answers */
#define PAUSE_MS 1000   /* before it is started again, doubled each time */
#define LONG_PAUSE_MS 60000
#define GOOD_MS 30000 /* it ran that long: the next pause is the first one again */
#define MESSAGES_PER_S 200
#define MESSAGES_BURST 1000
#define KBYTES_PER_S 4096
#define KBYTES_BURST (20 * 1024)
#define FLOOD_MS 30000
#define FLOOD_LOOK_MS 100
#define NOISE 100 /* lines that are no messages */

msec_t mcp_now(const struct mcp_server *s)
{
    return s->mcp->o.clock->now_ms;
}

void mcp_arm(struct mcp_server *s, struct timer *t, msec_t ms)
{
    timer_arm(s->mcp->o.clock, t, mcp_now(s) + (ms > 0 ? ms : 1));
}

void mcp_disarm(struct mcp_server *s, struct timer *t)
{
    if (timer_is_armed(t))
        timer_disarm(s->mcp->o.clock, t);
}

/* --- sending ---------------------------------------------------------------------------------- */

int64_t mcp_server_ask(struct mcp_server *s, const struct mcp_ask *ask)
{
    struct mcp_request_form form = {.id = ++s->last_id,
                                    .era = s->era,
                                    .version = HOLDFAST_VERSION,
                                    .method = ask->method,
                                    .params = ask->params,
                                    .wants_progress = ask->wants_progress,
                                    .trace = ask->job ? trace_kept(&ask->job->trace) : NULL};
    buf_clear(&s->body);
    if (ask->purpose == MCP_FOR_INITIALIZE)
        mcp_put_initialize(&s->body, form.id, HOLDFAST_VERSION);
    else
        mcp_put_request(&s->body, &form);
    struct mcp_outgoing message = {.body = buf_str(&s->body),
                                   .id = form.id,
                                   .method = ask->method,
                                   .name = ask->name,
                                   .headers = ask->headers,
                                   .stays = ask->purpose == MCP_FOR_LISTEN};
    if (!s->link || !s->link->ops->send(s->link, &message))
        return 0;
    struct mcp_request *r = xcalloc(sizeof *r);
    *r = (struct mcp_request){.id = form.id, .purpose = ask->purpose, .job = ask->job};
    list_push(&s->requests, &r->node);
    return r->id;
}

static int64_t ask_plainly(struct mcp_server *s, enum mcp_purpose purpose, const char *method,
                           struct str params)
{
    return mcp_server_ask(
        s, &(struct mcp_ask){.purpose = purpose, .method = method, .params = params});
}

void mcp_server_tell(struct mcp_server *s, const char *method, struct str body)
{
    if (s->link)
        (void)s->link->ops->send(s->link, &(struct mcp_outgoing){.body = body, .method = method});
}

void mcp_server_forget(struct mcp_server *s, int64_t id)
{
    list_each (it, &s->requests) {
        struct mcp_request *r = list_item(it, struct mcp_request, node);
        if (r->id != id)
            continue;
        list_remove(&r->node);
        free(r);
    }
    if (s->link)
        s->link->ops->forget(s->link, id);
}

static void forget_all(struct mcp_server *s)
{
    struct list *node;
    while ((node = list_pop(&s->requests)) != NULL)
        free(list_item(node, struct mcp_request, node));
}

/* --- starting and ending ---------------------------------------------------------------------- */

bool mcp_server_is_starting(const struct mcp_server *s)
{
    return s->phase == MCP_STOPPED ? !s->begun && !s->stopped : s->phase != MCP_READY;
}

static void close_link(struct mcp_server *s, bool kill)
{
    struct mcp_link *link = s->link;
    s->link = NULL;
    forget_all(s);
    if (link)
        link->ops->close(link, kill);
}

static void disarm_all(struct mcp_server *s)
{
    struct timer *const timers[] = {&s->timer, &s->refresh, &s->relisten, &s->life, &s->flood};
    for (size_t i = 0; i < countof(timers); i++)
        mcp_disarm(s, timers[i]);
}

void mcp_server_down(struct mcp_server *s, const char *why, msec_t wait_ms)
{
    bool was_good = s->phase == MCP_READY && mcp_now(s) - s->ready_ms >= GOOD_MS;
    s->failures = was_good ? 1 : s->failures + 1;
    if (wait_ms < 0)
        wait_ms = backoff_ms(s->failures, PAUSE_MS, LONG_PAUSE_MS);
    if (why != s->why)
        snprintf(s->why, sizeof s->why, "%s", why);
    log_event_limited(LEVEL_WARN, "mcp", "down", LOG_TEXT("server", s->config->name),
                      LOG_TEXT("why", s->why), LOG_INT("again_in_ms", wait_ms));
    s->phase = MCP_STOPPED;
    s->lists = s->listens = s->elicits = false;
    s->stats.tools = 0;
    s->noise = 0;
    s->flooded_ms = 0;
    disarm_all(s);
    close_link(s, true);
    mcp_catalog_done(&s->catalog);
    mcp_arm(s, &s->timer, wait_ms);
    mcp_jobs_fail(s, s->why, wait_ms > 0);
    mcp_hands_review(s->mcp);
}

void mcp_server_died(struct mcp_server *s, const char *why)
{
    mcp_server_down(s, why, -1);
}

void mcp_server_open(struct mcp_server *s)
{
    char why[MCP_WHY];
    s->begun = true;
    s->messages = bucket_full(MESSAGES_BURST, mcp_now(s));
    s->kbytes = bucket_full(KBYTES_BURST, mcp_now(s));
    s->phase = MCP_PROBING;
    s->era = MCP_MODERN;
    s->says_changes = s->has_tasks = false;
    s->ttl_ms = -1;
    s->relistens = 0;
    s->link = s->config->command.n ? mcp_stdio_open(s, why) : mcp_http_open(s, why);
    if (!s->link || !ask_plainly(s, MCP_FOR_PROBE, "server/discover", STR(""))) {
        mcp_server_down(s, s->link ? "it does not read" : why, -1);
        return;
    }
    mcp_arm(s, &s->timer, s->config->command.n ? PROBE_MS : HTTP_PROBE_MS);
}

static void begin_handshake(struct mcp_server *s)
{
    s->era = MCP_LEGACY;
    s->phase = MCP_INITIALIZING;
    mcp_arm(s, &s->timer, INITIALIZE_MS);
    list_each (it, &s->requests) { /* a late answer to the probe is none */
        struct mcp_request *r = list_item(it, struct mcp_request, node);
        list_remove(&r->node);
        free(r);
    }
    if (!ask_plainly(s, MCP_FOR_INITIALIZE, "initialize", STR("")))
        mcp_server_down(s, "it does not read", -1);
}

static void begin_list(struct mcp_server *s)
{
    mcp_catalog_done(&s->catalog);
    s->lists = true;
    s->listed_ms = mcp_now(s);
    if (s->phase != MCP_READY) {
        s->phase = MCP_LISTING;
        mcp_arm(s, &s->timer, LIST_MS);
    }
    if (!ask_plainly(s, MCP_FOR_LIST, "tools/list", STR("")))
        mcp_server_down(s, "it does not read", -1);
}

static void on_phase(struct timer *timer)
{
    struct mcp_server *s = container_of(timer, struct mcp_server, timer);
    switch (s->phase) {
    case MCP_STOPPED:
        s->stats.restarts++;
        mcp_server_open(s);
        break;
    case MCP_PROBING:
        if (s->config->command.n)
            begin_handshake(s);
        else
            mcp_server_down(s, "it does not answer", -1);
        break;
    case MCP_INITIALIZING: mcp_server_down(s, "it does not answer initialize", -1); break;
    case MCP_SETTLING: begin_list(s); break;
    case MCP_LISTING: mcp_server_down(s, "it does not list its tools", -1); break;
    case MCP_READY: break;
    }
}

/* --- lists ------------------------------------------------------------------------------------ */

static void on_refresh(struct timer *timer)
{
    struct mcp_server *s = container_of(timer, struct mcp_server, refresh);
    if (s->phase == MCP_READY && !s->lists)
        begin_list(s);
}

void mcp_server_again(struct mcp_server *s)
{
    msec_t since = mcp_now(s) - s->listed_ms;
    if (s->phase == MCP_SETTLING)
        mcp_arm(s, &s->timer, SETTLE_MS);
    if (s->phase != MCP_READY || timer_is_armed(&s->refresh))
        return;
    mcp_arm(s, &s->refresh, since >= CHANGES_MS ? CHANGE_MS : CHANGES_MS - since);
}

bool mcp_server_refreshes(struct mcp_server *s, msec_t since)
{
    if (s->phase != MCP_READY || s->listens || s->ttl_ms < 0)
        return false;
    if (!s->lists && s->listed_ms < since && mcp_now(s) - s->listed_ms > s->ttl_ms)
        begin_list(s);
    return s->phase == MCP_READY && s->lists;
}

static void begin_listening(struct mcp_server *s)
{
    if (s->era == MCP_LEGACY)
        s->link->ops->listen(s->link);
    else if (s->says_changes)
        (void)ask_plainly(s, MCP_FOR_LISTEN, "subscriptions/listen",
                          STR("\"notifications\":{\"toolsListChanged\":true}"));
}

static void on_relisten(struct timer *timer)
{
    struct mcp_server *s = container_of(timer, struct mcp_server, relisten);
    if (s->phase == MCP_READY)
        begin_listening(s);
}

static void on_whole_list(struct mcp_server *s)
{
    struct mcp_list *old = s->list;
    bool first = s->phase != MCP_READY;
    mcp_catalog_close(&s->catalog, s->config->name);
    s->list = mcp_list_new(s, &s->catalog);
    s->lists = false;
    s->stats.tools = s->list->n;
    mcp_list_drop(old);
    log_event_limited(LEVEL_INFO, "mcp", first ? "ready" : "listed",
                      LOG_TEXT("server", s->config->name),
                      LOG_TEXT("protocol", s->era == MCP_MODERN ? MCP_MODERN_VERSION : s->version),
                      LOG_INT("tools", (int64_t)s->list->n));
    if (first) {
        mcp_disarm(s, &s->timer);
        s->phase = MCP_READY;
        s->ready_ms = mcp_now(s);
        begin_listening(s);
        mcp_jobs_ready(s);
    }
    mcp_hands_review(s->mcp);
}

static void on_page(struct mcp_server *s, const struct mcp_message *m)
{
    uint32_t ttl = js_get(&s->doc, m->result, "ttlMs");
    if (s->era == MCP_MODERN && (!ttl || !js_int(&s->doc, ttl, &s->ttl_ms)))
        s->ttl_ms = -1;
    switch (mcp_catalog_add(&s->catalog, &s->doc, m->result)) {
    case MCP_PAGE_LAST: on_whole_list(s); return;
    case MCP_PAGE_BAD: mcp_server_down(s, "its answer to tools/list has no list", -1); return;
    case MCP_PAGE_MORE: break;
    }
    buf_clear(&s->scratch);
    js_put_raw(&s->scratch, "cursor", buf_str(&s->catalog.cursor));
    struct str params = {s->scratch.bytes, s->scratch.len};
    if (params.n && params.p[0] == ',')
        params = (struct str){params.p + 1, params.n - 1};
    if (!ask_plainly(s, MCP_FOR_LIST, "tools/list", params))
        mcp_server_down(s, "it does not read", -1);
}

/* --- the handshakes --------------------------------------------------------------------------- */

static void read_modern(struct mcp_server *s, uint32_t result)
{
    const struct js_doc *doc = &s->doc;
    uint32_t can = say_member(doc, result, "capabilities"), tools = say_member(doc, can, "tools"),
             changes = say_member(doc, tools, "listChanged");
    s->says_changes = changes && js_type(doc, changes) == JS_TRUE;
    s->has_tasks = true; /* it may always answer with one */
}

static void on_modern(struct mcp_server *s, uint32_t result)
{
    s->era = MCP_MODERN;
    if (result)
        read_modern(s, result);
    begin_list(s);
}

static void on_discovered(struct mcp_server *s, const struct mcp_message *m)
{
    uint32_t versions = js_get(&s->doc, m->result, "supportedVersions");
    if (mcp_list_has(&s->doc, versions, MCP_MODERN_VERSION))
        on_modern(s, m->result);
    else
        begin_handshake(s);
}

/* The versions that a refusal names, of which we must take one. */
static void on_version(struct mcp_server *s, const struct js_doc *doc, uint32_t data)
{
    uint32_t list = say_member(doc, data, "supported");
    bool is_legacy = false;
    if (mcp_list_has(doc, list, MCP_MODERN_VERSION) && s->era == MCP_LEGACY) {
        on_modern(s, 0);
        return;
    }
    for (uint32_t i = list && js_type(doc, list) == JS_ARRAY ? js_first(doc, list) : 0;
         i && i < js_end(doc, list); i = js_next(doc, i))
        is_legacy |= mcp_is_legacy_version(doc, i);
    if (is_legacy && s->phase == MCP_PROBING)
        begin_handshake(s);
    else
        mcp_server_down(s, "it speaks no version of the protocol that the gateway does",
                        LONG_PAUSE_MS);
}

static void on_initialized(struct mcp_server *s, const struct mcp_message *m)
{
    const struct js_doc *doc = &s->doc;
    uint32_t can = say_member(doc, m->result, "capabilities");
    uint32_t tasks = say_member(doc, say_member(doc, can, "tasks"), "requests");
    if (!mcp_is_legacy_version(doc, js_get(doc, m->result, "protocolVersion"))) {
        mcp_server_down(s, "it speaks no version of the protocol that the gateway does",
                        LONG_PAUSE_MS);
        return;
    }
    s->has_tasks = say_member(doc, say_member(doc, tasks, "tools"), "call") != 0;
    struct str version = js_raw(doc, js_get(doc, m->result, "protocolVersion"));
    snprintf(s->version, sizeof s->version, "%.*s", (int)version.n, version.p);
    s->phase = MCP_SETTLING;
    buf_clear(&s->body);
    mcp_put_notification(&s->body, "notifications/initialized", STR(""));
    mcp_server_tell(s, "notifications/initialized", buf_str(&s->body));
    mcp_arm(s, &s->timer, SETTLE_MS);
}

static void put_refusal(struct mcp_server *s, const char *what, const struct mcp_message *m,
                        struct buf *out)
{
    buf_puts(out, what);
    if (m->text)
        js_value(&s->doc, m->text, out);
    else
        buf_putf(out, "error %lld", (long long)m->code);
    buf_putc(out, 0);
}

static void on_refusal(struct mcp_server *s, enum mcp_purpose purpose, const struct mcp_message *m)
{
    struct buf why = {0};
    bool is_modern = m->code == MCP_HEADER_MISMATCH || m->code == MCP_NO_CAPABILITY;
    if (m->code == MCP_NO_VERSION && (purpose == MCP_FOR_PROBE || purpose == MCP_FOR_INITIALIZE)) {
        on_version(s, &s->doc, m->data);
    } else if (purpose == MCP_FOR_PROBE && is_modern) {
        on_modern(s, 0);
    } else if (purpose == MCP_FOR_PROBE) {
        begin_handshake(s);
    } else if (purpose == MCP_FOR_LIST && m->code == MCP_NO_METHOD) {
        on_whole_list(s); /* it has no tools */
    } else if (purpose == MCP_FOR_INITIALIZE ||
               (purpose == MCP_FOR_LIST && s->phase != MCP_READY)) {
        put_refusal(s, purpose == MCP_FOR_LIST ? "tools/list: " : "initialize: ", m, &why);
        mcp_server_down(s, why.bytes, -1);
    } else if (purpose == MCP_FOR_LIST) {
        s->lists = false; /* the old list stays */
        mcp_hands_review(s->mcp);
    }
    buf_done(&why);
}

static void listen_again(struct mcp_server *s)
{
    s->listens = false;
    mcp_arm(s, &s->relisten, backoff_ms(++s->relistens, PAUSE_MS, LONG_PAUSE_MS));
}

void mcp_server_answered(struct mcp_server *s, enum mcp_purpose purpose,
                         const struct mcp_message *m)
{
    if (purpose == MCP_FOR_NOTHING)
        return;
    if (purpose == MCP_FOR_LIFE) {
        mcp_disarm(s, &s->life);
    } else if (purpose == MCP_FOR_LISTEN) {
        if (m->kind == MCP_RESULT) /* a polite end; an error: there is no such thing */
            listen_again(s);
    } else if (m->kind == MCP_ERROR) {
        on_refusal(s, purpose, m);
    } else if (purpose == MCP_FOR_PROBE) {
        on_discovered(s, m);
    } else if (purpose == MCP_FOR_INITIALIZE) {
        on_initialized(s, m);
    } else {
        on_page(s, m);
    }
}

/* --- replies of HTTP that are no messages ----------------------------------------------------- */

static void put_loss(struct buf *out, const char *what, const struct mcp_loss *loss)
{
    buf_puts(out, what);
    buf_putstr(out, loss->why);
    buf_putc(out, 0);
}

void mcp_server_refused(struct mcp_server *s, enum mcp_purpose purpose, const struct mcp_loss *loss)
{
    struct buf why = {0};
    int status = loss->status;
    if (purpose == MCP_FOR_NOTHING)
        return;
    if (purpose == MCP_FOR_LIFE && status != 0) { /* whatever it says, it is there */
        mcp_disarm(s, &s->life);
        return;
    }
    if (purpose == MCP_FOR_LISTEN) {
        listen_again(s);
    } else if (status == 401 || status == 403) {
        put_loss(&why, "it is not authorized: ", loss);
        mcp_server_down(s, why.bytes, LONG_PAUSE_MS);
    } else if (purpose == MCP_FOR_PROBE && (status == 400 || status == 404 || status == 405 ||
                                            status == 406 || status == 415)) {
        begin_handshake(s);
    } else if (purpose == MCP_FOR_INITIALIZE && (status == 404 || status == 405)) {
        put_loss(&why,
                 "it takes no POST (the SSE transport of 2024-11-05 is not supported): ", loss);
        mcp_server_down(s, why.bytes, -1);
    } else {
        put_loss(&why, "", loss);
        mcp_server_down(s, why.bytes, -1);
    }
    buf_done(&why);
}

/* --- doubt, floods, noise --------------------------------------------------------------------- */

static void on_life(struct timer *timer)
{
    struct mcp_server *s = container_of(timer, struct mcp_server, life);
    mcp_server_down(s, "it hangs: it no longer answers", -1);
}

/* A server that hangs, or is gone, is of no use to the calls to come. */
void mcp_server_doubt(struct mcp_server *s)
{
    if (s->phase != MCP_READY || timer_is_armed(&s->life))
        return;
    mcp_arm(s, &s->life, LIFE_MS);
    if (!ask_plainly(s, MCP_FOR_LIFE, s->era == MCP_LEGACY ? "ping" : "server/discover", STR("")))
        mcp_server_down(s, "it does not read", -1);
}

static bool is_flooded(const struct mcp_server *s)
{
    return s->messages.tokens < 0 || s->kbytes.tokens < 0;
}

static void on_flood(struct timer *timer)
{
    struct mcp_server *s = container_of(timer, struct mcp_server, flood);
    bucket_fill(&s->messages, mcp_now(s), MESSAGES_PER_S, MESSAGES_BURST);
    bucket_fill(&s->kbytes, mcp_now(s), KBYTES_PER_S, KBYTES_BURST);
    if (mcp_now(s) - s->flooded_ms > FLOOD_MS)
        mcp_server_down(s, "it floods the gateway with messages", -1);
    else if (is_flooded(s))
        mcp_arm(s, timer, FLOOD_LOOK_MS);
    else
        s->link->ops->go_on(s->link);
}

bool mcp_server_heard(struct mcp_server *s, size_t messages, size_t bytes)
{
    msec_t now = mcp_now(s);
    bucket_fill(&s->messages, now, MESSAGES_PER_S, MESSAGES_BURST);
    bucket_fill(&s->kbytes, now, KBYTES_PER_S, KBYTES_BURST);
    if (s->messages.tokens > MESSAGES_BURST / 2.0 && s->kbytes.tokens > KBYTES_BURST / 2.0)
        s->flooded_ms = 0;
    s->messages.tokens -= (double)messages;
    s->kbytes.tokens -= (double)bytes / 1024;
    if (!is_flooded(s))
        return true;
    if (s->flooded_ms == 0)
        s->flooded_ms = now;
    if (!timer_is_armed(&s->flood))
        mcp_arm(s, &s->flood, FLOOD_LOOK_MS);
    return false;
}

void mcp_server_noise(struct mcp_server *s, struct str line)
{
    log_event_limited(LEVEL_DEBUG, "mcp", "noise", LOG_TEXT("server", s->config->name),
                      LOG_STR("line", line));
    if (++s->noise == NOISE)
        mcp_server_down(s, "it writes lines that are no messages", -1);
}

/* --- life ------------------------------------------------------------------------------------- */

static void on_left_out(void *arg, struct str name, const char *why)
{
    struct mcp_server *s = arg;
    log_event_limited(LEVEL_WARN, "mcp", "tool_left_out", LOG_TEXT("server", s->config->name),
                      LOG_STR("tool", name), LOG_TEXT("why", why));
}

void mcp_server_init(struct mcp_server *s, struct mcp *m, const struct config_mcp *config)
{
    *s = (struct mcp_server){.mcp = m,
                             .config = config,
                             .timer.fire = on_phase,
                             .refresh.fire = on_refresh,
                             .relisten.fire = on_relisten,
                             .life.fire = on_life,
                             .flood.fire = on_flood,
                             .catalog = {.left_out = on_left_out, .arg = s},
                             .stats.server = config->name};
    list_init(&s->requests);
    list_init(&s->jobs);
}

void mcp_server_stop(struct mcp_server *s)
{
    s->stopped = true;
    s->phase = MCP_STOPPED;
    disarm_all(s);
    close_link(s, false);
}

void mcp_server_done(struct mcp_server *s)
{
    ASSERT(list_is_empty(&s->jobs) && !s->link);
    mcp_list_drop(s->list);
    mcp_catalog_done(&s->catalog);
    js_done(&s->doc);
    buf_done(&s->scratch);
    buf_done(&s->body);
}
