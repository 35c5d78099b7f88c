#include "gateway/agents/agent_source.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/stepper.h"

#define RUN_MAGIC 0x73726365u

/* The run's parameters, by name: the same for JSON and for words. */
struct source_plan {
    int64_t events, bytes, burst, interval_ms;
};

static const struct {
    const char *name;
    size_t offset;
    int64_t min, max;
} members[] = {
    {"events", offsetof(struct source_plan, events), 0, MAX_SAFE_INTEGER},
    {"bytes", offsetof(struct source_plan, bytes), 1, SOURCE_MAX_BYTES},
    {"burst", offsetof(struct source_plan, burst), 1, SOURCE_MAX_BURST},
    {"interval_ms", offsetof(struct source_plan, interval_ms), 0, SOURCE_MAX_INTERVAL_MS},
};

struct run {
    unsigned magic;
    struct source_plan plan;
    int64_t n_said;
    struct run_events events;
    void *task;
    struct stepper stepper;
    struct agent_line line; /* every event: prepared once */
    struct buf data;
    bool paused, cancelled, ended;
};

static struct run *source_run_of(void *arg)
{
    struct run *r = arg;
    ASSERT(r && r->magic == RUN_MAGIC);
    return r;
}

/* --- the plan --------------------------------------------------------------------------------- */

static bool set_member(struct source_plan *plan, struct str name, int64_t value, char *ret_error)
{
    for (size_t i = 0; i < countof(members); i++) {
        if (!str_eq(name, str_of(members[i].name)))
            continue;
        if (value < members[i].min || value > members[i].max) {
            snprintf(ret_error, 256, "source: \"%s\" must be from %lld to %lld", members[i].name,
                     (long long)members[i].min, (long long)members[i].max);
            return false;
        }
        *(int64_t *)(void *)((char *)plan + members[i].offset) = value;
        return true;
    }
    snprintf(ret_error, 256, "source: unknown name \"%.*s\"", (int)utf8_cut(name, 64), name.p);
    return false;
}

static bool source_read_object(struct source_plan *plan, const struct js_doc *doc, char *ret_error)
{
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i + 1)) {
        int64_t value;
        if (js_type(doc, i + 1) != JS_NUMBER || !js_int(doc, i + 1, &value)) {
            snprintf(ret_error, 256, "source: a value is not an integer");
            return false;
        }
        if (!set_member(plan, js_raw(doc, i), value, ret_error))
            return false;
    }
    return true;
}

/* name=value, one after the other. */
static bool read_words(struct source_plan *plan, struct str input, char *ret_error)
{
    bool good = true;
    char *words = xstrdup(input), *p = words;
    while (good && p[strspn(p, " \t\r\n")]) {
        p += strspn(p, " \t\r\n");
        size_t n = strcspn(p, "= \t\r\n");
        char *end = p + n;
        long long value = p[n] == '=' ? strtoll(p + n + 1, &end, 10) : 0;
        if (end <= p + n + 1 || !strchr(" \t\r\n", *end)) {
            snprintf(ret_error, 256, "source: \"%.64s\" is not name=number", p);
            good = false;
        } else {
            good = set_member(plan, (struct str){p, n}, value, ret_error);
        }
        p = end;
    }
    free(words);
    return good;
}

static bool read_plan(struct source_plan *plan, struct str input, char *ret_error)
{
    struct js_doc doc = {0};
    *plan = (struct source_plan){.events = 1000, .bytes = 120, .burst = 16};
    bool is_object = js_parse(&doc, input.p, input.n, JS_CLIENT) && js_type(&doc, 0) == JS_OBJECT;
    bool good =
        is_object ? source_read_object(plan, &doc, ret_error) : read_words(plan, input, ret_error);
    js_done(&doc);
    return good;
}

/* --- the run ---------------------------------------------------------------------------------- */

static void source_end(struct run *r, enum run_end how, struct str text)
{
    r->ended = true;
    stepper_stop(&r->stepper);
    r->events.on_end(r->task, how, text);
}

static void source_on_step(void *arg)
{
    struct run *r = source_run_of(arg);
    if (r->cancelled) {
        source_end(r, RUN_FAILED, STR("cancelled"));
        return;
    }
    for (int64_t i = 0; i < r->plan.burst && r->n_said < r->plan.events; i++) {
        if (r->paused || r->cancelled)
            break;
        r->n_said++;
        r->paused = true; /* first, so that an unpause from inside is not forgotten */
        if (r->events.on_event(r->task, &r->line))
            r->paused = false;
    }
    if (r->paused && !r->cancelled)
        stepper_stop(&r->stepper);
    else if (r->n_said == r->plan.events && !r->cancelled)
        source_end(r, RUN_DONE, STR_NULL);
}

static void source_cancel(struct run *run)
{
    struct run *r = source_run_of(run);
    if (r->ended)
        return;
    r->cancelled = true;
    stepper_start(&r->stepper);
}

static void source_unpause(struct run *run)
{
    struct run *r = source_run_of(run);
    if (r->ended || !r->paused)
        return;
    r->paused = false;
    stepper_start(&r->stepper);
}

static bool source_is_deaf(struct run *run)
{
    return source_run_of(run)->ended;
}

static bool source_deliver(struct run *run, struct str line)
{
    (void)line;
    return !source_run_of(run)->ended; /* it ignores them */
}

static void source_on_closed(void *arg)
{
    struct run *r = source_run_of(arg);
    r->magic = 0;
    free(r);
}

static void source_free(struct run *run)
{
    if (!run)
        return;
    struct run *r = source_run_of(run);
    buf_done(&r->data);
    stepper_close(&r->stepper, source_on_closed);
}

/* A text that would show where it was cut, if it ever is. */
static void prepare(struct run *r)
{
    const char prefix[] = "{\"text\":\"", letters[] = "abcdefghijklmnopqrstuvwxyz      ";
    size_t n = (size_t)r->plan.bytes;
    buf_puts(&r->data, prefix);
    for (size_t i = 0; i < n; i++)
        buf_putc(&r->data, letters[i % (sizeof letters - 1)]);
    buf_puts(&r->data, "\"}");
    r->line = (struct agent_line){.kind = LINE_EVENT,
                                  .event = EVENT_TOKEN,
                                  .data = buf_str(&r->data),
                                  .text = {r->data.bytes + sizeof prefix - 1, n},
                                  .timeout_s = -1};
}

static struct run *source_start(void *settings, const struct run_spec *spec,
                                const struct run_events *events, void *task, char *ret_error)
{
    const struct source_settings *s = settings;
    struct source_plan plan;
    if (!read_plan(&plan, spec->input, ret_error))
        return NULL;
    struct run *r = xcalloc(sizeof *r);
    r->magic = RUN_MAGIC;
    r->plan = plan;
    r->events = *events;
    r->task = task;
    prepare(r);
    stepper_init(&r->stepper, s->loop, (unsigned)plan.interval_ms, source_on_step, r);
    stepper_start(&r->stepper);
    return r;
}

const struct agent_ops agent_source_ops = {
    .kind = "source",
    .start = source_start,
    .cancel = source_cancel,
    .kill = source_cancel,
    .deliver = source_deliver,
    .is_deaf = source_is_deaf,
    .unpause = source_unpause,
    .free = source_free,
};
