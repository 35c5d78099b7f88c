#include "gateway/tools/tool_terminal.h"

#include <stdlib.h>

#include "core/task.h"
#include "gateway/tools/tool_arguments.h"

/* Design
 *
 *   a command that is waited for:   start ──▶ its process ends ──▶ done   (stop: kill)
 *   one in the background:          start ──▶ its pid is known ──▶ done   (stop: nothing)
 */

#define PID_POLL_MS 5
#define PID_WAIT_MS 2000
#define LEFT_RUNNING                                                                       \
    "what the command left running with & was killed when this call ended: start it with " \
    "background instead"

struct tool_job {
    struct terminal *terminal;
    tool_done_fn done;
    void *user;
    struct process *process; /* NULL when it has ended, or nobody cares any more */
    struct process_waiter waiter;
    struct timer timer;
    msec_t deadline;       /* of waiting for the pid */
    bool ignored_patterns; /* both were requested */
};

const char *const terminal_refused[] = {"background", "pty", "notify_on_complete", "watch_patterns",
                                        NULL};

/* --- the call --------------------------------------------------------------------------------- */

struct wanted {
    struct keep_spec spec;
    char *workdir;
};

static void wanted_done(struct wanted *w)
{
    keep_spec_done(&w->spec);
    free(w->workdir);
}

static bool is_refused(const struct js_doc *doc, struct buf *out)
{
    for (size_t i = 0; terminal_refused[i]; i++) {
        if (!arguments_has(doc, terminal_refused[i]))
            continue;
        buf_putf(out, "\"%s\" is not for calls that a program makes: only a model may use it",
                 terminal_refused[i]);
        return true;
    }
    return false;
}

static bool read_members(const struct js_doc *doc, struct wanted *w, struct buf *out)
{
    struct keep_spec *s = &w->spec;
    int64_t timeout = 0;
    if (!arguments_text(doc, "command", 1, TERMINAL_COMMAND_BYTES, &s->command, out) ||
        !arguments_bool(doc, "background", &s->background, out) ||
        !arguments_bool(doc, "pty", &s->pty, out) ||
        !arguments_text(doc, "workdir", 0, 4096, &w->workdir, out) ||
        !arguments_bool(doc, "notify_on_complete", &s->notify_on_complete, out) ||
        !arguments_texts(doc, "watch_patterns", TERMINAL_PATTERNS, &s->watch_patterns, out) ||
        !arguments_int(doc, "timeout", 1, s->background ? 31536000 : TERMINAL_MAX_TIMEOUT_S,
                       &timeout, out))
        return false;
    if (!s->background && (s->notify_on_complete || s->watch_patterns.n)) {
        buf_puts(out, "\"notify_on_complete\" and \"watch_patterns\" are for \"background\" only");
        return false;
    }
    if (!timeout && !s->background)
        timeout = TERMINAL_TIMEOUT_S;
    s->timeout_ms = timeout * 1000;
    return true;
}

static bool read_call(const struct tool_caller *caller, struct str arguments, struct wanted *ret,
                      struct buf *out)
{
    struct js_doc doc = {0};
    *ret = (struct wanted){0};
    bool good = arguments_open(&doc, arguments, out) &&
                !(caller->is_program && is_refused(&doc, out)) && read_members(&doc, ret, out);
    js_done(&doc);
    if (!good)
        wanted_done(ret);
    return good;
}

/* --- approval --------------------------------------------------------------------------------- */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Nothing in it means anything to a shell. */
static bool is_plain_call(const char *command, struct str *ret_program)
{
    static const char plain[] = LETTERS "0123456789 _./:=,@%+-";
    bool is_plain = strspn(command, plain) == strlen(command);
    command += strspn(command, " ");
    *ret_program = (struct str){command, strcspn(command, " ")};
    return is_plain;
}

static bool is_listed(char *const *programs, const char *command)
{
    struct str program;
    bool is_plain = is_plain_call(command, &program);
    for (size_t i = 0; programs && programs[i]; i++) {
        struct str listed = str_of(programs[i]);
        if (str_eq(listed, STR("*")) || (is_plain && str_eq(program, listed)))
            return true;
    }
    return false;
}

bool terminal_is_approved(const struct terminal *t, const char *command)
{
    return is_listed(t->approved, command);
}

/* "PATH=. ls" is a call of ls, with another ls. */
static bool is_bare_name(struct str program)
{
    static const char bare[] = LETTERS "0123456789_.+-";
    return program.n > 0 && memchr(LETTERS, program.p[0], sizeof LETTERS - 1) &&
           strspn(program.p, bare) >= program.n;
}

bool terminal_topic(const char *command, const char *key, const char *name, struct tool_topic *ret)
{
    struct str program;
    if (!is_plain_call(command, &program) || !is_bare_name(program))
        return false;
    buf_puts(&ret->name, name);
    buf_putstr(&ret->name, program);
    buf_puts(&ret->key, key);
    buf_putstr(&ret->key, program);
    char *text = xstrdup(program);
    bool is_known = !config_runs_anything(text);
    free(text);
    return is_known;
}

/* If any command may run, so may any input: it could be a command's own. */
bool terminal_input_is_approved(const struct terminal *t, const char *command)
{
    for (size_t i = 0; t->approved && t->approved[i]; i++)
        if (strcmp(t->approved[i], "*") == 0)
            return true;
    return is_listed(t->approved_input, command);
}

static bool asks(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                 struct buf *question)
{
    const struct terminal *t = tool->settings;
    struct wanted w;
    struct buf why = {0};
    bool asks = false;
    if (read_call(caller, arguments, &w, &why)) { /* otherwise it is refused when it starts */
        asks = !terminal_is_approved(t, w.spec.command);
        if (asks)
            buf_putf(question, "Run this command%s%s?\n%s",
                     w.spec.background ? " in the background" : "",
                     t->sandbox.kind == SANDBOX_NONE ? ", outside of any sandbox" : "",
                     w.spec.command);
        wanted_done(&w);
    }
    buf_done(&why);
    return asks;
}

static bool topic(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                  struct tool_topic *ret)
{
    struct wanted w;
    struct buf why = {0};
    bool has_one = false;
    (void)tool;
    if (read_call(caller, arguments, &w, &why)) {
        has_one = terminal_topic(w.spec.command, "terminal ", "", ret);
        wanted_done(&w);
    }
    buf_done(&why);
    return has_one;
}

/* --- results ---------------------------------------------------------------------------------- */

static void terminal_finish(struct tool_job *job, bool good, struct buf *output)
{
    struct clock *clock = &job->terminal->hub->clock;
    list_remove(&job->waiter.node);
    timer_disarm(clock, &job->timer);
    job->process = NULL;
    job->done(job->user, good, buf_str(output));
    buf_done(output);
}

/* With any status: it did what it does.  One that was killed, or is lost, did not, or nobody
 * knows. */
static bool ended_itself(const struct process *p)
{
    return p->status.state == KEEP_EXITED && p->status.exit_code >= 0;
}

static void put_error(const struct process *p, struct buf *out)
{
    struct buf text = {0};
    if (ended_itself(p)) {
        js_put_field(out, "error", STR_NULL);
        return;
    }
    buf_puts(&text, "the command ");
    process_put_end(p, &text);
    if (p->status.state == KEEP_TIMED_OUT)
        buf_putf(&text, " of %lld s", (long long)(p->spec.timeout_ms / 1000));
    js_put_field(out, "error", buf_str(&text));
    buf_done(&text);
}

/* Whether a command leaves something running: an & of the shell that is neither quoted nor a part
 * of &&, >&, &> or the like. */
static bool leaves_running(const char *command)
{
    char quote = 0;
    for (const char *p = command; *p; p++) {
        if (*p == '\\' && quote != '\'' && p[1])
            p++;
        else if (quote)
            quote = *p == quote ? 0 : quote;
        else if (*p == '"' || *p == '\'')
            quote = *p;
        else if (*p == '&' && p[1] == '&')
            p++;
        else if (*p == '&' && p[1] != '>' && !(p > command && strchr("<>|", p[-1])))
            return true;
    }
    return false;
}

static void tell_output(struct tool_job *job, const struct process *p)
{
    struct buf out = {0}, text = {0};
    bool cut = process_text(p, TERMINAL_OUTPUT_CHARS, &text);
    buf_putc(&out, '{');
    js_put_field(&out, "output", buf_str(&text));
    if (cut)
        js_put_bool(&out, "output_cut", true);
    if (p->status.state == KEEP_TIMED_OUT)
        js_put_int(&out, "exit_code", 124); /* like timeout(1) */
    else if (p->status.has_exit_code)
        js_put_int(&out, "exit_code", p->status.exit_code);
    else
        js_put_raw(&out, "exit_code", STR("null"));
    put_error(p, &out);
    if (leaves_running(p->spec.command))
        js_put_field(&out, "note", STR(LEFT_RUNNING));
    buf_putc(&out, '}');
    buf_done(&text);
    terminal_finish(job, ended_itself(p), &out);
}

static void tell_start(struct tool_job *job, const struct process *p)
{
    struct buf out = {0};
    buf_putc(&out, '{');
    js_put_field(&out, "output", STR("Background process started"));
    js_put_field(&out, "session_id", str_of(p->id));
    if (p->status.pid)
        js_put_int(&out, "pid", p->status.pid);
    js_put_int(&out, "exit_code", 0);
    js_put_field(&out, "error", STR_NULL);
    js_put_field(&out, "workdir", str_of(p->spec.workdir));
    if (p->spec.notify_on_complete)
        js_put_bool(&out, "notify_on_complete", true);
    if (p->watch.on)
        js_put_int(&out, "watch_patterns", (int64_t)p->spec.watch_patterns.n);
    if (job->ignored_patterns)
        js_put_bool(&out, "watch_patterns_ignored", true);
    if (!p->spec.notify_on_complete && !p->spec.watch_patterns.n)
        js_put_field(&out, "hint",
                     STR("you will not be told when it ends: check it with the tool process, or "
                         "start it with notify_on_complete"));
    buf_putc(&out, '}');
    terminal_finish(job, true, &out);
}

static void terminal_on_ended(struct process_waiter *waiter, struct process *p)
{
    struct tool_job *job = container_of(waiter, struct tool_job, waiter);
    struct buf out = {0};
    if (p->status.state == KEEP_FAILED) {
        buf_puts(&out, "the command ");
        process_put_end(p, &out);
        process_learnt(p);
        terminal_finish(job, false, &out);
    } else if (p->spec.background) {
        tell_start(job, p);
    } else {
        tell_output(job, p);
    }
}

/* It had ended when its call was found again. */
static void terminal_on_found(struct timer *timer)
{
    struct tool_job *job = container_of(timer, struct tool_job, timer);
    struct process *p = job->process;
    terminal_on_ended(&job->waiter, p);
    process_answered(p);
}

static void terminal_on_timer(struct timer *timer)
{
    struct tool_job *job = container_of(timer, struct tool_job, timer);
    struct clock *clock = &job->terminal->hub->clock;
    process_refresh(job->process);
    if (job->process->status.pid || clock->now_ms >= job->deadline)
        tell_start(job, job->process);
    else
        timer_arm(clock, &job->timer, clock->now_ms + PID_POLL_MS);
}

/* --- the port --------------------------------------------------------------------------------- */

/* Sets its owner, and where it runs. */
static bool complete(const struct terminal *t, const struct tool_caller *caller, struct wanted *w,
                     char ***ret_env, char ret_error[256])
{
    struct keep_spec *s = &w->spec;
    const struct stream *stream =
        hub_find_stream(t->hub, caller->owner, caller->conversation_id, caller->task_id);
    const struct task *task = stream ? stream->task : NULL;
    s->owner = xstrdup(caller->owner);
    s->conversation_id = xstrdup(caller->conversation_id);
    s->task_id = xstrdup(caller->task_id);
    s->call = xstrdup(caller->call);
    s->agent = task ? xstrdup(task_field(task, FIELD_agent)) : NULL;
    return sandbox_plan(&t->sandbox, w->workdir, s, ret_env, ret_error);
}

static struct tool_job *terminal_begin(struct terminal *t, struct process *p, bool ignored)
{
    struct clock *clock = &t->hub->clock;
    struct tool_job *job = xcalloc(sizeof *job);
    job->terminal = t;
    job->process = p;
    job->waiter.ended = terminal_on_ended;
    job->timer.fire = terminal_on_timer;
    job->deadline = clock->now_ms + PID_WAIT_MS;
    job->ignored_patterns = ignored;
    if (process_runs(p))
        process_wait(p, &job->waiter);
    else
        job->timer.fire = terminal_on_found;
    if (p->spec.background || !process_runs(p))
        timer_arm(clock, &job->timer, clock->now_ms + (process_runs(p) ? PID_POLL_MS : 0));
    return job;
}

static struct tool_job *terminal_start(const struct tool *tool, const struct tool_caller *caller,
                                       struct str arguments, tool_done_fn done, void *user,
                                       struct buf *out)
{
    struct terminal *t = tool->settings;
    struct wanted w;
    char **env = NULL, error[256] = "";
    if (!read_call(caller, arguments, &w, out))
        return NULL;
    bool both = w.spec.notify_on_complete && w.spec.watch_patterns.n;
    if (both)
        keep_texts_done(&w.spec.watch_patterns);
    struct process *p = NULL;
    if (complete(t, caller, &w, &env, error))
        p = process_start(t->processes, &w.spec, env, error);
    wanted_done(&w);
    sandbox_env_done(env);
    if (!p) {
        buf_puts(out, error);
        return NULL;
    }
    struct tool_job *job = terminal_begin(t, p, both);
    job->done = done;
    job->user = user;
    return job;
}

/* A call of an earlier gateway: its process tells what became of it, and without one it never
 * began. */
static struct tool_job *terminal_attach(const struct tool *tool, const struct tool_caller *caller,
                                        struct str arguments, tool_done_fn done, void *user,
                                        struct buf *out)
{
    struct terminal *t = tool->settings;
    struct process *p = process_claim(t->processes, caller);
    struct wanted w;
    if (p && p->never_began) {
        process_forget(p);
        p = NULL;
    }
    if (!p)
        return terminal_start(tool, caller, arguments, done, user, out);
    if (!read_call(caller, arguments, &w, out)) {
        process_answered(p);
        return NULL;
    }
    struct tool_job *job =
        terminal_begin(t, p, w.spec.notify_on_complete && w.spec.watch_patterns.n);
    wanted_done(&w);
    job->done = done;
    job->user = user;
    return job;
}

static const char *terminal_place(const struct tool *tool)
{
    const struct terminal *t = tool->settings;
    return processes_place(t->processes);
}

static void terminal_leave(struct tool_job *job)
{
    list_remove(&job->waiter.node);
    timer_disarm(&job->terminal->hub->clock, &job->timer);
    if (job->process)
        job->process->left = true;
    free(job);
}

static void terminal_stop(struct tool_job *job)
{
    list_remove(&job->waiter.node);
    timer_disarm(&job->terminal->hub->clock, &job->timer);
    struct process *p = job->process;
    if (p && p->claimed && !process_runs(p))
        process_answered(p);
    else if (p && !p->spec.background)
        process_kill(p);
    free(job);
}

struct sandbox terminal_sandbox(const struct config *config)
{
    return (struct sandbox){.kind = (enum sandbox_kind)config->terminal.sandbox,
                            .network = config->terminal.network,
                            .host_loopback = config->terminal.host_loopback,
                            .work = config->terminal.workdir,
                            .tmp = config->terminal.tmp_mib << 20,
                            .bounds = {.memory = config->terminal.memory_mib << 20,
                                       .processes = config->terminal.processes,
                                       .cpu_s = config->terminal.cpu_s,
                                       .file = config->terminal.file_mib << 20,
                                       .folder = config->terminal.workdir_mib << 20}};
}

void terminal_open(struct terminal *t, const struct config *config, uv_loop_t *loop,
                   struct hub *hub)
{
    *t = (struct terminal){.hub = hub,
                           .approved = config->terminal.approved.list,
                           .approved_input = config->terminal.approved_input.list,
                           .sandbox = terminal_sandbox(config),
                           .processes = processes_open(&(struct processes_options){
                               .loop = loop,
                               .hub = hub,
                               .data = config->data,
                               .ttl_ms = (int64_t)config->retention.process_days * 86400000})};
    t->terminal = (struct tool){
        .name = "terminal",
        .description =
            "Runs a shell command and returns its output and exit code. What the command leaves "
            "running with & is killed when the call ends: use background instead. With background it "
            "returns at once with a session_id, for two kinds of work: a process that never ends "
            "by itself (a server, a watcher), which you check with the tool process; and a long "
            "job that ends (a build, a test run), which you start with notify_on_complete: then a "
            "new turn of yours begins when it has ended, and you need not wait or check. Files "
            "that it writes into its working directory stay for the whole conversation.",
        .parameters =
            "{\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"string\",\"description\":\"for "
            "/bin/sh\"},\"background\":{\"type\":\"boolean\",\"default\":false,\"description\":\"return "
            "at once; the command keeps "
            "running\"},\"timeout\":{\"type\":\"integer\",\"minimum\":1,\"description\":\"seconds "
            "after which it is killed; default 180, at most 600; in the background: no "
            "default\"},\"workdir\":{\"type\":\"string\",\"description\":\"where it runs; "
            "relative to the conversation's "
            "folder\"},\"pty\":{\"type\":\"boolean\",\"default\":false,\"description\":\"give it "
            "a terminal: for programs that need "
            "one\"},\"notify_on_complete\":{\"type\":\"boolean\",\"default\":false,\"description\":\"with "
            "background: a new turn of yours tells you when it "
            "ends\"},\"watch_patterns\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"with "
            "background: a new turn of yours shows you lines that contain one of these texts; for "
            "rare lines, and not together with "
            "notify_on_complete\"}},\"required\":[\"command\"],\"additionalProperties\":false}",
        .start = terminal_start,
        .stop = terminal_stop,
        .leave = terminal_leave,
        .again = TOOL_ATTACH,
        .attach = terminal_attach,
        .place = terminal_place,
        .asks = asks,
        .topic = topic,
        .settings = t};
    tool_process_init(t);
}

void terminal_close(struct terminal *t)
{
    processes_close(t->processes);
    t->processes = NULL;
}
