/* A home's end of a worker that dialled another node: an instance whose connection is a pipe. */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/log.h"
#include "gateway/workers/worker_doors.h"

struct gate {
    struct list all; /* the doors' */
    struct doors *doors;
    struct pipe *pipe;
    struct instance *instance; /* NULL: before hello, or another connection has it */
    struct buf in;             /* the beginning of a line */
    struct buf out;            /* words for the front, before the instance's lines */
    size_t taken;              /* bytes that the front does not know to be out */
    struct slots slots;        /* as the front knows them */
    struct timer due;          /* writes: never from inside the instance */
    enum close_code closes;    /* 0: it does not */
    bool tells;                /* slots have changed: behind what the instance has said by then */
    bool held, full;
};

/* --- output ----------------------------------------------------------------------------------- */

static void gate_due(struct gate *g)
{
    struct clock *c = &g->doors->front->hub->clock;
    timer_arm(c, &g->due, c->now_ms);
}

static void gate_free(struct gate *g)
{
    timer_disarm(&g->doors->front->hub->clock, &g->due);
    list_remove(&g->all);
    buf_done(&g->in);
    buf_done(&g->out);
    free(g);
}

static void gate_close(struct gate *g)
{
    const struct pipe_port *pipes = g->doors->front->pipes;
    struct instance *instance = g->instance;
    struct buf word = {0};
    buf_putf(&word, "c%d\n", (int)g->closes);
    (void)pipes->write(g->pipe, buf_str(&word));
    buf_done(&word);
    pipes->close(g->pipe);
    gate_free(g);
    if (instance)
        instance_lost(instance);
}

/* All that there is, as long as the front takes it. */
static void gate_write(struct gate *g)
{
    const struct pipe_port *pipes = g->doors->front->pipes;
    bool more = true;
    while (more && !g->full) {
        more = g->instance && instance_fill(g->instance, &g->out, MAX_MESSAGE_OUT);
        if (g->out.len > 0)
            g->full = !pipes->write(g->pipe, buf_str(&g->out));
        buf_clear(&g->out);
    }
    buf_done(&g->out);
}

/* Not before a welcome that was said while some of them were not served: the front takes a welcome
 * for the word of all that it has heard of. */
static void gate_say_slots(struct gate *g)
{
    struct slots slots;
    doors_slots(g->doors, &slots);
    g->tells = false;
    if (memcmp(&slots, &g->slots, sizeof slots) == 0)
        return;
    g->slots = slots;
    buf_putc(&g->out, 'o');
    slots_put(&slots, &g->out);
    buf_putc(&g->out, '\n');
    gate_due(g);
}

static void on_gate_due(struct timer *timer)
{
    struct gate *g = container_of(timer, struct gate, due);
    gate_write(g);
    if (g->tells && !g->full)
        gate_say_slots(g);
    if (g->closes)
        gate_close(g);
}

static void gate_room(void *arg)
{
    struct gate *g = arg;
    g->full = false;
    gate_due(g);
}

/* --- the instance's wire ---------------------------------------------------------------------- */

static void gate_wake(void *arg)
{
    gate_due(arg);
}

static void gate_hold(void *arg, bool on)
{
    struct gate *g = arg;
    g->held = on;
    if (on)
        return;
    g->doors->front->pipes->took(g->pipe, g->taken);
    g->taken = 0;
}

static void gate_closes(void *arg, enum close_code code)
{
    struct gate *g = arg;
    g->closes = code;
    gate_due(g);
}

static void gate_gone(void *arg)
{
    ((struct gate *)arg)->instance = NULL;
}

static bool gate_ask(void *arg)
{
    struct gate *g = arg;
    buf_puts(&g->out, "?\n");
    gate_due(g);
    return false;
}

static void gate_release(void *arg, uint32_t n)
{
    struct gate *g = arg;
    for (uint32_t i = 0; i < n; i++)
        buf_puts(&g->out, "-\n");
    gate_due(g);
}

/* --- input ------------------------------------------------------------------------------------ */

static void gate_refuse(struct gate *g, enum error e, const char *why)
{
    log_event_limited(LEVEL_WARN, "worker", "refused", LOG_TEXT("why", why));
    g->closes = e == ERR_UNAUTHORIZED ? CLOSE_UNAUTHORIZED : CLOSE_POLICY;
    gate_due(g);
}

/* Its runs of before count as places; what else they say comes behind. */
static void gate_hello(struct gate *g, const struct worker_frame *frame)
{
    const struct worker_wire wire = {.wake = gate_wake,
                                     .hold = gate_hold,
                                     .close = gate_closes,
                                     .gone = gate_gone,
                                     .ask = gate_ask,
                                     .release = gate_release,
                                     .arg = g};
    struct doors *d = g->doors;
    enum error e = ERR_BAD_REQUEST;
    const char *why = "the first frame must be a hello";
    gate_say_slots(g);
    if (frame->kind == WORKER_HELLO)
        g->instance = workers_hello(d->workers, &d->decoder, frame, &wire, &e, &why);
    if (g->instance)
        buf_putf(&g->out, "+%u\n", instance_runs(g->instance));
    else
        gate_refuse(g, e, why);
}

static void gate_take(struct gate *g, struct str line)
{
    struct worker_frame frame;
    if (g->closes)
        return;
    if (line.n == 1 && line.p[0] == '!') {
        if (g->instance)
            instance_place(g->instance);
        return;
    }
    worker_frame_decode(&g->doors->decoder, line, &frame);
    if (frame.kind == WORKER_NO_MEMORY)
        gate_closes(g, CLOSE_GOING_AWAY);
    else if (g->instance)
        instance_take(g->instance, &frame, line);
    else if (frame.kind != WORKER_NOTHING)
        gate_hello(g, &frame);
}

static void gate_bytes(void *arg, struct str bytes)
{
    struct gate *g = arg;
    struct str rest, line;
    struct buf kept = g->in;
    g->in = (struct buf){0};
    g->taken += bytes.n;
    buf_putstr(&kept, bytes);
    for (rest = buf_str(&kept); doors_line(&rest, &line);)
        gate_take(g, line);
    buf_putstr(&g->in, rest);
    buf_done(&kept);
    if (g->instance)
        instance_taken(g->instance);
    if (!g->held)
        gate_hold(g, false);
}

static void gate_ended(void *arg)
{
    struct gate *g = arg;
    struct instance *instance = g->instance;
    gate_free(g);
    if (instance)
        instance_lost(instance);
}

static const struct pipe_user gate_user = {
    .bytes = gate_bytes, .room = gate_room, .ended = gate_ended};

/* --- all of them ------------------------------------------------------------------------------ */

void *gate_open(void *arg, struct pipe *p, const struct pipe_user **ret_user)
{
    struct doors *d = arg;
    struct gate *g = xcalloc(sizeof *g);
    g->doors = d;
    g->pipe = p;
    g->due.fire = on_gate_due;
    list_push(&d->gates, &g->all);
    *ret_user = &gate_user;
    return g;
}

void gates_tell_slots(struct doors *d)
{
    list_each (it, &d->gates) {
        struct gate *g = list_item(it, struct gate, all);
        g->tells = g->instance != NULL;
        if (g->tells)
            gate_due(g);
    }
}
