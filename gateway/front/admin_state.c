#include "gateway/front/admin_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/task.h"
#include "gateway/base/audit.h"
#include "gateway/base/deadline.h"
#include "gateway/base/log.h"
#include "gateway/cluster/cluster.h"
#include "gateway/front/address.h"
#include "gateway/front/admin_others.h"
#include "gateway/front/lws_quirks.h"
#include "gateway/front/relay.h"
#include "gateway/front/tenants.h"
#include "gateway/front/ws.h"
#include "proto/str.h"

#define MOST_WATCHERS 16
#define MANY_TASKS 10000 /* to count them takes milliseconds of everybody's turn */
#define SELDOM_MS 5000
#define PATIENCE_MS 60000
#define HIDDEN '\x01' /* begins the names of owners that no client can have */

/* --- rows ------------------------------------------------------------------------------------- */

struct state_list {
    struct buf *out;
    const char *owner; /* "" for all */
    const char *node;  /* this one; NULL: there can be no other */
    size_t n, n_shown;
};

/* A store of one process has one gateway, whose rows need no name. */
static const char *node_name(const struct front *f)
{
    return cluster_incarnation(f->cluster) ? f->config->cluster.node : NULL;
}

/* Begins a row, unless it is not wanted or there are enough. */
static bool begin_row(struct state_list *list, const char *owner)
{
    list->n++;
    if (!strstr(owner, list->owner) || list->n_shown >= STATE_ROWS)
        return false;
    buf_puts(list->out, list->n_shown++ ? ",{" : "{");
    js_put_field(list->out, "owner", str_of(owner));
    if (list->node)
        js_put_field(list->out, "node", str_of(list->node));
    return true;
}

static const char *shown_owner(const struct session *s)
{
    return !s->owner ? "" : s->owner->name[0] == HIDDEN ? s->owner->name + 1 : s->owner->name;
}

static void put_connection(struct state_list *list, const struct conn *c)
{
    struct front *f = c->front;
    if (!begin_row(list, shown_owner(&c->session)))
        return;
    js_put_int(list->out, "number", (int64_t)c->number);
    js_put_field(list->out, "from", str_of(c->address->group));
    js_put_field(list->out, "path", str_of(c->kind ? c->kind->path : "/v1/ws"));
    js_put_int(list->out, "since", f->hub->clock.wall_ms - (f->hub->clock.now_ms - c->opened_ms));
    js_put_int(list->out, "silent_ms", f->hub->clock.now_ms - c->heard_ms);
    js_put_int(list->out, "follows", c->session.n_subscriptions);
    js_put_bool(list->out, "blocked", c->stall != NULL);
    js_put_bool(list->out, "known", !c->stranger);
    buf_putc(list->out, '}');
}

static void put_event_stream(struct state_list *list, const struct exchange *x)
{
    struct hub *h = x->front->hub;
    if (!begin_row(list, x->owner->name))
        return;
    js_put_field(list->out, "from", str_of(x->from));
    js_put_field(list->out, "path", str_of(x->route->pattern));
    js_put_int(list->out, "since", h->clock.wall_ms - (h->clock.now_ms - x->begun_ms));
    js_put_int(list->out, "follows", x->session.n_subscriptions);
    js_put_bool(list->out, "blocked", lws_partial_buffered(x->wsi));
    js_put_bool(list->out, "known", true);
    buf_putc(list->out, '}');
}

static uint32_t count_readers(const struct stream *s)
{
    uint32_t n = 0;
    for (const struct list *it = s->cursors.next; it != &s->cursors; it = it->next)
        n++;
    return n;
}

static void put_task(struct map_node *node, void *arg)
{
    struct state_list *list = arg;
    const struct stream *s = container_of(node, const struct stream, node);
    const struct task *t = s->task;
    if (!t || !begin_row(list, s->names->bytes))
        return;
    struct str name = task_field(t, FIELD_name);
    const struct live_state *shown = shown_state(t);
    js_put_field(list->out, "conversation_id", stream_conversation_id(s));
    js_put_field(list->out, "task_id", str_of(s->task_id));
    js_put_field(list->out, "agent",
                 t->agent ? str_of(t->agent->name) : task_field(t, FIELD_agent));
    if (name.n)
        js_put_field(list->out, "name", name);
    js_put_field(list->out, "status", str_of(status_name(shown->status)));
    js_put_int(list->out, "started_at", shown->started_at);
    js_put_int(list->out, "events", (int64_t)s->head);
    js_put_int(list->out, "bytes", (int64_t)t->bytes);
    js_put_int(list->out, "readers", count_readers(s));
    if (shown->waiting_for)
        js_put_field(list->out, "waiting_for", str_of(shown->waiting_for));
    if (shown->cancel_requested_at)
        js_put_int(list->out, "cancel_requested_at", shown->cancel_requested_at);
    buf_putc(list->out, '}');
}

/* --- the state -------------------------------------------------------------------------------- */

static struct state_list begin_list(const struct front *f, struct buf *out, const char *key,
                                    const char *owner)
{
    buf_putf(out, ",\"%s\":[", key);
    return (struct state_list){.out = out, .owner = owner, .node = node_name(f)};
}

static void put_use(const char *node, struct buf *out, const char *name, uint64_t value,
                    uint64_t limit)
{
    buf_puts(out, out->bytes[out->len - 1] == '[' ? "{" : ",{");
    js_put_field(out, "limit", str_of(name));
    if (node)
        js_put_field(out, "node", str_of(node));
    js_put_int(out, "now", (int64_t)value);
    js_put_int(out, "max", (int64_t)limit);
    buf_putc(out, '}');
}

/* Another gateway of the same store: as it says itself, or as of the last beat. */
static void put_other_node(const struct exchange *x, const struct store_node *node, struct buf *out)
{
    const struct cluster *c = x->front->cluster;
    static const char *const states[] = {
        [NODE_LIVES] = "live", [NODE_LEAVES] = "leaving", [NODE_DEAD] = "dead"};
    buf_putc(out, ',');
    if (others_put_node(x, node, out))
        return;
    buf_putc(out, '{');
    js_put_field(out, "name", str_of(node->name));
    js_put_field(out, "phase", str_of(states[node->state]));
    if (x->front->pipes)
        js_put_bool(out, "silent", true);
    js_put_int(out, "slots", cluster_slots_of(c, node->incarnation));
    js_put_int(out, "load", node->load);
    js_put_field(out, "version", str_of(node->version));
    buf_putc(out, '}');
}

static void put_nodes(const struct exchange *x, struct buf *out)
{
    const struct front *f = x->front;
    static const char *const phases[] = {[FRONT_STARTING] = "starting",
                                         [FRONT_SERVING] = "serving",
                                         [FRONT_DRAINING] = "draining",
                                         [FRONT_CLOSING] = "closing"};
    const char *name = f->config->cluster.node;
    buf_puts(out, ",\"nodes\":[{");
    js_put_field(out, "name", str_of(name ? name : "this gateway"));
    js_put_field(out, "phase", str_of(phases[f->phase]));
    js_put_bool(out, "ready", front_is_ready(f));
    js_put_int(out, "pid", getpid());
    js_put_int(out, "port", f->port);
    js_put_field(out, "version", STR(HOLDFAST_VERSION));
    const struct store_node *node = cluster_find_node(f->cluster, cluster_incarnation(f->cluster));
    if (node) /* the store has several */
        js_put_int(out, "slots", cluster_slots_of(f->cluster, node->incarnation));
    if (node)
        js_put_int(out, "load", node->load);
    if (cluster_home_beside(f->cluster)) /* nobody stops it alone */
        js_put_bool(out, "front", true);
    buf_putc(out, '}');
    for (size_t i = 0; (node = cluster_node(f->cluster, i)) != NULL; i++)
        if (node->incarnation != cluster_incarnation(f->cluster))
            put_other_node(x, node, out);
    others_put_fronts(x, out);
    buf_putc(out, ']');
}

static void put_limits(const struct exchange *x, struct buf *out)
{
    const struct front *f = x->front;
    const char *node = node_name(f);
    const struct hub_limits *limits = &f->hub->o.limits;
    buf_puts(out, ",\"limits\":[");
    put_use(node, out, "connections", f->n_conns + f->n_streams, f->config->rim_limits.connections);
    put_use(node, out, "tasks", f->hub->n_live, limits->tasks);
    put_use(node, out, "processes", f->hub->n_processes, limits->processes);
    put_use(node, out, "schedules", f->hub->n_schedules, limits->schedules);
    others_put_rows(x, "limits", out);
    buf_putc(out, ']');
}

static void put_tenants(const struct exchange *x, struct buf *out)
{
    struct front *f = x->front;
    const char *node = node_name(f);
    struct tenant_use rows[TENANTS_SHOWN + 1];
    size_t n = tenants_count(f, rows);
    buf_puts(out, ",\"tenants\":[");
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i ? ",{" : "{");
        js_put_field(out, "tenant", rows[i].name);
        if (node)
            js_put_field(out, "node", str_of(node));
        js_put_int(out, "connections", (int64_t)rows[i].connections);
        js_put_int(out, "tasks", (int64_t)rows[i].tasks);
        buf_putc(out, '}');
    }
    others_put_rows(x, "tenants", out);
    buf_putc(out, ']');
}

static void put_lists(struct exchange *x, struct buf *out)
{
    struct front *f = x->front;
    char *owner = http_query_value(x->wsi, "owner");
    const char *wanted = x->watched_owner ? x->watched_owner : owner ? owner : "";
    struct state_list connections = begin_list(f, out, "connections", wanted);
    list_each (it, &f->conns)
        put_connection(&connections, list_item(it, struct conn, all));
    list_each (it, &f->streams)
        put_event_stream(&connections, list_item(it, struct exchange, all));
    others_put_rows(x, "connections", out);
    buf_putc(out, ']');
    struct state_list tasks = begin_list(f, out, "tasks", wanted);
    map_each(&f->hub->streams, put_task, &tasks);
    others_put_rows(x, "tasks", out);
    buf_putc(out, ']');
    js_put_int(out, "n_connections", (int64_t)connections.n + others_sum(x, "n_connections"));
    js_put_int(out, "n_tasks", f->hub->n_live + others_sum(x, "n_tasks"));
    js_put_bool(out, "is_cut",
                connections.n_shown >= STATE_ROWS || tasks.n_shown >= STATE_ROWS ||
                    others_any(x, "is_cut"));
    free(owner);
}

static void state_put(struct exchange *x, struct buf *out)
{
    struct front *f = x->front;
    struct buf metrics = {0};
    if (others_put_home(x, out))
        return;
    f->write_metrics(f->metrics_arg, &metrics);
    buf_puts(out, "{\"type\":\"state\"");
    js_put_int(out, "at", f->hub->clock.wall_ms);
    put_nodes(x, out);
    put_limits(x, out);
    put_tenants(x, out);
    put_lists(x, out);
    js_put_field(out, "metrics", buf_str(&metrics));
    others_put_metrics(x, out);
    buf_putc(out, '}');
    buf_done(&metrics);
}

static void answer_state(struct exchange *x)
{
    state_put(x, &x->answer);
    http_api_ready(x, 200);
}

void admin_state(struct exchange *x)
{
    char *owner = http_query_value(x->wsi, "owner");
    others_ask(x, owner ? owner : "", answer_state);
    free(owner);
}

/* --- watching --------------------------------------------------------------------------------- */

static void show_watch(struct exchange *x)
{
    x->shows = true;
    lws_callback_on_writable(x->wsi);
}

static void ask_watched(struct exchange *x)
{
    others_ask(x, x->watched_owner ? x->watched_owner : "", show_watch);
}

void admin_watch(struct exchange *x)
{
    struct front *f = x->front;
    if (f->n_watchers >= MOST_WATCHERS) {
        http_api_fail(x, ERR_OVERLOADED, "so many consoles are open already");
        return;
    }
    f->n_watchers++;
    x->watches = x->starts = true;
    x->watched_owner = http_query_value(x->wsi, "owner"); /* the head goes with the first answer */
    x->is_plain = http_is_1_0(x->wsi);
    list_push(&f->watchers, &x->all);
    ask_watched(x);
}

static bool write_watch(struct exchange *x, struct buf *out, size_t from)
{
    x->said_ms = x->front->hub->clock.now_ms;
    return lws_write(x->wsi, (unsigned char *)out->bytes + from, out->len - from, LWS_WRITE_HTTP) >=
           0;
}

int admin_watch_writable(struct exchange *x)
{
    enum { SIZE = 10 }; /* of a chunk, with the end of its line */
    struct buf out = {0};
    char size[SIZE + 1];
    if (!x->shows)
        return 0;
    if (x->starts && http_begin_events(x->wsi, x->origin, x->is_plain, NULL, NULL, STR_NULL) < 0)
        return -1;
    x->starts = false;
    if (lws_partial_buffered(x->wsi))
        return 0;
    x->shows = false;
    buf_reserve(&out, LWS_PRE + SIZE);
    out.len = LWS_PRE + SIZE;
    buf_puts(&out, "event: state\ndata: ");
    state_put(x, &out);
    buf_puts(&out, "\n\n");
    int n = x->is_plain ? 0 : snprintf(size, sizeof size, "%zx\r\n", out.len - LWS_PRE - SIZE);
    memcpy(out.bytes + LWS_PRE + SIZE - n, size, (size_t)n);
    buf_puts(&out, x->is_plain ? "" : "\r\n");
    bool good = write_watch(x, &out, LWS_PRE + SIZE - (size_t)n);
    buf_done(&out);
    return good ? 0 : -1;
}

/* The token has expired, or its owner is locked out. */
static bool token_is_over(const struct front *f, const struct exchange *x)
{
    int64_t now = f->hub->clock.wall_ms;
    return (x->expires_at_ms && now >= x->expires_at_ms) ||
           (x->operator_ && revocations_have(&f->hub->revocations, str_of(x->operator_), now));
}

/* Here or at another one. */
static bool has_many(const struct exchange *x)
{
    return x->front->hub->n_live >= MANY_TASKS || others_most(x, "n_tasks") >= MANY_TASKS;
}

void admin_state_tick(struct front *f)
{
    msec_t now = f->hub->clock.now_ms;
    if (f->is_told_to_drain && f->phase == FRONT_SERVING)
        f->drain(f->metrics_arg);
    list_each (it, &f->watchers) {
        struct exchange *x = list_item(it, struct exchange, all);
        if (token_is_over(f, x) ||
            (lws_partial_buffered(x->wsi) && now - x->said_ms >= PATIENCE_MS))
            deadline_now(x->wsi);
        else if (x->shows)
            lws_callback_on_writable(x->wsi);
        else if (!others_are_due(x) && (!has_many(x) || now - x->said_ms >= SELDOM_MS))
            ask_watched(x);
    }
}

/* --- the stop --------------------------------------------------------------------------------- */

static void stop_here(struct exchange *x)
{
    struct front *f = x->front;
    if (f->phase == FRONT_SERVING && !f->is_told_to_drain) {
        struct audit_line line = {.event = "drain",
                                  .outcome = "ok",
                                  .owner = STR_NULL,
                                  .from = str_of(x->from),
                                  .conversation = STR_NULL,
                                  .task = STR_NULL,
                                  .agent = STR_NULL,
                                  .input = STR_NULL};
        audit_write(f->audit, f->hub->clock.wall_ms, &line);
        log_event(LEVEL_INFO, "admin", "draining", LOG_TEXT("from", x->from));
        f->is_told_to_drain = true;
    }
    buf_puts(&x->answer, "{\"type\":\"ok\"}");
    http_api_ready(x, 200);
}

/* The gateway that a drain names: "" without a body or a member, which is this one.  A slip stops
 * none: false when it was something else, and has been answered. */
static bool read_node(struct exchange *x, struct buf *ret)
{
    struct js_doc doc = {0};
    bool good = x->body.len == 0;
    if (!good && js_parse(&doc, x->body.bytes, x->body.len, JS_CLIENT) &&
        js_type(&doc, 0) == JS_OBJECT) {
        uint32_t node = js_get(&doc, 0, "node");
        bool is_named = node && js_type(&doc, node) == JS_STRING;
        if (is_named)
            js_value(&doc, node, ret);
        good = is_named ? ret->len > 0 : js_first(&doc, 0) >= js_end(&doc, 0);
    }
    js_done(&doc);
    if (!good)
        http_api_fail(x, ERR_BAD_REQUEST, "\"node\" must name a gateway");
    return good;
}

/* The living gateway of that name; NULL: none. */
static const struct store_node *find_named(const struct cluster *c, struct str name)
{
    const struct store_node *node;
    for (size_t i = 0; (node = cluster_node(c, i)) != NULL; i++)
        if (str_eq(str_of(node->name), name))
            return node;
    return NULL;
}

void admin_stop(struct exchange *x)
{
    struct buf name = {0};
    if (!read_node(x, &name))
        return;
    const struct front *f = x->front;
    const struct store_node *node = find_named(f->cluster, buf_str(&name));
    const char *own = f->config->cluster.node;
    if (name.len == 0 || (own && str_eq(str_of(own), buf_str(&name))))
        stop_here(x);
    else if (!node)
        http_api_fail(x, ERR_NOT_FOUND, "no gateway of that name lives");
    else
        relay_to_node(x, (uint64_t)node->incarnation);
    buf_done(&name);
}
