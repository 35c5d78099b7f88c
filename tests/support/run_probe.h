/* run_probe -- what the tests of the in-process agents share: a core that takes notes, and waiting.
 *
 * Shape:    for one test file each, hence static: a loop, and runs of any agent_ops.  Each event is
 *           noted as a line, "token {"text":"a"}". setup and teardown go around each test; teardown
 *           frees what still runs and checks that no handle is left.
 * Thread:   one.
 */
#ifndef TESTS_SUPPORT_RUN_PROBE_H
#define TESTS_SUPPORT_RUN_PROBE_H

#include <uv.h>

#include "core/agent.h"
#include "tests/support/t.h"

#define FAILSAFE_MS 30000

struct probe {
    const struct agent_ops *ops;
    struct run *run;
    struct buf log;     /* events, one a line */
    struct buf tokens;  /* their text, joined */
    struct buf thought; /* likewise of thinking */
    struct buf final;   /* the last final_answer */
    struct buf notes;   /* each with a newline */
    struct buf waiting; /* messages that were refused, one a line */
    struct buf result;  /* the last */
    struct buf allowed; /* keys of topics, each with a newline before and after it */
    bool holds;         /* nothing is committed; how often the run waits for that */
    unsigned n_waits, n_unknown;
    size_t n_events, n_tokens, n_finals;
    size_t pause_at; /* on_event returns false after that many events; 0: never */
    void (*on_event)(struct probe *p);
    bool silent; /* no log */
    bool ended;
    enum run_end end;
    char text[512];
    char stop[512]; /* why the run wants to be stopped */
};

static uv_loop_t loop;
static struct probe probe; /* most tests need one run */

static inline void put(struct buf *to, struct str text)
{
    buf_putstr(to, text);
    buf_putc(to, 0);
    to->len--;
}

static inline bool probe_on_event(void *task, const struct agent_line *line)
{
    struct probe *p = task;
    assert_false(p->ended);
    if (line->kind == LINE_RESULT) {
        buf_clear(&p->result);
        put(&p->result, line->data);
        return true;
    }
    assert_int_equal(line->kind, LINE_EVENT);
    assert_true(line->data.n < MAX_EVENT_LINE);
    p->n_events++;
    if (!p->silent) {
        buf_puts(&p->log, event_name(line->event));
        buf_putc(&p->log, ' ');
        buf_putstr(&p->log, line->data);
        put(&p->log, STR("\n"));
    }
    p->n_tokens += line->event == EVENT_TOKEN;
    if (line->event == EVENT_TOKEN)
        put(&p->tokens, line->text);
    if (line->event == EVENT_THINKING)
        put(&p->thought, line->text);
    if (line->event == EVENT_FINAL_ANSWER) {
        p->n_finals++;
        buf_clear(&p->final);
        put(&p->final, line->text);
    }
    if (p->on_event)
        p->on_event(p);
    return !p->pause_at || p->n_events < p->pause_at;
}

static inline void probe_on_end(void *task, enum run_end end, struct str text)
{
    struct probe *p = task;
    assert_false(p->ended);
    assert_true(text.n < sizeof p->text);
    p->ended = true;
    p->end = end;
    if (text.n)
        memcpy(p->text, text.p, text.n);
    p->text[text.n] = 0;
}

static inline void probe_on_note(void *task, bool standing, struct str bytes)
{
    struct probe *p = task;
    assert_false(standing);
    buf_putstr(&p->notes, bytes);
    put(&p->notes, STR("\n"));
}

static inline void probe_when_committed(void *task)
{
    struct probe *p = task;
    p->n_waits++;
    if (!p->holds)
        p->ops->proceed(p->run);
}

static inline void probe_on_unknown(void *task, struct str tool)
{
    (void)tool;
    ((struct probe *)task)->n_unknown++;
}

static inline bool probe_is_allowed(void *task, struct str key)
{
    struct probe *p = task;
    struct buf line = {0};
    buf_putf(&line, "\n%.*s\n", (int)key.n, key.p);
    bool found = p->allowed.len && memmem(p->allowed.bytes, p->allowed.len, line.bytes, line.len);
    buf_done(&line);
    return found;
}

static inline void probe_allow(void *task, struct str key)
{
    buf_putf(&((struct probe *)task)->allowed, "\n%.*s\n", (int)key.n, key.p);
}

/* It is committed at once. */
static inline void probe_on_stop(void *task, struct str text)
{
    struct probe *p = task;
    snprintf(p->stop, sizeof p->stop, "%.*s", (int)text.n, text.p);
    p->ops->cancel(p->run);
}

/* The oldest line that waits is offered, until one is refused. */
static inline void probe_on_room(void *task)
{
    struct probe *p = task;
    while (p->waiting.len) {
        const char *newline = memchr(p->waiting.bytes, '\n', p->waiting.len);
        size_t n = (size_t)(newline - p->waiting.bytes);
        if (!p->ops->deliver(p->run, (struct str){p->waiting.bytes, n}))
            return;
        buf_consume(&p->waiting, n + 1);
    }
}

static const struct run_events run_events = {.on_event = probe_on_event,
                                             .on_room = probe_on_room,
                                             .on_end = probe_on_end,
                                             .on_note = probe_on_note,
                                             .when_committed = probe_when_committed,
                                             .on_unknown = probe_on_unknown,
                                             .is_allowed = probe_is_allowed,
                                             .allow = probe_allow,
                                             .on_stop = probe_on_stop};

/* As core does: a line that is refused waits until there is room.  False: it is never taken. */
static inline bool probe_deliver(const char *line)
{
    if (probe.ops->is_deaf(probe.run))
        return false;
    if (probe.ops->deliver(probe.run, str_of(line)))
        return true;
    buf_puts(&probe.waiting, line);
    put(&probe.waiting, STR("\n"));
    return true;
}

/* history NULL: none.  Returns the error from start; "" when it started. */
static inline const char *probe_start(const struct agent_ops *ops, void *settings, struct str input,
                                      const char *history)
{
    static char error[256];
    struct run_spec spec = {.task_id = STR("01J0"),
                            .conversation_id = STR("c-1"),
                            .input = input,
                            .history = history ? str_of(history) : STR("[]"),
                            .parent = STR("{}"),
                            .metadata = STR("null")};
    error[0] = 0;
    probe.ops = ops;
    probe.run = ops->start(settings, &spec, &run_events, &probe, error);
    assert_int_equal(probe.n_events, 0); /* never from inside start */
    assert_false(probe.ended);
    assert_true((probe.run != NULL) == (error[0] == 0));
    return error;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static inline void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* Runs the loop until done(); looks at least every 2 ms. */
static inline void wait_until(bool (*done)(void))
{
    uv_timer_t tick;
    uint64_t begun = uv_hrtime();

    uv_timer_init(&loop, &tick);
    uv_timer_start(&tick, on_tick, 2, 2);
    while (!done() && uv_hrtime() - begun < FAILSAFE_MS * 1000000ULL)
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(done());
}

static inline bool has_ended(void)
{
    return probe.ended;
}

static inline bool has_events(void)
{
    return probe.n_events > 0;
}

static inline bool is_paused(void)
{
    return probe.pause_at && probe.n_events >= probe.pause_at;
}

/* That many turns of the loop, whatever happens in them. */
static inline void turn_loop(int n)
{
    while (n-- > 0)
        uv_run(&loop, UV_RUN_NOWAIT);
}

static inline void finish(void)
{
    if (probe.run)
        probe.ops->free(probe.run);
    buf_done(&probe.log);
    buf_done(&probe.tokens);
    buf_done(&probe.thought);
    buf_done(&probe.final);
    buf_done(&probe.notes);
    buf_done(&probe.waiting);
    buf_done(&probe.result);
    buf_done(&probe.allowed);
    probe = (struct probe){0};
}

static inline const char *text_of(const struct buf *b)
{
    return b->bytes ? b->bytes : "";
}

static inline void expect_end(enum run_end end, const char *text)
{
    wait_until(has_ended);
    assert_string_equal(probe.text, text);
    assert_int_equal(probe.end, end);
}

static inline int setup(void **state)
{
    (void)state;
    return uv_loop_init(&loop);
}

static inline int teardown(void **state)
{
    (void)state;
    finish();
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

#endif
