/* A worker at one of its homes. */
#include <stdlib.h>

#include "gateway/base/log.h"
#include "gateway/workers/worker_fan_private.h"
#include "proto/str.h"

/* --- places ----------------------------------------------------------------------------------- */

static uint32_t places_taken(const struct worker_fan *fan)
{
    uint32_t n = 0;
    list_each (it, &fan->homes)
        n += list_item(it, struct at_home, at)->places;
    return n;
}

static bool fan_has_place(const struct worker_fan *fan)
{
    return fan->welcomed && !fan->drains && !fan->over && places_taken(fan) < fan->most;
}

static void give_place(struct at_home *h)
{
    struct worker_fan *fan = h->fan;
    h->wants = false;
    h->places++;
    h->given = ++fan->n_given;
    if (h->pipe)
        (void)fan->doors->front->pipes->write(h->pipe, STR("!\n"));
    else if (h->instance)
        instance_place(h->instance);
}

/* The one of those who want a place that got one longest ago; NULL: none wants one. */
static struct at_home *next_home(const struct worker_fan *fan)
{
    struct at_home *next = NULL;
    list_each (it, &fan->homes) {
        struct at_home *h = list_item(it, struct at_home, at);
        if (h->wants && (!next || h->given < next->given))
            next = h;
    }
    return next;
}

void places_share(struct worker_fan *fan)
{
    struct at_home *next;
    while (fan_has_place(fan) && (next = next_home(fan)) != NULL)
        give_place(next);
}

/* --- the instance here ------------------------------------------------------------------------ */

static void hold_home(struct at_home *h, bool on)
{
    if (h->holds != on)
        fan_hold(h->fan, on);
    h->holds = on;
}

static void home_wake(void *arg)
{
    const struct at_home *h = arg;
    h->fan->to.wake(h->fan->to.arg);
}

static void home_hold(void *arg, bool on)
{
    hold_home(arg, on);
}

static void home_close(void *arg, enum close_code code)
{
    fan_end(((struct at_home *)arg)->fan, code);
}

static void home_gone(void *arg)
{
    ((struct at_home *)arg)->instance = NULL;
}

static bool home_ask(void *arg)
{
    struct at_home *h = arg;
    if (!fan_has_place(h->fan)) {
        h->wants = true;
        return false;
    }
    h->places++;
    return true;
}

static void home_release(void *arg, uint32_t n)
{
    struct at_home *h = arg;
    struct clock *c = &h->fan->doors->front->hub->clock;
    h->places -= n < h->places ? n : h->places;
    timer_arm(c, &h->fan->due, c->now_ms);
}

/* --- homes elsewhere -------------------------------------------------------------------------- */

/* Its runs are unknown from now on. */
static void forget_home_of(struct map_node *node, void *arg)
{
    struct fan_run *r = container_of(node, struct fan_run, node);
    struct at_home *h = arg;
    if (r->home != h)
        return;
    r->home = NULL;
}

void home_free(struct at_home *h)
{
    list_remove(&h->at);
    buf_done(&h->in);
    free(h);
}

/* The worker hears of it when all homes say so. */
static void say_drained(struct worker_fan *fan)
{
    list_each (it, &fan->homes)
        if (!list_item(it, struct at_home, at)->drained)
            return;
    buf_puts(&fan->notes, "{\"type\":\"drain\"}\n");
    fan->to.wake(fan->to.arg);
}

static void leave_home(struct at_home *h)
{
    struct worker_fan *fan = h->fan;
    bool was_drained = h->drained;
    map_each(&fan->runs, forget_home_of, h);
    fan->partial = fan->partial || h->places > 0; /* a run may have been on its way */
    hold_home(h, false);
    home_free(h);
    if (!was_drained && !list_is_empty(&fan->homes)) /* the others may have said so */
        say_drained(fan);
    fan_welcome(fan);
    fan_settle(fan);
    places_share(fan);
}

static void home_ended(void *arg)
{
    leave_home(arg);
}

static void home_room(void *arg)
{
    hold_home(arg, false);
}

static struct str run_of(struct js_doc *doc, struct buf *scratch)
{
    uint32_t node = js_get(doc, 0, "run");
    if (!node || js_type(doc, node) != JS_STRING)
        return STR("");
    js_value(doc, node, scratch);
    return buf_str(scratch);
}

/* While a run moves, two homes may know it. */
static bool is_named(const struct worker_fan *fan, struct str id)
{
    struct buf key = {0};
    js_put_str(&key, id);
    buf_putc(&key, ':');
    bool found = fan->known.len && memmem(fan->known.bytes, fan->known.len, key.bytes, key.len);
    buf_done(&key);
    return found;
}

static void take_welcome(struct at_home *h, struct js_doc *doc)
{
    struct worker_fan *fan = h->fan;
    struct buf id = {0};
    uint32_t open = js_get(doc, 0, "open");
    for (uint32_t i = js_first(doc, open); i < js_end(doc, open); i = js_next(doc, i + 1)) {
        buf_clear(&id);
        js_value(doc, i, &id);
        if (fan_find_run(fan, buf_str(&id)) || is_named(fan, buf_str(&id)))
            continue;
        buf_puts(&fan->known, fan->known.len ? "," : "");
        js_put_str(&fan->known, buf_str(&id));
        buf_putc(&fan->known, ':');
        buf_putstr(&fan->known, js_raw(doc, i + 1));
        if (h->pipe)
            fan_put_run(fan, buf_str(&id), h);
    }
    buf_done(&id);
    h->greeted = true;
    if (h->pipe)
        h->asked = h->slots;
    fan_welcome(fan);
}

/* A line that the fan has to understand; false: it is the worker's alone. */
static bool take_ours(struct at_home *h, struct str line)
{
    struct js_doc *doc = &h->fan->doors->doc;
    struct buf id = {0};
    bool is_welcome = str_begins(line, STR("{\"type\":\"welcome\""));
    bool is_drain = str_eq(line, STR("{\"type\":\"drain\"}"));
    bool begins = str_begins(line, STR("{\"type\":\"run\",")), ends = false;
    if (!begins)
        ends = str_begins(line, STR("{\"type\":\"gone\","));
    if ((is_welcome || begins || ends) && !js_parse(doc, line.p, line.n, JS_OURS))
        return true; /* no home says that */
    h->drained = h->drained || is_drain;
    if (is_welcome)
        take_welcome(h, doc);
    else if (is_drain)
        say_drained(h->fan);
    else if (begins && h->pipe)
        fan_put_run(h->fan, run_of(doc, &id), h);
    else if (begins || ends)
        fan_drop_run(h->fan, fan_find_run(h->fan, run_of(doc, &id)));
    buf_done(&id);
    return is_welcome || is_drain;
}

/* False: the home is left. */
static bool take_closing(struct at_home *h, uint32_t code)
{
    struct worker_fan *fan = h->fan;
    fan->doors->front->pipes->close(h->pipe);
    if (h->greeted || code == CLOSE_GOING_AWAY)
        fan_end(fan, (enum close_code)code);
    else
        log_event_limited(LEVEL_WARN, "worker", "refused_elsewhere", LOG_INT("code", code));
    leave_home(h);
    return false;
}

static bool take_home_word(struct at_home *h, struct str word)
{
    uint32_t n = 0;
    for (size_t i = 1; i < word.n && is_digit(word.p[i]); i++)
        n = n * 10 + (uint32_t)(word.p[i] - '0');
    switch (word.p[0]) {
    case 'o':
        (void)slots_read(str_from(word, 1), &h->slots);
        fan_settle(h->fan);
        return true;
    case '+': h->places += n; return true;
    case '-': home_release(h, 1); return true;
    case '?':
        h->wants = true;
        places_share(h->fan);
        return true;
    case 'c': return take_closing(h, n);
    default: return true;
    }
}

static bool take_home_line(struct at_home *h, struct str line)
{
    struct worker_fan *fan = h->fan;
    if (line.n == 0)
        return true;
    if (line.p[0] != '{')
        return take_home_word(h, line);
    if (!h->greeted && str_begins(line, STR("{\"type\":\"error\"")))
        return true; /* that home is passed over */
    if (take_ours(h, line))
        return true;
    buf_putstr(&fan->out, line);
    buf_putc(&fan->out, '\n');
    fan->to.wake(fan->to.arg);
    return true;
}

static void home_bytes(void *arg, struct str bytes)
{
    struct at_home *h = arg;
    struct worker_fan *fan = h->fan;
    struct buf kept = h->in;
    struct str line, rest;
    bool stays = true;
    h->in = (struct buf){0};
    h->taken += bytes.n;
    buf_putstr(&kept, bytes);
    rest = buf_str(&kept);
    while (stays && doors_line(&rest, &line))
        stays = take_home_line(h, line);
    if (stays)
        buf_putstr(&h->in, rest);
    buf_done(&kept);
    if (stays && fan->out.len == 0) {
        fan->doors->front->pipes->took(h->pipe, h->taken);
        h->taken = 0;
    }
}

static const struct pipe_user home_user = {
    .bytes = home_bytes, .room = home_room, .ended = home_ended};

/* --- hello ------------------------------------------------------------------------------------ */

static struct at_home *home_new(struct worker_fan *fan)
{
    struct at_home *h = xcalloc(sizeof *h);
    h->fan = fan;
    list_push(&fan->homes, &h->at);
    return h;
}

void home_join_there(struct worker_fan *fan, uint64_t node, struct str hello)
{
    const struct pipe_port *pipes = fan->doors->front->pipes;
    struct at_home *h = home_new(fan);
    h->pipe = pipes->open_worker(pipes->arg, node, &home_user, h);
    if (!h->pipe) {
        home_free(h);
        return;
    }
    (void)pipes->write(h->pipe, hello);
    if (!pipes->write(h->pipe, STR("\n")))
        hold_home(h, true);
}

/* Places are asked for where there is more than this home. */
struct at_home *home_join_here(struct worker_fan *fan, const struct worker_frame *hello,
                               enum error *ret_error, const char **ret_why)
{
    struct doors *d = fan->doors;
    struct at_home *h = home_new(fan);
    const struct worker_wire wire = {.wake = home_wake,
                                     .hold = home_hold,
                                     .close = home_close,
                                     .gone = home_gone,
                                     .ask = fan->alone ? NULL : home_ask,
                                     .release = fan->alone ? NULL : home_release,
                                     .arg = h};
    h->is_here = true;
    doors_slots(d, &h->slots);
    h->asked = h->slots;
    h->instance = workers_hello(d->workers, &d->decoder, hello, &wire, ret_error, ret_why);
    if (h->instance)
        h->places = instance_runs(h->instance);
    return h->instance ? h : NULL;
}

/* --- lines ------------------------------------------------------------------------------------ */

void home_tell(struct at_home *h, const struct worker_frame *frame, struct str text)
{
    const struct pipe_port *pipes = h->fan->doors->front->pipes;
    if (h->instance) {
        instance_take(h->instance, frame, text);
    } else if (h->pipe) {
        (void)pipes->write(h->pipe, text);
        if (!pipes->write(h->pipe, STR("\n")))
            hold_home(h, true);
    }
}

/* Lines of the instance here, but for those that are not for the worker. */
void home_fill(struct at_home *h, struct buf *out)
{
    struct buf lines = {0};
    struct str rest, line;
    if (!h->instance)
        return;
    (void)instance_fill(h->instance, &lines, MAX_MESSAGE_OUT);
    for (rest = buf_str(&lines); doors_line(&rest, &line);) {
        if (take_ours(h, line))
            continue;
        buf_putstr(out, line);
        buf_putc(out, '\n');
    }
    buf_done(&lines);
}
