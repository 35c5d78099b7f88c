#include "gateway/agents/agent_remote.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/program_session.h"
#include "gateway/agents/recap.h"
#include "gateway/base/fault.h"
#include "gateway/fetch/stream_form.h"
#include "proto/forms/remote_again.h"

/* Design.  A fetch is never freed in a callback of its own: what follows a reply (the next request,
 * the end of a cancel) comes from the timer, which stands at 0 ms for that, and at a retry's pause
 * after a cut.
 *
 * An answer goes to the server when it is committed, because no later gateway may then have another
 * one. */

#define REMOTE_MAGIC 0x72656d74u

struct remote_run {
    unsigned magic;
    const struct remote_settings *s;
    struct run_events events;
    void *task;
    struct program_session session; /* owner NULL: it is not kept */
    char task_id[TASK_ID_LEN + 1];
    uv_timer_t timer;
    struct fetch *fetch;
    struct trace_copy trace;
    struct remote remote;

    /* The reply under way. */
    bool says_events, framed;
    bool is_heard; /* something of it has come */
    enum stream_form form;
    struct sse_reader sse;
    struct buf body; /* its beginning, or all of one that is no stream */

    unsigned cuts; /* in a row, without a line between them */
    struct buf why;
    bool paused; /* the task wants no more for now */
    bool cancelled, killed, ended;

    /* Over a restart of the gateway. */
    struct buf noted; /* the newest note */
    uint64_t mark;    /* how often one was taken */
    size_t n_waits;   /* for commits of answers: nothing is sent meanwhile */
    unsigned moot[REMOTE_QUESTIONS];
    size_t n_moot;
};

/* The notes and events of the task. */
struct recall {
    struct remote_past past;
};

static struct remote_run *remote_run_of(void *arg)
{
    struct remote_run *r = arg;
    ASSERT(r && r->magic == REMOTE_MAGIC);
    return r;
}

static void remote_end_run(struct remote_run *r, enum run_end how, struct str text)
{
    if (r->ended)
        return;
    r->ended = true;
    uv_timer_stop(&r->timer);
    r->events.on_end(r->task, how, text);
}

/* --- after each reply, or piece of one -------------------------------------------------------- */

static void remote_on_timer(uv_timer_t *timer);

static void remote_go_on(struct remote_run *r, msec_t ms)
{
    if (!uv_is_active((uv_handle_t *)&r->timer))
        uv_timer_start(&r->timer, remote_on_timer, (uint64_t)ms, 0);
}

/* The rest of a reply that was cut. */
static void remote_go_again(struct remote_run *r)
{
    if (++r->cuts > r->s->again.retries) {
        remote_fail(&r->remote, buf_str(&r->why));
        return;
    }
    msec_t ms = fetch_retry_ms(r->cuts, 0, (uint32_t)uv_hrtime());
    r->remote.request.again = false;
    remote_go_on(r, ms);
}

/* on_line may cancel the run, or unpause it. */
static void remote_say(struct remote_run *r)
{
    struct buf said = r->remote.said;
    r->remote.said = (struct buf){0};
    if (said.len)
        r->cuts = 0;
    for (size_t at = 0; at < said.len && !r->cancelled;) {
        const char *end = memchr(said.bytes + at, '\n', said.len - at);
        size_t n = (size_t)(end - said.bytes) - at;
        r->paused = true; /* first, so that an unpause from inside is not forgotten */
        if (r->events.on_line(r->task, (struct str){said.bytes + at, n}))
            r->paused = false;
        FAULT_DIE(LINE_TAKEN);
        at += n + 1;
    }
    buf_done(&said);
}

static void remote_keep_session(struct remote_run *r)
{
    if (!r->remote.new_session)
        return;
    r->remote.new_session = false;
    if (r->session.owner.p)
        program_session_write(&r->session, buf_str(&r->remote.session));
}

/* In the batch of what was said. */
static void remote_note(struct remote_run *r)
{
    struct buf note = {0};
    bool waits = r->remote.state == REMOTE_ASKS;
    if (!r->s->goes_on || !(waits || r->is_heard) || !remote_is_notable(&r->remote))
        return;
    remote_put_note(&r->remote, &note);
    if (!str_eq(buf_str(&note), buf_str(&r->noted))) {
        if (waits || r->remote.form->by_place) /* what was said stays */
            (void)r->events.on_mark(r->task, ++r->mark);
        r->events.on_note(r->task, true, buf_str(&note));
        buf_clear(&r->noted);
        buf_putstr(&r->noted, buf_str(&note));
        FAULT_DIE(NOTE);
    }
    buf_done(&note);
}

static void remote_flush(struct remote_run *r)
{
    struct remote *m = &r->remote;
    if (m->anew) {
        r->events.on_anew(r->task);
        FAULT_DIE(ANEW);
    }
    m->anew = false;
    remote_keep_session(r);
    remote_say(r);
    if (r->ended || r->cancelled)
        return;
    remote_note(r);
    if (m->request.wanted && m->request.again)
        remote_go_again(r);
    else if (m->request.wanted || (m->state == REMOTE_ASKS && r->fetch))
        remote_go_on(r, 0);
    if (m->state == REMOTE_DONE)
        remote_end_run(r, RUN_DONE, STR_NULL);
    else if (m->state == REMOTE_FAILED)
        remote_end_run(r, RUN_FAILED, buf_str(&m->failure));
}

/* --- a reply ---------------------------------------------------------------------------------- */

static void remote_on_head(void *user, const struct fetch_head *head)
{
    struct remote_run *r = remote_run_of(user);
    r->says_events = stream_form_says_events(head->content_type);
    r->framed = head->framed;
    FAULT_DIE(REPLY_HEAD);
}

/* Nothing more of this reply counts. */
static bool is_through(const struct remote_run *r)
{
    return r->ended || r->cancelled || r->remote.state != REMOTE_WORKS || r->remote.request.wanted;
}

static void remote_take_events(struct remote_run *r, struct str bytes)
{
    struct sse_event e;
    enum sse_result got = SSE_MORE;
    while (!is_through(r) && (got = sse_reader_next(&r->sse, &bytes, &e)) == SSE_EVENT)
        remote_event(&r->remote, &e);
    if (got == SSE_TOO_LONG)
        remote_fail(&r->remote, STR("an event of the reply exceeds 4 MiB"));
}

static void remote_take_bytes(struct remote_run *r, struct str bytes)
{
    if (r->form == FORM_UNKNOWN) {
        r->form = stream_form_begin(r->says_events, &r->body, bytes);
        if (r->form != FORM_EVENTS)
            return;
        struct buf begun = r->body;
        r->body = (struct buf){0};
        remote_take_events(r, buf_str(&begun));
        buf_done(&begun);
    } else if (r->form == FORM_EVENTS) {
        remote_take_events(r, bytes);
    } else if (r->body.len + bytes.n > REMOTE_MAX_BODY) {
        remote_fail(&r->remote, STR("the reply exceeds 4 MiB"));
    } else {
        buf_putstr(&r->body, bytes);
    }
}

static bool remote_on_bytes(void *user, struct str bytes)
{
    struct remote_run *r = remote_run_of(user);
    r->is_heard = true;
    if (!is_through(r))
        remote_take_bytes(r, bytes);
    remote_flush(r);
    return !r->ended && !r->paused;
}

/* An event may lack its empty line, unless it was cut off in the middle. */
static void remote_take_rest(struct remote_run *r, bool is_cut)
{
    struct sse_event e;
    struct js_doc doc = {0};
    if (r->form != FORM_EVENTS) {
        if (!is_cut)
            remote_body(&r->remote, buf_str(&r->body));
    } else if (sse_reader_last(&r->sse, &e) == SSE_EVENT &&
               (!is_cut || js_parse(&doc, e.data.p, e.data.n, JS_AGENT))) {
        remote_event(&r->remote, &e);
    }
    js_done(&doc);
}

static void remote_reply_over(struct remote_run *r, struct str error)
{
    bool is_stream = r->form == FORM_EVENTS;
    if (!error.p && is_stream && !r->framed)
        error = STR("the reply broke off before its end");
    remote_take_rest(r, error.p != NULL);
    buf_clear(&r->why);
    buf_putstr(&r->why, error.p ? error : STR("the reply ended before its turn"));
    remote_end(&r->remote, error);
}

static void remote_on_done(void *user, struct str error)
{
    struct remote_run *r = remote_run_of(user);
    int status = fetch_status(r->fetch);
    if (r->cancelled) {
        remote_end_run(r, RUN_FAILED, STR("cancelled"));
        return;
    }
    if (is_through(r))
        return;
    if (error.p && status && (status < 200 || status > 299))
        remote_refused(&r->remote, status, error);
    else
        remote_reply_over(r, error);
    remote_flush(r);
}

static const struct fetch_events remote_fetch_events = {remote_on_head, remote_on_bytes,
                                                        remote_on_done};

/* --- a request -------------------------------------------------------------------------------- */

static void remote_reset_reply(struct remote_run *r)
{
    fetch_free(r->fetch);
    r->fetch = NULL;
    r->form = FORM_UNKNOWN;
    r->says_events = r->framed = r->is_heard = false;
    sse_reader_done(&r->sse);
    buf_clear(&r->body);
}

static void remote_send(struct remote_run *r)
{
    struct remote_request *q = &r->remote.request;
    const char *const *from = r->s->headers, *extra = r->remote.form->header;
    struct buf last_id = {0};
    size_t n = 0;
    while (from[n])
        n++;
    const char **headers = xcalloc((n + 3) * sizeof *headers);
    memcpy(headers, from, n * sizeof *headers);
    if (extra)
        headers[n++] = extra;
    if (q->last_id.len) {
        buf_puts(&last_id, "Last-Event-ID: ");
        buf_putstr(&last_id, buf_str(&q->last_id));
        headers[n++] = last_id.bytes;
    }
    struct fetch_request request = {.url = q->url.bytes,
                                    .headers = headers,
                                    .body = q->is_get ? STR_NULL : buf_str(&q->body),
                                    .trace = trace_kept(&r->trace)};
    q->wanted = false;
    r->fetch = fetch_start(r->s->fetcher, q->may_repeat ? &r->s->again : &r->s->options, &request,
                           &remote_fetch_events, r);
    free(headers);
    buf_done(&last_id);
    FAULT_DIE(POSTED);
}

/* Questions of a turn that was posted anew. */
static void tell_moot(struct remote_run *r)
{
    while (r->n_moot && !r->ended && !r->cancelled) {
        char id[32];
        snprintf(id, sizeof id, "ask-%u", r->moot[--r->n_moot]);
        r->events.on_moot(r->task, str_of(id));
    }
}

static void remote_on_timer(uv_timer_t *timer)
{
    struct remote_run *r = remote_run_of(timer->data);
    remote_reset_reply(r);
    tell_moot(r);
    if (r->n_waits && !r->cancelled)
        return; /* remote_proceed */
    if (r->remote.request.wanted && !r->killed)
        remote_send(r);
    else if (r->cancelled)
        remote_end_run(r, RUN_FAILED, STR("cancelled"));
}

/* --- the port --------------------------------------------------------------------------------- */

static void remote_cancel_run(struct run *run)
{
    struct remote_run *r = remote_run_of(run);
    if (r->ended || r->cancelled)
        return;
    r->cancelled = true;
    r->remote.request.wanted = false;
    uv_timer_stop(&r->timer);
    if (!remote_cancel(&r->remote))
        r->remote.request.wanted = false;
    remote_go_on(r, 0);
}

static void remote_kill(struct run *run)
{
    struct remote_run *r = remote_run_of(run);
    if (r->ended)
        return;
    r->cancelled = r->killed = true;
    uv_timer_stop(&r->timer);
    remote_go_on(r, 0);
}

static bool remote_deliver(struct run *run, struct str line)
{
    struct remote_run *r = remote_run_of(run);
    if (r->ended || r->cancelled)
        return false;
    r->n_waits++;
    remote_answer(&r->remote, line);
    remote_flush(r);
    r->events.when_committed(r->task);
    return true;
}

static void remote_proceed(struct run *run)
{
    struct remote_run *r = remote_run_of(run);
    if (--r->n_waits == 0 && r->remote.request.wanted && !r->ended && !r->cancelled)
        remote_go_on(r, 0);
}

static bool remote_is_deaf(struct run *run)
{
    struct remote_run *r = remote_run_of(run);
    return r->ended || r->cancelled;
}

static void remote_unpause(struct run *run)
{
    struct remote_run *r = remote_run_of(run);
    r->paused = false;
    if (!r->ended && r->fetch)
        fetch_unpause(r->fetch);
}

static void remote_on_closed(uv_handle_t *timer)
{
    struct remote_run *r = remote_run_of(timer->data);
    r->magic = 0;
    free(r);
}

static void remote_free(struct run *run)
{
    if (!run)
        return;
    struct remote_run *r = remote_run_of(run);
    r->ended = true;
    remote_reset_reply(r);
    buf_done(&r->body);
    buf_done(&r->why);
    buf_done(&r->noted);
    remote_done(&r->remote);
    trace_drop(&r->trace);
    str_free(&r->session.owner);
    str_free(&r->session.conversation_id);
    uv_close((uv_handle_t *)&r->timer, remote_on_closed);
}

static struct remote_run *remote_run_new(const struct remote_settings *s,
                                         const struct run_spec *spec,
                                         const struct run_events *events, void *task)
{
    struct remote_run *r = xcalloc(sizeof *r);
    *r = (struct remote_run){.magic = REMOTE_MAGIC, .s = s, .events = *events, .task = task};
    snprintf(r->task_id, sizeof r->task_id, "%.*s", (int)spec->task_id.n, spec->task_id.p);
    trace_keep(&r->trace, spec->trace);
    uv_timer_init(s->loop, &r->timer);
    r->timer.data = r;
    if (remote_form_of(s->kind)->keeps_session && !spec->is_context)
        r->session = (struct program_session){s->data, s->agent,
                                              str_own(spec->owner.p ? spec->owner : STR("")),
                                              str_own(spec->conversation_id), str_of(r->task_id)};
    return r;
}

/* past: NULL for a turn that begins. */
static void remote_open_turn(struct remote_run *r, const struct run_spec *spec,
                             struct remote_past *past)
{
    const struct remote_settings *s = r->s;
    struct buf session = {0}, recap = {0};
    if (r->session.owner.p && program_session_read(&r->session, spec->turns, &session) && !past)
        program_session_write(&r->session, buf_str(&session));
    recap_put(&recap, spec->history, spec->input);
    struct remote_turn turn = {str_of(s->url),  str_of(s->model), spec->conversation_id,
                               spec->task_id,   spec->input,      spec->history,
                               buf_str(&recap), buf_str(&session)};
    if (past)
        remote_begin_again(&r->remote, s->kind, &turn, past);
    else
        remote_begin(&r->remote, s->kind, &turn);
    buf_done(&session);
    buf_done(&recap);
}

static struct run *remote_start(void *settings, const struct run_spec *spec,
                                const struct run_events *events, void *task, char *ret_error)
{
    struct remote_run *r = remote_run_new(settings, spec, events, task);
    (void)ret_error;
    remote_open_turn(r, spec, NULL);
    remote_send(r);
    return (struct run *)r;
}

static void remote_forget(struct recall *recall)
{
    remote_past_done(&recall->past);
    free(recall);
}

static struct recall *remote_recall(void *settings, struct recall *recall,
                                    const struct recalled *item, bool *ret_settled)
{
    const struct remote_settings *s = settings;
    if (!recall)
        recall = xcalloc(sizeof *recall);
    *ret_settled = item->event && remote_past_event(&recall->past, s->kind, item->event);
    if (item->event || remote_past_note(&recall->past, item->note))
        return recall;
    remote_forget(recall);
    return NULL;
}

/* The first request goes with the timer, which tells before that what nobody waits for. */
static struct run *remote_resume(void *settings, const struct run_spec *spec,
                                 const struct resumption *from, const struct run_events *events,
                                 void *task, char *ret_error)
{
    struct remote_run *r = remote_run_new(settings, spec, events, task);
    struct remote_past *past = &from->recall->past;
    (void)ret_error;
    r->mark = from->mark;
    r->n_moot = remote_past_moot(past, r->moot);
    buf_putstr(&r->noted, buf_str(&past->note));
    remote_open_turn(r, spec, past);
    remote_forget(from->recall);
    FAULT_DIE(RESUMED);
    remote_go_on(r, 0);
    return (struct run *)r;
}

/* The connection is cut; a server that goes on without one does so. */
static void remote_leave(struct run *run)
{
    struct remote_run *r = remote_run_of(run);
    r->ended = true;
    uv_timer_stop(&r->timer);
    remote_reset_reply(r);
    FAULT_DIE(LEAVE);
}

const struct agent_ops agent_remote_ops = {
    .kind = "http",
    .start = remote_start,
    .cancel = remote_cancel_run,
    .kill = remote_kill,
    .deliver = remote_deliver,
    .is_deaf = remote_is_deaf,
    .unpause = remote_unpause,
    .free = remote_free,
    .proceed = remote_proceed,
    .recall = remote_recall,
    .forget = remote_forget,
    .resume = remote_resume,
    .leave = remote_leave,
};
