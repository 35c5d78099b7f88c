/* The tool process: manages the commands that run in the background.
 *
 * All actions but wait finish at once; their answers are given a moment later, as the port
 * requires. */
#include <stdlib.h>

#include "gateway/tools/tool_arguments.h"
#include "gateway/tools/tool_terminal.h"

#define DETACHED_NOTE "an earlier run of the gateway started it; its output and input are complete"

struct tool_job {
    struct terminal *terminal;
    tool_done_fn done;
    void *user;
    struct timer timer;
    struct process_waiter waiter;
    struct process *waited;  /* NULL: for none */
    int64_t wait_s, asked_s; /* asked_s: the request, if longer than the limit; 0 */
    bool learns;             /* its end answers this call: it is not told again */
    bool good;
    struct buf output;
};

struct wanted {
    const struct tool_caller *caller;
    const struct action *action;
    char *session_id, *data;
    bool from_head; /* log: an offset was given */
    int64_t offset, limit, timeout;
};

struct action {
    const char *name;
    bool needs_id, needs_data;
    bool changes_nothing;
    /* Fills job->output with the members of an object, without its brackets. */
    void (*run)(struct tool_job *job, struct process *p, const struct wanted *w);
};

/* --- one process as JSON ---------------------------------------------------------------------- */

static void put_head(const struct process *p, struct buf *out)
{
    js_put_field(out, "session_id", str_of(p->id));
    js_put_field(out, "status", str_of(keep_state_name(p->status.state)));
}

static void put_exit(const struct process *p, struct buf *out)
{
    struct buf text = {0};
    if (process_runs(p))
        return;
    if (p->status.has_exit_code)
        js_put_int(out, "exit_code", p->status.exit_code);
    else
        js_put_raw(out, "exit_code", STR("null"));
    process_put_end(p, &text);
    js_put_field(out, "end", buf_str(&text));
    buf_done(&text);
}

static void put_output(const struct process *p, const char *key, size_t chars, struct buf *out)
{
    struct buf text = {0};
    process_text(p, chars, &text);
    js_put_field(out, key, buf_str(&text));
    buf_done(&text);
}

static int64_t uptime_s(const struct tool_job *job, const struct process *p)
{
    int64_t until = process_runs(p) ? job->terminal->hub->clock.wall_ms : p->status.ended_at;
    return until > p->spec.started_at ? (until - p->spec.started_at) / 1000 : 0;
}

static void put_state(const struct tool_job *job, const struct process *p, struct buf *out)
{
    struct buf command = {0};
    process_put_command(p, &command);
    js_put_field(out, "command", buf_str(&command));
    buf_done(&command);
    if (p->status.pid)
        js_put_int(out, "pid", p->status.pid);
    js_put_int(out, "uptime_seconds", uptime_s(job, p));
    js_put_bool(out, "notify_on_complete", p->spec.notify_on_complete);
    if (p->adopted)
        js_put_bool(out, "detached", true);
    put_exit(p, out);
}

/* --- the actions ------------------------------------------------------------------------------ */

static void run_list(struct tool_job *job, struct process *unused, const struct wanted *w)
{
    struct buf *out = &job->output;
    bool first = true;
    (void)unused;
    js_put_raw(out, "processes", STR("["));
    list_each (it, processes_list(job->terminal->processes)) {
        struct process *p = list_item(it, struct process, node);
        if (process_find(job->terminal->processes, w->caller, str_of(p->id)) != p)
            continue;
        process_refresh(p);
        buf_puts(out, first ? "{" : ",{");
        first = false;
        put_head(p, out);
        put_state(job, p, out);
        js_put_int(out, "started_at", p->spec.started_at);
        put_output(p, "output_preview", PROCESS_LIST_CHARS, out);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

static void run_poll(struct tool_job *job, struct process *p, const struct wanted *w)
{
    (void)w;
    put_head(p, &job->output);
    put_state(job, p, &job->output);
    put_output(p, "output_preview", PROCESS_PREVIEW_CHARS, &job->output);
    if (p->adopted)
        js_put_field(&job->output, "note", STR(DETACHED_NOTE));
}

/* The place after n lines. */
static size_t skip_lines(struct str text, int64_t n)
{
    size_t at = 0;
    for (; n > 0 && at < text.n; n--) {
        const char *newline = memchr(text.p + at, '\n', text.n - at);
        at = newline ? (size_t)(newline - text.p) + 1 : text.n;
    }
    return at;
}

static int64_t count_lines(struct str text)
{
    int64_t n = text.n && text.p[text.n - 1] != '\n';
    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\n';
    return n;
}

static void run_log(struct tool_job *job, struct process *p, const struct wanted *w)
{
    struct buf text = {0}, showing = {0};
    bool cut = process_text(p, KEEP_CHARS, &text);
    int64_t total = count_lines(buf_str(&text));
    int64_t from = w->from_head ? w->offset : total > w->limit ? total - w->limit : 0;
    size_t begin = skip_lines(buf_str(&text), from);
    struct str rest = {text.bytes ? text.bytes + begin : "", text.len - begin};
    struct str shown = {rest.p, skip_lines(rest, w->limit)};
    struct str tail = utf8_tail(shown, TERMINAL_OUTPUT_CHARS);
    put_head(p, &job->output);
    put_exit(p, &job->output);
    js_put_field(&job->output, "output", tail);
    js_put_int(&job->output, "total_lines", total);
    int64_t n = count_lines(shown);
    buf_putf(&showing, "lines %lld to %lld", (long long)from + (n > 0), (long long)from + n);
    js_put_field(&job->output, "showing", buf_str(&showing));
    if (cut || tail.n < shown.n)
        js_put_bool(&job->output, "output_cut", true);
    buf_done(&text);
    buf_done(&showing);
}

static void put_waited(struct tool_job *job, struct process *p)
{
    put_head(p, &job->output);
    put_exit(p, &job->output);
    put_output(p, "output", PROCESS_TAIL_CHARS, &job->output);
    if (job->asked_s)
        js_put_field(&job->output, "timeout_note", STR("no call waits longer than 180 s"));
    if (job->learns)
        process_learnt(p);
}

static void run_wait(struct tool_job *job, struct process *p, const struct wanted *w)
{
    job->wait_s = w->timeout < PROCESS_WAIT_S ? w->timeout : PROCESS_WAIT_S;
    job->asked_s = w->timeout > PROCESS_WAIT_S ? w->timeout : 0;
    job->learns = true;
    if (process_runs(p))
        job->waited = p;
    else
        put_waited(job, p);
}

static void put_ended(struct tool_job *job, const struct process *p)
{
    js_put_field(&job->output, "session_id", str_of(p->id));
    js_put_field(&job->output, "status", STR("already_exited"));
    put_exit(p, &job->output);
}

/* Returns when it has ended: the reply says how. */
static void run_kill(struct tool_job *job, struct process *p, const struct wanted *w)
{
    (void)w;
    if (!process_runs(p)) {
        put_ended(job, p);
        return;
    }
    process_kill(p);
    job->wait_s = 60; /* a tree that does not die of SIGKILL */
    job->waited = p;
}

static void write_to(struct tool_job *job, struct process *p, struct str data, bool close_behind)
{
    if (!process_runs(p)) {
        put_ended(job, p);
        return;
    }
    bool is_closed = process_input_is_closed(p);
    bool good = is_closed ? close_behind : process_write(p, data, close_behind);
    js_put_field(&job->output, "session_id", str_of(p->id));
    js_put_field(&job->output, "status", good ? STR("ok") : STR("error"));
    if (good)
        js_put_int(&job->output, "bytes_written", (int64_t)data.n);
    else
        js_put_field(&job->output, "error",
                     is_closed ? STR("its input is closed")
                               : STR("it accepts no input now: it has not read the earlier input"));
}

static void run_write(struct tool_job *job, struct process *p, const struct wanted *w)
{
    write_to(job, p, str_of(w->data), false);
}

static void run_submit(struct tool_job *job, struct process *p, const struct wanted *w)
{
    struct buf line = {0};
    buf_puts(&line, w->data);
    buf_putc(&line, '\n');
    write_to(job, p, buf_str(&line), false);
    buf_done(&line);
}

static void run_close(struct tool_job *job, struct process *p, const struct wanted *w)
{
    (void)w;
    write_to(job, p, STR(""), true);
}

static const struct action actions[] = {
    {"list", false, false, true, run_list},    {"poll", true, false, true, run_poll},
    {"log", true, false, true, run_log},       {"wait", true, false, true, run_wait},
    {"kill", true, false, false, run_kill},    {"write", true, true, false, run_write},
    {"submit", true, true, false, run_submit}, {"close", true, false, false, run_close},
};

/* --- the call --------------------------------------------------------------------------------- */

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; name && i < countof(actions); i++)
        if (strcmp(name, actions[i].name) == 0)
            return &actions[i];
    return NULL;
}

static void wanted_done(struct wanted *w)
{
    free(w->session_id);
    free(w->data);
}

static bool read_call(struct str arguments, struct wanted *w, struct buf *out)
{
    struct js_doc doc = {0};
    char *name = NULL;
    *w = (struct wanted){.limit = PROCESS_LOG_LINES, .timeout = PROCESS_WAIT_S};
    bool good =
        arguments_open(&doc, arguments, out) && arguments_text(&doc, "action", 1, 32, &name, out);
    w->action = find_action(name);
    if (good && !w->action)
        buf_puts(out, "\"action\" must be list, poll, log, wait, kill, write, submit or close");
    good = good && w->action &&
           arguments_text(&doc, "session_id", w->action->needs_id, 128, &w->session_id, out) &&
           arguments_int(&doc, "offset", 0, INT32_MAX, &w->offset, out) &&
           arguments_int(&doc, "limit", 1, KEEP_CHARS, &w->limit, out) &&
           arguments_int(&doc, "timeout", 1, 31536000, &w->timeout, out) &&
           arguments_text(&doc, "data", 0, PROCESS_WRITE_BYTES, &w->data, out);
    if (good && w->action->needs_data && !w->data) {
        buf_puts(out, "\"data\" is missing: what to write");
        good = false;
    }
    w->from_head = good && arguments_has(&doc, "offset");
    js_done(&doc);
    free(name);
    if (!good)
        wanted_done(w);
    return good;
}

static enum tool_again process_tool_again(const struct tool *tool, struct str arguments)
{
    struct wanted w;
    struct buf why = {0};
    enum tool_again again = TOOL_AGAIN; /* a call with a mistake does nothing */
    (void)tool;
    if (read_call(arguments, &w, &why)) {
        again = w.action->changes_nothing ? TOOL_AGAIN : TOOL_NEVER;
        wanted_done(&w);
    }
    buf_done(&why);
    return again;
}

static bool asks(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                 struct buf *question)
{
    const struct terminal *t = tool->settings;
    struct wanted w;
    struct buf why = {0};
    bool asks = false;
    if (read_call(arguments, &w, &why)) {
        const struct process *p =
            w.action->needs_data ? process_find(t->processes, caller, str_of(w.session_id)) : NULL;
        asks = p && process_runs(p) && !terminal_input_is_approved(t, p->spec.command);
        if (asks) {
            buf_puts(question, "Write this to the command ");
            process_put_command(p, question);
            buf_putf(question, "?\n%s", w.data);
        }
        wanted_done(&w);
    }
    buf_done(&why);
    return asks;
}

static bool topic(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                  struct tool_topic *ret)
{
    const struct terminal *t = tool->settings;
    struct wanted w;
    struct buf why = {0};
    bool has_one = false;
    if (read_call(arguments, &w, &why)) {
        const struct process *p =
            w.action->needs_data ? process_find(t->processes, caller, str_of(w.session_id)) : NULL;
        has_one = p && terminal_topic(p->spec.command, "process ", "input to ", ret);
        wanted_done(&w);
    }
    buf_done(&why);
    return has_one;
}

/* --- the port --------------------------------------------------------------------------------- */

static void process_tool_finish(struct tool_job *job)
{
    list_remove(&job->waiter.node);
    timer_disarm(&job->terminal->hub->clock, &job->timer);
    job->waited = NULL;
    if (job->good)
        buf_putc(&job->output, '}');
    job->done(job->user, job->good, buf_str(&job->output));
}

static void process_tool_on_ended(struct process_waiter *waiter, struct process *p)
{
    struct tool_job *job = container_of(waiter, struct tool_job, waiter);
    put_waited(job, p);
    process_tool_finish(job);
}

/* It is finished, or has waited long enough. */
static void process_tool_on_timer(struct timer *timer)
{
    struct tool_job *job = container_of(timer, struct tool_job, timer);
    struct process *p = job->waited;
    if (p) {
        js_put_field(&job->output, "session_id", str_of(p->id));
        js_put_field(&job->output, "status", STR("timeout"));
        js_put_bool(&job->output, "process_running", true);
        put_output(p, "output", PROCESS_PREVIEW_CHARS, &job->output);
        if (job->asked_s)
            js_put_field(&job->output, "timeout_note", STR("no call waits longer than 180 s"));
    }
    process_tool_finish(job);
}

static void put_not_found(struct tool_job *job, const char *id)
{
    js_put_field(&job->output, "session_id", str_of(id));
    js_put_field(&job->output, "status", STR("not_found"));
    js_put_field(&job->output, "error", STR("this conversation has no process with that id"));
}

static void process_tool_run(struct tool_job *job, const struct wanted *w)
{
    struct process *p = NULL;
    if (w->action->needs_id) {
        p = process_find(job->terminal->processes, w->caller, str_of(w->session_id));
        if (p)
            process_refresh(p);
        else
            put_not_found(job, w->session_id);
    }
    if (p || !w->action->needs_id)
        w->action->run(job, p, w);
}

static struct tool_job *process_tool_start(const struct tool *tool,
                                           const struct tool_caller *caller, struct str arguments,
                                           tool_done_fn done, void *user, struct buf *out)
{
    struct terminal *t = tool->settings;
    struct clock *clock = &t->hub->clock;
    struct wanted w;
    if (!read_call(arguments, &w, out))
        return NULL;
    struct tool_job *job = xcalloc(sizeof *job);
    *job = (struct tool_job){.terminal = t,
                             .done = done,
                             .user = user,
                             .good = true,
                             .timer.fire = process_tool_on_timer,
                             .waiter.ended = process_tool_on_ended};
    buf_putc(&job->output, '{');
    w.caller = caller;
    process_tool_run(job, &w);
    wanted_done(&w);
    if (job->waited)
        process_wait(job->waited, &job->waiter);
    timer_arm(clock, &job->timer, clock->now_ms + (job->waited ? job->wait_s * 1000 : 0));
    return job;
}

static void process_tool_stop(struct tool_job *job)
{
    list_remove(&job->waiter.node);
    timer_disarm(&job->terminal->hub->clock, &job->timer);
    buf_done(&job->output);
    free(job);
}

void tool_process_init(struct terminal *t)
{
    t->process = (struct tool){
        .name = "process",
        .description =
            "Manages the commands that you have started in the background of this conversation: "
            "list them; poll one for its state and newest output; log gives lines of its output "
            "(the last 200; with offset from its beginning); wait for its end; kill it with "
            "everything that it has started; write to its input, submit a line, or close its "
            "input.",
        .parameters =
            "{\"type\":\"object\",\"properties\":{\"action\":{\"type\":\"string\",\"enum\":[\"list\","
            "\"poll\",\"log\",\"wait\",\"kill\",\"write\",\"submit\",\"close\"]},\"session_id\":"
            "{\"type\":\"string\",\"description\":\"of the process; for all but list\"},\"offset\":"
            "{\"type\":\"integer\",\"description\":\"log: lines to leave out at the beginning\"},"
            "\"limit\":{\"type\":\"integer\",\"description\":\"log: lines\"},\"timeout\":{\"type\":"
            "\"integer\",\"description\":\"wait: seconds, at most 180\"},\"data\":{\"type\":"
            "\"string\",\"description\":\"write, submit\"}},\"required\":[\"action\"],"
            "\"additionalProperties\":false}",
        .start = process_tool_start,
        .stop = process_tool_stop,
        .again_by = process_tool_again,
        .asks = asks,
        .topic = topic,
        .settings = t};
}
