#include "gateway/workers/worker_fan_private.h"

#include <stdlib.h>

#include "proto/str.h"

/* --- runs ------------------------------------------------------------------------------------- */

static struct map_key fan_run_key(const struct map_node *node)
{
    return (struct map_key){{str_of(container_of(node, const struct fan_run, node)->id)}};
}

struct fan_run *fan_find_run(const struct worker_fan *fan, struct str id)
{
    struct map_node *node = map_find(&fan->runs, (struct map_key){{id}});
    return node ? container_of(node, struct fan_run, node) : NULL;
}

/* home NULL: unknown. */
void fan_put_run(struct worker_fan *fan, struct str id, struct at_home *home)
{
    struct fan_run *r = fan_find_run(fan, id);
    if (id.n == 0 || id.n > WORKER_MAX_RUN)
        return;
    if (!r) {
        r = xcalloc(sizeof *r);
        memcpy(r->id, id.p, id.n);
        map_put(&fan->runs, &r->node);
    }
    r->home = home;
}

void fan_drop_run(struct worker_fan *fan, struct fan_run *r)
{
    if (!r)
        return;
    map_remove(&fan->runs, &r->node);
    free(r);
}

static void free_fan_run(struct map_node *node, void *arg)
{
    (void)arg;
    free(container_of(node, struct fan_run, node));
}

void fan_end(struct worker_fan *fan, enum close_code code)
{
    if (fan->over)
        return;
    fan->over = true;
    fan->to.close(fan->to.arg, code);
}

/* --- what is known ---------------------------------------------------------------------------- */

/* The homes of all slots can be asked which runs they know; asked: they have been. */
static bool knows_all_slots(const struct worker_fan *fan, bool asked)
{
    struct slots all = {0};
    list_each (it, &fan->homes) {
        const struct at_home *h = list_item(it, struct at_home, at);
        slots_add_those(&all, asked ? &h->asked : &h->slots);
    }
    return slots_count(&all) == N_SLOTS;
}

void fan_settle(struct worker_fan *fan)
{
    if (fan->welcomed && fan->partial && knows_all_slots(fan, false))
        fan_end(fan, CLOSE_GOING_AWAY); /* the next hello asks them */
}

void fans_settle(struct doors *d)
{
    list_each (it, &d->fans) {
        struct worker_fan *fan = list_item(it, struct worker_fan, all);
        list_each (at, &fan->homes) {
            struct at_home *h = list_item(at, struct at_home, at);
            if (h->is_here)
                doors_slots(d, &h->slots);
        }
        fan_settle(fan);
    }
}

void fans_call_again(struct doors *d)
{
    list_each (it, &d->fans)
        fan_end(list_item(it, struct worker_fan, all), CLOSE_GOING_AWAY);
}

/* Those that no home has named. */
static void judge_others(struct worker_fan *fan)
{
    struct js_doc *doc = &fan->doors->doc;
    bool whole = knows_all_slots(fan, true);
    struct buf named = {0};
    fan->partial = !whole;
    buf_putf(&named, "{%.*s}", (int)fan->known.len, fan->known.len ? fan->known.bytes : "");
    ASSERT(js_parse(doc, named.bytes, named.len, JS_OURS));
    for (size_t at = 0; !whole && at < fan->open.len; at += strlen(fan->open.bytes + at) + 1) {
        const char *id = fan->open.bytes + at;
        if (js_get(doc, 0, id))
            continue;
        fan_put_run(fan, str_of(id), NULL);
        buf_puts(&fan->known, fan->known.len ? "," : "");
        js_put_str(&fan->known, str_of(id));
        buf_puts(&fan->known, ":0"); /* it keeps all that it has */
    }
    buf_done(&named);
}

/* --- reading ---------------------------------------------------------------------------------- */

void fan_hold(struct worker_fan *fan, bool on)
{
    if (on && fan->n_held++ == 0)
        fan->to.hold(fan->to.arg, true);
    if (!on && --fan->n_held == 0)
        fan->to.hold(fan->to.arg, false);
}

/* When all have answered. */
void fan_welcome(struct worker_fan *fan)
{
    list_each (it, &fan->homes)
        if (!list_item(it, struct at_home, at)->greeted)
            return;
    if (!fan->begun || fan->welcomed)
        return;
    judge_others(fan);
    buf_puts(&fan->notes, "{\"type\":\"welcome\"");
    js_put_int(&fan->notes, "grace_s", fan->doors->front->config->worker_grace_s);
    js_put_raw(&fan->notes, "open", STR("{"));
    buf_putstr(&fan->notes, buf_str(&fan->known));
    buf_puts(&fan->notes, "}}\n");
    buf_done(&fan->known);
    buf_done(&fan->open);
    fan->welcomed = true;
    if (!fan->alone)
        fan_hold(fan, false);
    fan->to.wake(fan->to.arg);
    places_share(fan);
    fan_settle(fan); /* slots may have come meanwhile */
}

/* --- hello ------------------------------------------------------------------------------------ */

struct saying {
    struct worker_fan *fan;
    struct str hello;
};

static void say_hello_to(void *arg, uint64_t node)
{
    const struct saying *saying = arg;
    home_join_there(saying->fan, node, saying->hello);
}

static void note_open(struct worker_fan *fan, const struct worker_frame *hello)
{
    const struct js_doc *doc = &fan->doors->decoder.doc;
    if (!hello->open)
        return;
    for (uint32_t i = js_first(doc, hello->open); i < js_end(doc, hello->open);
         i = js_next(doc, i + 1)) {
        size_t from = fan->open.len;
        js_value(doc, i, &fan->open);
        buf_putc(&fan->open, 0);
        if (strlen(fan->open.bytes + from) > WORKER_MAX_RUN)
            fan->open.len = from;
    }
}

static void on_fan_due(struct timer *timer)
{
    places_share(container_of(timer, struct worker_fan, due));
}

static struct worker_fan *fan_new(struct doors *d, const struct worker_frame *hello,
                                  const struct worker_socket *to)
{
    static const uint64_t no_secret[2]; /* the ids are those of gateways */
    struct worker_fan *fan = xcalloc(sizeof *fan);
    fan->doors = d;
    fan->to = *to;
    fan->most = hello->runs;
    fan->alone = !d->front->pipes;
    fan->due.fire = on_fan_due;
    list_init(&fan->homes);
    list_push(&d->fans, &fan->all);
    map_init(&fan->runs, no_secret, fan_run_key);
    return fan;
}

static void fan_free(struct worker_fan *fan)
{
    while (!list_is_empty(&fan->homes))
        home_free(list_item(fan->homes.next, struct at_home, at));
    map_each(&fan->runs, free_fan_run, NULL);
    map_done(&fan->runs);
    list_remove(&fan->all);
    timer_disarm(&fan->doors->front->hub->clock, &fan->due);
    buf_done(&fan->open);
    buf_done(&fan->known);
    buf_done(&fan->notes);
    buf_done(&fan->out);
    free(fan);
}

struct worker_fan *worker_fan_open(struct doors *d, const struct worker_frame *hello,
                                   struct str text, const struct worker_socket *to,
                                   enum error *ret_error, const char **ret_why)
{
    struct worker_fan *fan = fan_new(d, hello, to);
    note_open(fan, hello);
    if (!home_join_here(fan, hello, ret_error, ret_why)) {
        fan_free(fan);
        return NULL;
    }
    if (!fan->alone) /* until it is welcomed */
        fan_hold(fan, true);
    const struct pipe_port *pipes = d->front->pipes;
    struct saying saying = {fan, text};
    if (pipes)
        pipes->each(pipes->arg, say_hello_to, &saying);
    fan->begun = true;
    return fan;
}

/* --- frames ----------------------------------------------------------------------------------- */

static void tell_all(struct worker_fan *fan, const struct worker_frame *frame, struct str text)
{
    list_each (it, &fan->homes)
        home_tell(list_item(it, struct at_home, at), frame, text);
}

/* A frame of an unknown run falls: it comes again behind the next hello.  Whatever is not known
 * elsewhere is for the instance here to judge. */
void worker_fan_take(struct worker_fan *fan, const struct worker_frame *frame, struct str text)
{
    bool of_run =
        frame->kind == WORKER_LINE || frame->kind == WORKER_END || frame->kind == WORKER_ACK;
    struct fan_run *r = of_run ? fan_find_run(fan, frame->run) : NULL;
    if (fan->over || (of_run && !fan->welcomed && !fan->alone))
        return;
    if (frame->kind == WORKER_DRAIN) {
        fan->drains = true;
        tell_all(fan, frame, text);
        return;
    }
    if (r && r->home)
        home_tell(r->home, frame, text);
    if (r)
        return;
    list_each (it, &fan->homes) {
        struct at_home *h = list_item(it, struct at_home, at);
        if (h->instance)
            instance_take(h->instance, frame, text);
    }
}

void worker_fan_taken(struct worker_fan *fan)
{
    list_each (it, &fan->homes) {
        struct at_home *h = list_item(it, struct at_home, at);
        if (h->instance)
            instance_taken(h->instance);
    }
}

/* --- output ----------------------------------------------------------------------------------- */

static void fill_from_homes(struct worker_fan *fan, struct buf *out)
{
    const struct pipe_port *pipes = fan->doors->front->pipes;
    buf_putstr(out, buf_str(&fan->out));
    buf_done(&fan->out);
    list_each (it, &fan->homes) {
        struct at_home *h = list_item(it, struct at_home, at);
        if (h->pipe && h->taken > 0)
            pipes->took(h->pipe, h->taken);
        h->taken = 0;
    }
}

bool worker_fan_fill(struct worker_fan *fan, struct buf *out)
{
    size_t begun = out->len;
    list_each (it, &fan->homes)
        home_fill(list_item(it, struct at_home, at), &fan->out);
    if (!fan->welcomed && !fan->over)
        return false;
    buf_putstr(out, buf_str(&fan->notes));
    buf_done(&fan->notes);
    fill_from_homes(fan, out);
    return out->len > begun;
}

bool worker_fan_has_output(const struct worker_fan *fan)
{
    list_each (it, &fan->homes) {
        const struct at_home *h = list_item(it, struct at_home, at);
        if (h->instance && instance_has_output(h->instance))
            return true;
    }
    return (fan->welcomed || fan->over) && fan->notes.len + fan->out.len > 0;
}

void worker_fan_close(struct worker_fan *fan)
{
    const struct pipe_port *pipes = fan->doors->front->pipes;
    fan->over = true;
    list_each (it, &fan->homes) {
        const struct at_home *h = list_item(it, struct at_home, at);
        if (h->instance)
            instance_lost(h->instance);
        else if (h->pipe && pipes)
            pipes->close(h->pipe);
    }
    fan_free(fan);
}
