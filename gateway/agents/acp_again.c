/* An ACP agent whose program outlives the gateway (PROTOCOL.md 3).
 *
 * What passes between it and the task is decided, then committed, then done:
 *
 * - One batch has all that follows from its lines up to a mark: the events, the standing note,
 *   and what it is told, each line with a number (run_events.on_say).  It is told when that is
 *   committed; the page of its program says up to which number it was, so each line goes once.
 * - A request with an effect (a file is written, a command begins or ends) is not answered at
 *   once: a note says that it begins, and the mark stays before it.  When that is committed it is
 *   carried out, and the answer goes with the next batch, whose mark is behind it.  A gateway that
 *   finds the note reads the same request again, and knows that an earlier one has begun: what a
 *   file or a command shows to be done is told as done, all else as unknown.
 * - The answer to a permission is a line of core's, with a number; it is made into the program's
 *   words as it is given.
 * - Between turns the program belongs to no task, and ends with its gateway (hold_page.h).  The
 *   next turn moves it to its own name first; a gateway that finds it there without a note, so
 *   that it was told nothing, starts another one.
 * - One that has died of the prompt, unheard, is replaced when the note that says so is committed.
 *   Lines for the first one (up to skip) are not given to the second.
 *
 * Standing note: {"second":true,"skip":N,"state":{…},"begun":true,"reused":true,"gifts":N,
 * "last":N,"terminals":[…]}; without a state, a second one is to start.  The answer so far is in
 * the events. */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/acp_process.h"
#include "gateway/base/fault.h"

/* --- what is noted ---------------------------------------------------------------------------- */

static void note_place(const struct acp_process *p, struct buf *note)
{
    if (p->second || p->second_waits)
        js_put_bool(note, "second", true);
    if (p->second_waits)
        js_put_int(note, "skip", (int64_t)p->said);
}

static void note_state(const struct acp_process *p, struct buf *note)
{
    js_put_raw(note, "state", STR("{"));
    acp_put_state(&p->acp, note);
    buf_putc(note, '}');
    if (p->effect.len)
        js_put_bool(note, "begun", true);
    if (p->reused && !p->heard)
        js_put_bool(note, "reused", true);
    if (p->gifts.number)
        js_put_int(note, "gifts", p->gifts.number);
    acp_shell_put(&p->shell, note);
}

void acp_note(struct acp_process *p)
{
    struct buf note = {0};
    buf_putc(&note, '{');
    note_place(p, &note);
    if (!p->second_waits)
        note_state(p, &note);
    buf_putc(&note, '}');
    if (str_eq(buf_str(&note), buf_str(&p->noted))) {
        buf_done(&note);
        return;
    }
    buf_done(&p->noted);
    p->noted = note;
    p->run->events.on_note(p->run->task, true, buf_str(&note));
    FAULT_DIE(NOTE);
}

/* --- commits ---------------------------------------------------------------------------------- */

static void acp_await(struct acp_process *p, enum acp_commit what)
{
    ASSERT(p->n_commits < N_ACP_COMMITS);
    p->commits[p->n_commits++] = what;
    if (p->run && !p->run->ended) /* else acp_idle */
        p->run->events.when_committed(p->run->task);
}

void acp_when_committed(void *process)
{
    struct acp_process *p = acp_process_of(process);
    if (p->settled)
        agent_kept_ops.proceed(p->inner);
    else
        acp_await(p, ACP_COMMIT_INNER);
}

bool acp_on_mark(void *process, uint64_t mark)
{
    struct acp_process *p = acp_process_of(process);
    if (!p->run)
        return p->settled;
    p->mark = mark;
    p->mark_waits = acp_is_busy(p);
    return !p->mark_waits && p->run->events.on_mark(p->run->task, p->mark);
}

void acp_on_taken(void *process, uint64_t position)
{
    struct acp_process *p = acp_process_of(process);
    if (p->run)
        p->run->events.on_taken(p->run->task, position);
}

/* --- effects ---------------------------------------------------------------------------------- */

static bool do_effect(struct acp_process *p, bool again)
{
    struct buf line = p->effect;
    p->effect = (struct buf){0};
    acp_do(&p->acp, buf_str(&line), again);
    FAULT_DIE(EFFECT);
    if (p->acp.is_unknown)
        p->run->events.on_unknown(p->run->task, STR("fs/write_text_file"));
    buf_done(&line);
    return acp_flush(p);
}

bool acp_hold_effect(struct acp_process *p, struct str line)
{
    bool again = p->again;
    p->again = false;
    (void)acp_flush(p); /* the turn may just begin */
    if (p->run->ended)
        return false;
    buf_putstr(&p->effect, line);
    if (again)
        return do_effect(p, true);
    acp_note(p);
    acp_await(p, ACP_COMMIT_EFFECT);
    return false;
}

/* --- a second program ------------------------------------------------------------------------- */

void acp_wait_for_second(struct acp_process *p)
{
    p->second_waits = true;
    acp_note(p);
    acp_await(p, ACP_COMMIT_SECOND);
}

static void start_second(struct acp_process *p)
{
    char error[256] = "cancelled";
    struct acp_process *next = NULL;
    struct run_spec spec = {.task_id = str_of(p->task_id),
                            .owner = str_of(p->owner),
                            .conversation_id = str_of(p->conversation_id)};
    p->second_waits = false;
    if (!p->acp.cancelled)
        next = acp_process_new(p->s, &spec, ACP_TAKES_PLACE, true, 0, error);
    if (!next) {
        acp_lost(&p->acp, str_of(error));
        (void)acp_flush(p);
        return;
    }
    next->skip = p->said;
    acp_move_run(p, next);
    acp_ask(next, buf_str(&p->acp.input), buf_str(&p->acp.recap), &p->acp.files);
}

void acp_proceed(struct acp_process *p)
{
    ASSERT(p->n_commits > 0);
    enum acp_commit what = p->commits[0];
    p->n_commits--;
    memmove(&p->commits[0], &p->commits[1], p->n_commits * sizeof p->commits[0]);
    switch (what) {
    case ACP_COMMIT_INNER: agent_kept_ops.proceed(p->inner); return;
    case ACP_COMMIT_SECOND: start_second(p); return;
    case ACP_COMMIT_EFFECT:
        if (p->effect.len > 0)
            acp_go_on_reading(p, do_effect(p, false));
        return;
    }
}

/* --- lines for it ----------------------------------------------------------------------------- */

static bool is_answer(struct str line)
{
    struct str begin = STR("{\"type\":\"input\",");
    return line.n >= begin.n && memcmp(line.p, begin.p, begin.n) == 0;
}

/* An answer to what nobody asks any more is none. */
static bool deliver_answer(struct acp_process *p, uint64_t position, struct str line)
{
    struct buf out = {0};
    unsigned number = 0;
    bool given = true;
    if (acp_is_busy(p)) /* what it has asked may be on its way, and is not noted */
        return false;
    if (acp_put_answer(&p->acp, line, &out, &number)) {
        given = agent_kept_ops.deliver_at(p->inner, position, (struct str){out.bytes, out.len - 1});
        if (given)
            acp_answered(&p->acp, number);
    }
    buf_done(&out);
    if (given)
        (void)acp_flush(p);
    return given;
}

bool acp_deliver_at(struct acp_process *p, uint64_t position, struct str line)
{
    bool is_gone = p->reused && !p->heard && acp_inner_ops(p)->is_deaf(p->inner);
    if (p->second_waits || position <= p->skip || is_gone)
        return true; /* those are for another program */
    return is_answer(line) ? deliver_answer(p, position, line)
                           : agent_kept_ops.deliver_at(p->inner, position, line);
}

/* --- a restart -------------------------------------------------------------------------------- */

/* Core's; what the program has said stays, and is read on from the mark. */
struct recall {
    struct buf note, answer;
};

static void recall_token(struct recall *r, struct str data)
{
    struct js_doc doc = {0};
    uint32_t text = js_parse(&doc, data.p, data.n, JS_OURS) ? js_get(&doc, 0, "text") : 0;
    if (text && r->answer.len <= MAX_OUTPUT) /* more is none (acp_keep_answer) */
        js_value(&doc, text, &r->answer);
    js_done(&doc);
}

struct recall *acp_recall(void *settings, struct recall *recall, const struct recalled *item,
                          bool *ret_settled)
{
    struct recall *r = recall ? recall : xcalloc(sizeof *r);
    (void)settings;
    *ret_settled = true;
    if (item->event && item->event->event == EVENT_TOKEN) {
        recall_token(r, item->event->data);
    } else if (item->event && item->event->event == EVENT_TOOL_CALL) {
        buf_clear(&r->answer);
    } else if (!item->event) {
        buf_clear(&r->note);
        buf_putstr(&r->note, item->note);
    }
    return r;
}

void acp_forget_recall(struct recall *recall)
{
    buf_done(&recall->note);
    buf_done(&recall->answer);
    free(recall);
}

static bool note_count(const struct js_doc *doc, const char *key, uint64_t *ret)
{
    int64_t n = 0;
    uint32_t node = js_get(doc, 0, key);
    bool good = !node || (js_int(doc, node, &n) && n >= 0);
    *ret = (uint64_t)n;
    return good;
}

static bool note_says(const struct js_doc *doc, const char *key)
{
    uint32_t node = js_get(doc, 0, key);
    return node && js_type(doc, node) == JS_TRUE;
}

static bool take_note(struct acp_process *p, const struct js_doc *doc, uint32_t state)
{
    uint64_t gifts = 0;
    struct acp_options o = acp_options_of(p);
    if (!acp_take_state(&p->acp, &o, doc, state) || !acp_shell_take(&p->shell, doc, 0) ||
        !note_count(doc, "gifts", &gifts))
        return false;
    p->gifts.number = (unsigned)gifts;
    p->again = note_says(doc, "begun");
    p->reused = note_says(doc, "reused");
    p->heard = !p->reused;
    return true;
}

static struct acp_process *process_of_note(struct acp_settings *s, const struct run_spec *spec,
                                           const struct resumption *from, const struct js_doc *doc,
                                           char *ret_error)
{
    uint32_t state = js_get(doc, 0, "state");
    struct acp_process *p = acp_process_new(s, spec, state ? ACP_GOES_ON : ACP_STARTS_ANEW,
                                            note_says(doc, "second"), from->mark, ret_error);
    if (!p || (state ? take_note(p, doc, state) : note_count(doc, "skip", &p->skip)))
        return p;
    snprintf(ret_error, 256, "the gateway was restarted, and what it had noted cannot be read");
    acp_close(p);
    return NULL;
}

struct acp_process *acp_process_again(struct acp_settings *s, const struct run_spec *spec,
                                      const struct resumption *from, bool *ret_anew,
                                      char *ret_error)
{
    struct js_doc doc = {0};
    struct str note = from->recall->note.len ? buf_str(&from->recall->note) : STR("{}");
    struct acp_process *p = NULL;
    if (js_parse(&doc, note.p, note.n, JS_OURS) && js_type(&doc, 0) == JS_OBJECT) {
        p = process_of_note(s, spec, from, &doc, ret_error);
        *ret_anew = js_get(&doc, 0, "state") == 0;
    } else {
        snprintf(ret_error, 256, "the gateway was restarted, and what it had noted cannot be read");
    }
    if (p && !*ret_anew)
        buf_putstr(&p->noted, note);
    js_done(&doc);
    return p;
}

void acp_turn_again(struct acp_process *p, const struct run_spec *spec, struct str recap,
                    struct str files, const struct resumption *from)
{
    struct buf *answer = &from->recall->answer;
    buf_putstr(answer, from->held);
    acp_go_on(&p->acp, spec->input, recap, files, buf_str(answer));
    acp_shell_tell(&p->shell); /* those that have ended meanwhile */
}
