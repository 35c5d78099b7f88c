#include "gateway/agents/agent_form.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/program_session.h"
#include "gateway/agents/recap.h"
#include "gateway/base/fault.h"

/* Design.  A run of agent_exec inside a run of ours: its lines become other lines, its end our end.
 * The first one is kept until free when a second one is started: it is on the stack then.
 *
 * A program that outlives the gateway has a standing note, in one batch with the lines that it
 * comes from: {"second":PLACE, …form_put_state}.  A second one is started when the note that says
 * so is committed.  Its output is counted from PLACE, where the first one's ended, so that marks
 * only grow. */

#define FORM_MAGIC 0x666f726du

struct form_run {
    unsigned magic;
    const struct form_settings *s;
    struct run_events events;
    void *task;
    const struct agent_ops *ops;   /* agent_exec's, of either kind */
    const struct resumption *from; /* while it goes on after a restart; NULL: it starts */
    struct run *inner, *spent;
    struct form form;
    struct buf out;   /* lines of section 8 */
    struct buf noted; /* the newest standing note */
    uint64_t marked, base;
    bool second;       /* the program is that, or will be */
    bool second_waits; /* for the note that says so */
    bool inner_waits;  /* when_committed, of the inner run: it came first */
    struct buf task_id;
    struct buf owner, id, prompt; /* the conversation's; all of it as a text, when resumed */
    bool resumed, cancelled, kept;
};

static struct form_run *form_run_of(void *arg)
{
    struct form_run *r = arg;
    ASSERT(r && r->magic == FORM_MAGIC);
    return r;
}

/* Core's; what stands for all of it is the newest note. */
struct recall {
    struct buf note;
};

static struct program_session form_session_of(const struct form_run *r)
{
    return (struct program_session){r->s->data, r->s->agent, buf_str(&r->owner), buf_str(&r->id),
                                    buf_str(&r->task_id)};
}

/* --- arguments -------------------------------------------------------------------------------- */

/* A form adds these to a command that does not have them; a value follows its option. */
static const struct {
    enum agent_form form;
    const char *option, *value;
} form_options[] = {
    {AGENT_FORM_CLAUDE, "-p", NULL},
    {AGENT_FORM_CLAUDE, "--output-format", "stream-json"},
    {AGENT_FORM_CLAUDE, "--include-partial-messages", NULL},
    {AGENT_FORM_CLAUDE, "--verbose", NULL}, /* without which it refuses stream-json */
    {AGENT_FORM_CODEX, "exec", NULL},
    {AGENT_FORM_CODEX, "--json", NULL},
    {AGENT_FORM_CODEX, "--skip-git-repo-check", NULL},
};

struct form_argv {
    const char *list[1024 + 16];
    size_t n;
};

static void argv_add(struct form_argv *a, const char *text)
{
    ASSERT(a->n + 1 < countof(a->list));
    a->list[a->n++] = text;
}

static bool argv_has(const struct form_argv *a, const char *text)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->list[i], text) == 0)
            return true;
    return false;
}

/* session NULL: a new one; input NULL: it comes over stdin. */
static void argv_fill(struct form_argv *a, const struct form_settings *s, const char *session,
                      const char *input)
{
    for (size_t i = 0; s->exec.command[i]; i++)
        argv_add(a, s->exec.command[i]);
    for (size_t i = 0; i < countof(form_options); i++) {
        if (form_options[i].form != s->form || argv_has(a, form_options[i].option))
            continue;
        argv_add(a, form_options[i].option);
        if (form_options[i].value)
            argv_add(a, form_options[i].value);
    }
    if (session) {
        argv_add(a, s->form == AGENT_FORM_CODEX ? "resume" : "--resume");
        argv_add(a, session);
    }
    if (s->form == AGENT_FORM_CODEX)
        argv_add(a, "-"); /* the prompt comes over stdin */
    if (input)
        argv_add(a, input);
    a->list[a->n] = NULL;
}

/* --- what it says ----------------------------------------------------------------------------- */

/* All lines go, also after one that the task takes as the last for now: they are there. */
static bool form_hand_over(struct form_run *r)
{
    bool wants_more = true;
    for (size_t at = 0; at < r->out.len;) {
        const char *end = memchr(r->out.bytes + at, '\n', r->out.len - at);
        size_t n = (size_t)(end - r->out.bytes) - at;
        wants_more &= r->events.on_line(r->task, (struct str){r->out.bytes + at, n});
        at += n + 1;
    }
    buf_clear(&r->out);
    return wants_more;
}

/* In the batch of the lines and of the mark behind them. */
static void form_note(struct form_run *r)
{
    struct buf note = {0};
    if (r->ops != &agent_kept_ops || r->form.kind == AGENT_FORM_TEXT)
        return;
    buf_putc(&note, '{');
    if (r->second)
        js_put_int(&note, "second", (int64_t)r->base);
    form_put_state(&r->form, &note);
    buf_putc(&note, '}');
    if (str_eq(buf_str(&note), buf_str(&r->noted))) {
        buf_done(&note);
        return;
    }
    buf_done(&r->noted);
    r->noted = note;
    r->events.on_note(r->task, true, buf_str(&note));
    FAULT_DIE(NOTE);
}

static bool form_on_line(void *task, struct str piece)
{
    struct form_run *r = form_run_of(task);
    form_take(&r->form, piece, &r->out);
    if (r->form.session.len && !r->kept) { /* now: the turn may end in many ways */
        struct program_session session = form_session_of(r);
        program_session_write(&session, buf_str(&r->form.session));
        r->kept = true;
    }
    bool wants_more = form_hand_over(r);
    form_note(r);
    return wants_more;
}

static bool form_launch(struct form_run *r, const char *session, struct str input, char *ret_error);

/* True when it runs again.  It knew nothing of that session. */
static bool form_begin_anew(struct form_run *r, char *ret_error)
{
    if (!r->resumed || r->kept || r->cancelled || r->spent || r->second)
        return false;
    form_done(&r->form);
    form_open(&r->form, r->s->form);
    r->second = true;
    r->base = r->marked;
    if (r->ops == &agent_kept_ops) {
        form_note(r);
        r->second_waits = true;
        r->events.when_committed(r->task);
        return true;
    }
    r->spent = r->inner;
    r->inner = NULL;
    return form_launch(r, NULL, buf_str(&r->prompt), ret_error);
}

static void form_on_end(void *task, enum run_end end, struct str text)
{
    struct form_run *r = form_run_of(task);
    char error[256] = "";
    form_end(&r->form, &r->out);
    if (form_failure(&r->form).n || end == RUN_FAILED) {
        if (form_begin_anew(r, error))
            return;
        if (error[0]) {
            r->events.on_end(r->task, RUN_FAILED, str_of(error));
            return;
        }
    }
    (void)form_hand_over(r);
    struct str failure = form_failure(&r->form);
    bool said = failure.n && (r->form.has_ended || end == RUN_DONE);
    r->events.on_end(r->task, said ? RUN_FAILED : end, said ? failure : text);
}

/* The beginning of a character is not said yet, so the mark stays before it. */
static bool form_on_mark(void *task, uint64_t mark)
{
    struct form_run *r = form_run_of(task);
    size_t begun = r->form.kind == AGENT_FORM_TEXT ? r->form.text.len : 0;
    r->marked = r->base + mark - begun;
    return r->events.on_mark(r->task, r->marked) && begun == 0;
}

static void form_on_taken(void *task, uint64_t position)
{
    (void)task, (void)position; /* it has no inbox */
}

static void form_when_committed(void *task)
{
    struct form_run *r = form_run_of(task);
    r->inner_waits = true;
    r->events.when_committed(r->task);
}

static const struct run_events form_events = {.on_line = form_on_line,
                                              .on_end = form_on_end,
                                              .on_mark = form_on_mark,
                                              .on_taken = form_on_taken,
                                              .when_committed = form_when_committed};

/* --- the port --------------------------------------------------------------------------------- */

static bool form_launch(struct form_run *r, const char *session, struct str input, char *ret_error)
{
    const struct form_settings *s = r->s;
    struct form_argv argv = {.n = 0};
    char *argument = s->by_argument ? xstrdup(input) : NULL;
    argv_fill(&argv, s, session, argument);
    struct exec_settings exec = s->exec;
    exec.command = (char **)(uintptr_t)argv.list;
    exec.feed = s->by_argument ? EXEC_FEED_END : EXEC_FEED_INPUT;
    exec.bytes = form_is_bytes(s->form);
    exec.max_line = FORM_MAX_LINE;
    struct run_spec spec = {.task_id = buf_str(&r->task_id),
                            .owner = buf_str(&r->owner),
                            .conversation_id = buf_str(&r->id),
                            .input = input};
    r->resumed = session != NULL;
    exec.second = r->second && exec.kept;
    if (r->from)
        r->inner = r->ops->resume(&exec, &spec, r->from, &form_events, r, ret_error);
    else if (exec.second)
        r->inner = exec_start_second(&exec, &spec, &form_events, r, ret_error);
    else
        r->inner = r->ops->start(&exec, &spec, &form_events, r, ret_error);
    free(argument);
    return r->inner != NULL;
}

static void form_free(struct run *run)
{
    if (!run)
        return;
    struct form_run *r = form_run_of(run);
    r->ops->free(r->inner);
    r->ops->free(r->spent);
    form_done(&r->form);
    buf_done(&r->out);
    buf_done(&r->noted);
    buf_done(&r->task_id);
    buf_done(&r->owner);
    buf_done(&r->id);
    buf_done(&r->prompt);
    r->magic = 0;
    free(r);
}

static bool form_is_argument(struct str input, char *ret_error)
{
    if (input.n > FORM_MAX_ARGUMENT)
        snprintf(ret_error, 256, "the message is too long for an argument: %d bytes at most",
                 FORM_MAX_ARGUMENT);
    else if (memchr(input.p, 0, input.n))
        snprintf(ret_error, 256, "the message has a NUL byte, which no argument can have");
    else
        return true;
    return false;
}

/* Takes over what the form knew.  False: the note is none of ours. */
static bool form_recall_state(struct form_run *r, struct str note)
{
    struct js_doc doc = {0};
    int64_t base = 0;
    bool good = js_parse(&doc, note.p, note.n, JS_OURS) && form_take_state(&r->form, &doc, 0);
    uint32_t second = good ? js_get(&doc, 0, "second") : 0;
    if (second)
        good = js_int(&doc, second, &base) && base >= 0;
    js_done(&doc);
    r->second = second != 0;
    r->base = (uint64_t)base;
    r->kept = r->form.session.len > 0;
    buf_putstr(&r->noted, note);
    return good;
}

/* With the session that the conversation has; a second program is one that had none. */
static bool form_begin(struct form_run *r, const struct run_spec *spec, char *ret_error)
{
    struct buf session = {0};
    bool is_text = r->s->form == AGENT_FORM_TEXT;
    struct program_session known = form_session_of(r);
    struct str turns = spec->is_context ? STR_NULL : spec->turns;
    bool resumes = !is_text && !r->second && program_session_read(&known, turns, &session);
    if (!is_text)
        recap_put(&r->prompt, spec->history, spec->input);
    struct str input = resumes || is_text ? spec->input : buf_str(&r->prompt);
    bool good = form_launch(r, resumes ? session.bytes : NULL, input, ret_error);
    buf_done(&session);
    return good;
}

static struct form_run *form_run_new(const struct form_settings *s, const struct run_spec *spec,
                                     const struct run_events *events, void *task)
{
    struct form_run *r = xcalloc(sizeof *r);
    r->magic = FORM_MAGIC;
    r->s = s;
    r->events = *events;
    r->task = task;
    r->ops = s->exec.kept ? &agent_kept_ops : &agent_exec_ops;
    buf_putstr(&r->task_id, spec->task_id);
    buf_putstr(&r->owner, spec->owner);
    buf_putstr(&r->id, spec->conversation_id);
    form_open(&r->form, s->form);
    return r;
}

static struct run *form_start(void *settings, const struct run_spec *spec,
                              const struct run_events *events, void *task, char *ret_error)
{
    const struct form_settings *s = settings;
    if (s->by_argument && !form_is_argument(spec->input, ret_error))
        return NULL;
    struct form_run *r = form_run_new(s, spec, events, task);
    if (form_begin(r, spec, ret_error))
        return (struct run *)r;
    form_free((struct run *)r);
    return NULL;
}

static void form_cancel(struct run *run)
{
    struct form_run *r = form_run_of(run);
    r->cancelled = true;
    r->ops->cancel(r->inner);
}

static void form_kill(struct run *run)
{
    struct form_run *r = form_run_of(run);
    r->cancelled = true;
    r->ops->kill(r->inner);
}

static bool form_deliver(struct run *run, struct str line)
{
    (void)run, (void)line;
    return false;
}

static bool form_is_deaf(struct run *run)
{
    (void)run;
    return true;
}

static void form_unpause(struct run *run)
{
    struct form_run *r = form_run_of(run);
    r->ops->unpause(r->inner);
}

const struct agent_ops agent_form_ops = {
    .kind = "exec",
    .start = form_start,
    .cancel = form_cancel,
    .kill = form_kill,
    .deliver = form_deliver,
    .is_deaf = form_is_deaf,
    .unpause = form_unpause,
    .free = form_free,
};

/* --- kept programs ---------------------------------------------------------------------------- */

static struct exec_settings *form_exec(void *settings)
{
    struct form_settings *s = settings;
    return &s->exec;
}

static bool form_prepare(void *settings, struct str task_id, char *ret_error)
{
    return agent_kept_ops.prepare(form_exec(settings), task_id, ret_error);
}

static void form_settled(void *settings, struct str task_id)
{
    agent_kept_ops.settled(form_exec(settings), task_id);
}

static bool form_is_there(void *settings, struct str task_id, uint64_t *ret_last, char *ret_why)
{
    return agent_kept_ops.is_there(form_exec(settings), task_id, ret_last, ret_why);
}

/* Text is never withdrawn: the program is read on from the mark. */
static struct recall *form_recall(void *settings, struct recall *recall,
                                  const struct recalled *item, bool *ret_settled)
{
    struct recall *all = recall ? recall : xcalloc(sizeof *all);
    (void)settings;
    *ret_settled = true;
    if (item->event)
        return all;
    buf_clear(&all->note);
    buf_putstr(&all->note, item->note);
    return all;
}

static void form_forget(struct recall *recall)
{
    buf_done(&recall->note);
    free(recall);
}

static struct run *form_resume(void *settings, const struct run_spec *spec,
                               const struct resumption *from, const struct run_events *events,
                               void *task, char *ret_error)
{
    struct form_run *r = form_run_new(settings, spec, events, task);
    struct resumption inner = {.mark = from->mark};
    bool good = from->recall->note.len == 0 || form_recall_state(r, buf_str(&from->recall->note));
    form_forget(from->recall);
    if (!good || r->base > from->mark) {
        snprintf(ret_error, 256, "the gateway was restarted, and what it had noted cannot be read");
        form_free((struct run *)r);
        return NULL;
    }
    r->marked = from->mark;
    inner.mark -= r->base;
    r->from = &inner;
    good = form_begin(r, spec, ret_error);
    r->from = NULL;
    if (good)
        return (struct run *)r;
    form_free((struct run *)r);
    return NULL;
}

/* The note that there is a second one is committed. */
static void form_start_second(struct form_run *r)
{
    char error[256] = "cancelled";
    r->second_waits = false;
    r->spent = r->inner;
    r->inner = NULL;
    if (r->cancelled || !form_launch(r, NULL, buf_str(&r->prompt), error))
        r->events.on_end(r->task, RUN_FAILED, str_of(error));
}

static void form_proceed(struct run *run)
{
    struct form_run *r = form_run_of(run);
    if (r->inner_waits) {
        r->inner_waits = false;
        agent_kept_ops.proceed(r->inner);
    } else if (r->second_waits) {
        form_start_second(r);
    }
}

static void form_leave(struct run *run)
{
    agent_kept_ops.leave(form_run_of(run)->inner);
}

const struct agent_ops agent_form_kept_ops = {
    .kind = "exec",
    .start = form_start,
    .cancel = form_cancel,
    .kill = form_kill,
    .deliver = form_deliver,
    .is_deaf = form_is_deaf,
    .unpause = form_unpause,
    .free = form_free,
    .prepare = form_prepare,
    .settled = form_settled,
    .proceed = form_proceed,
    .recall = form_recall,
    .forget = form_forget,
    .is_there = form_is_there,
    .resume = form_resume,
    .leave = form_leave,
};
