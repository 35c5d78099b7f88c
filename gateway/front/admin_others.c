#include "gateway/front/admin_others.h"

#include <stdlib.h>

#include "gateway/cluster/cluster.h"
#include "gateway/front/address.h"
#include "gateway/front/http_head.h"
#include "gateway/front/relay.h"
#include "proto/str.h"

#define SILENT_MS 1000
#define ANSWER_MOST (8u << 20) /* bytes: far more than a state with all its rows */

struct others {
    struct exchange *x;
    void (*done)(struct exchange *x);
    struct list asked, answered; /* of struct other */
    struct timer silent;
    struct buf request;
    bool asks; /* in the loop of others_ask */
};

struct other {
    struct list at;
    struct others *all;
    int64_t incarnation;
    struct pipe *pipe; /* until it has ended */
    struct buf got;
    struct js_doc state; /* of what it got */
};

static void other_free(struct other *o)
{
    list_remove(&o->at);
    js_done(&o->state);
    buf_done(&o->got);
    free(o);
}

static void other_silence(struct other *o)
{
    o->all->x->front->pipes->close(o->pipe);
    other_free(o);
}

static void others_settle(struct others *all)
{
    if (all->asks || !list_is_empty(&all->asked))
        return;
    timer_disarm(&all->x->front->hub->clock, &all->silent);
    all->done(all->x);
}

static void on_silent(struct timer *timer)
{
    struct others *all = container_of(timer, struct others, silent);
    while (!list_is_empty(&all->asked))
        other_silence(list_item(all->asked.next, struct other, at));
    others_settle(all);
}

/* --- answers ---------------------------------------------------------------------------------- */

static bool other_reads(struct other *o)
{
    struct str got = buf_str(&o->got);
    const char *end = got.n ? memmem(got.p, got.n, "\r\n\r\n", 4) : NULL;
    if (!end || !str_begins(got, STR("HTTP/1.1 200 ")))
        return false;
    struct str body = str_from(got, (size_t)(end - got.p) + 4);
    return js_parse(&o->state, body.p, body.n, JS_AGENT) && js_type(&o->state, 0) == JS_OBJECT;
}

static void other_bytes(void *arg, struct str bytes)
{
    struct other *o = arg;
    if (o->got.len + bytes.n <= ANSWER_MOST)
        buf_putstr(&o->got, bytes);
    o->all->x->front->pipes->took(o->pipe, bytes.n);
}

static void other_room(void *arg)
{
    (void)arg; /* the request is in one piece */
}

static void other_ended(void *arg)
{
    struct other *o = arg;
    struct others *all = o->all;
    list_remove(&o->at);
    if (other_reads(o))
        list_push(&all->answered, &o->at);
    else
        other_free(o);
    others_settle(all);
}

static const struct pipe_user other_user = {
    .bytes = other_bytes, .room = other_room, .ended = other_ended};

static bool all_are_asked_for(const struct exchange *x)
{
    char *all = http_query_value(x->wsi, "all");
    bool asked = all != NULL;
    free(all);
    return asked;
}

/* --- asking ----------------------------------------------------------------------------------- */

static void ask_other(void *arg, uint64_t node)
{
    struct others *all = arg;
    const struct pipe_port *pipes = all->x->front->pipes;
    struct other *o = xcalloc(sizeof *o);
    o->all = all;
    o->incarnation = (int64_t)node;
    o->pipe = pipes->open_operator(pipes->arg, node, &other_user, o);
    if (!o->pipe) {
        free(o);
        return;
    }
    list_push(&all->asked, &o->at);
    (void)pipes->write(o->pipe, buf_str(&all->request));
}

static void ask_front(void *arg, uint64_t node, const char *name)
{
    (void)name;
    ask_other(arg, node);
}

/* By another one, which asks the others itself; but a crew's home is asked by its front for all. */
static bool asks_nobody(const struct exchange *x)
{
    const struct peer *peer = lws_get_opaque_user_data(x->wsi);
    return !x->front->pipes || (peer && peer->is_linked && !all_are_asked_for(x));
}

void others_ask(struct exchange *x, const char *owner, void (*done)(struct exchange *x))
{
    const struct pipe_port *pipes = x->front->pipes;
    others_forget(x);
    struct others *all = x->others = xcalloc(sizeof *all);
    *all = (struct others){.x = x, .done = done, .silent.fire = on_silent, .asks = true};
    list_init(&all->asked);
    list_init(&all->answered);
    buf_puts(&all->request, "GET /v1/admin/state?owner=");
    http_put_encoded(&all->request, owner, "");
    buf_puts(&all->request, cluster_home_beside(x->front->cluster) ? "&all=1" : "");
    buf_puts(&all->request, " HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    if (!asks_nobody(x)) {
        pipes->each(pipes->arg, ask_other, all);
        pipes->each_front(pipes->arg, ask_front, all);
    }
    all->asks = false;
    msec_t wait = all_are_asked_for(x) ? SILENT_MS / 2 : SILENT_MS; /* who asks waits as well */
    timer_arm(&x->front->hub->clock, &all->silent, x->front->hub->clock.now_ms + wait);
    others_settle(all);
}

void others_forget(struct exchange *x)
{
    struct others *all = x->others;
    if (!all)
        return;
    timer_disarm(&x->front->hub->clock, &all->silent);
    while (!list_is_empty(&all->asked))
        other_silence(list_item(all->asked.next, struct other, at));
    while (!list_is_empty(&all->answered))
        other_free(list_item(all->answered.next, struct other, at));
    buf_done(&all->request);
    free(all);
    x->others = NULL;
}

bool others_are_due(const struct exchange *x)
{
    return x->others && !list_is_empty(&x->others->asked);
}

/* --- what they have said ---------------------------------------------------------------------- */

static const struct list *answers_of(const struct exchange *x)
{
    static struct list none = {&none, &none};
    return x->others ? &x->others->answered : &none;
}

static const struct js_doc *answer_of(const struct list *at)
{
    return &list_item(at, const struct other, at)->state;
}

/* The text between its brackets, or nothing. */
static struct str rows_of(const struct js_doc *state, const char *key)
{
    uint32_t array = js_get(state, 0, key);
    if (!array || js_type(state, array) != JS_ARRAY)
        return STR("");
    struct str raw = js_raw(state, array);
    return (struct str){raw.p + 1, raw.n - 2};
}

void others_put_rows(const struct exchange *x, const char *key, struct buf *out)
{
    list_each (it, answers_of(x)) {
        struct str rows = rows_of(answer_of(it), key);
        if (rows.n > 0 && out->bytes[out->len - 1] != '[')
            buf_putc(out, ',');
        buf_putstr(out, rows);
    }
}

static int64_t state_number(const struct js_doc *state, const char *key)
{
    uint32_t number = js_get(state, 0, key);
    int64_t n = 0;
    return number && js_int(state, number, &n) ? n : 0;
}

int64_t others_sum(const struct exchange *x, const char *key)
{
    int64_t n = 0;
    list_each (it, answers_of(x))
        n += state_number(answer_of(it), key);
    return n;
}

int64_t others_most(const struct exchange *x, const char *key)
{
    int64_t most = 0;
    list_each (it, answers_of(x)) {
        int64_t n = state_number(answer_of(it), key);
        most = n > most ? n : most;
    }
    return most;
}

bool others_any(const struct exchange *x, const char *key)
{
    list_each (it, answers_of(x)) {
        uint32_t value = js_get(answer_of(it), 0, key);
        if (value && js_type(answer_of(it), value) == JS_TRUE)
            return true;
    }
    return false;
}

/* Its own row is the first, and it knows no others' answers. */
static struct str own_row(const struct js_doc *state)
{
    uint32_t nodes = js_get(state, 0, "nodes");
    if (!nodes || js_type(state, nodes) != JS_ARRAY ||
        js_first(state, nodes) == js_end(state, nodes))
        return STR_NULL;
    return js_raw(state, js_first(state, nodes));
}

bool others_put_node(const struct exchange *x, const struct store_node *node, struct buf *out)
{
    list_each (it, answers_of(x)) {
        if (list_item(it, const struct other, at)->incarnation != node->incarnation)
            continue;
        struct str row = own_row(answer_of(it));
        buf_putstr(out, row);
        return row.n > 0;
    }
    return false;
}

struct fronts {
    const struct exchange *x;
    struct buf *out;
};

static void put_front(void *arg, uint64_t node, const char *name)
{
    const struct fronts *f = arg;
    const struct store_node one = {.incarnation = (int64_t)node};
    buf_putc(f->out, ',');
    if (others_put_node(f->x, &one, f->out))
        return;
    buf_putc(f->out, '{');
    js_put_field(f->out, "name", str_of(name));
    js_put_bool(f->out, "silent", true);
    buf_putc(f->out, '}');
}

/* Those that were asked: a state that nobody asked for has its own row alone. */
void others_put_fronts(const struct exchange *x, struct buf *out)
{
    const struct pipe_port *pipes = x->front->pipes;
    if (!asks_nobody(x))
        pipes->each_front(pipes->arg, put_front, &(struct fronts){x, out});
}

bool others_put_home(const struct exchange *x, struct buf *out)
{
    int64_t home = cluster_home_beside(x->front->cluster);
    list_each (it, answers_of(x)) {
        if (!home || list_item(it, const struct other, at)->incarnation != home)
            continue;
        buf_putstr(out, js_raw(answer_of(it), 0));
        return true;
    }
    return false;
}

void others_put_metrics(const struct exchange *x, struct buf *out)
{
    buf_puts(out, ",\"others\":[");
    list_each (it, answers_of(x)) {
        int64_t incarnation = list_item(it, const struct other, at)->incarnation;
        const struct store_node *node = cluster_find_node(x->front->cluster, incarnation);
        uint32_t metrics = js_get(answer_of(it), 0, "metrics");
        if (!node || !metrics)
            continue;
        buf_puts(out, out->bytes[out->len - 1] == '[' ? "{" : ",{");
        js_put_field(out, "node", str_of(node->name));
        buf_puts(out, ",\"metrics\":");
        js_copy(answer_of(it), metrics, out);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}
