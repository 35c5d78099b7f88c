#include "gateway/agents/acp_terminals.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct acp_terminal {
    struct list node;
    struct acp_shell *shell;
    unsigned number;
    char task_id[TASK_ID_LEN + 1]; /* of the turn that made it; "" when it is not kept */
    char id[KEEP_ID_LEN + 1];      /* of its process: the folder stays until it is released */
    size_t output_bytes;
    struct process *process; /* NULL when it has ended */
    struct process_waiter waiter;
    struct buf output; /* when it has ended */
    bool truncated, killed;
    int code;
    char signal[32]; /* "" for none */
};

static struct acp_terminal *terminal_find(const struct acp_shell *s, unsigned number)
{
    list_each (it, &s->list) {
        struct acp_terminal *t = list_item(it, struct acp_terminal, node);
        if (t->number == number)
            return t;
    }
    return NULL;
}

static void terminal_free(struct acp_terminal *t)
{
    list_remove(&t->node);
    t->shell->n--;
    list_remove(&t->waiter.node);
    buf_done(&t->output);
    free(t);
}

/* It has ended, and nobody asks for it any more. */
static void let_go(const struct acp_terminal *t)
{
    list_each (it, processes_list(t->shell->processes)) {
        struct process *p = list_item(it, struct process, node);
        if (strcmp(p->id, t->id) != 0 || process_runs(p))
            continue;
        p->left = false;
        process_answered(p);
        return;
    }
}

static void terminal_drop(struct acp_terminal *t)
{
    if (t->process)
        process_kill(t->process);
    else if (t->task_id[0])
        let_go(t);
    terminal_free(t);
}

/* --- its output and end ----------------------------------------------------------------------- */

/* The last bytes that it may keep; whether there were more. */
static bool terminal_read(const struct acp_terminal *t, struct buf *ret)
{
    struct buf text = {0};
    bool more = process_text(t->process, KEEP_CHARS, &text);
    struct str all = buf_str(&text);
    size_t from = all.n > t->output_bytes ? all.n - t->output_bytes : 0;
    more |= from > 0;
    while (from < all.n && from > 0 && ((unsigned char)all.p[from] & 0xc0) == 0x80)
        from++; /* not within a character */
    buf_put(ret, all.p + from, all.n - from);
    buf_done(&text);
    return more;
}

static void take_end(struct acp_terminal *t, const struct process *p)
{
    const struct keep_status *s = &p->status;
    const char *name = s->exit_code < 0 ? sigabbrev_np(-s->exit_code) : NULL;
    bool never_began = t->killed && s->state == KEEP_FAILED; /* it was killed first */
    t->code = s->exit_code;
    if (s->state == KEEP_FAILED && !never_began)
        t->code = 127; /* as a shell says it */
    else if (never_began || s->state == KEEP_LOST || !s->has_exit_code)
        snprintf(t->signal, sizeof t->signal, t->killed ? "SIGTERM" : "SIGKILL");
    else if (s->exit_code < 0)
        snprintf(t->signal, sizeof t->signal, "SIG%s", name ? name : "KILL");
    if (never_began || (s->state != KEEP_FAILED && !s->error[0]))
        return;
    buf_puts(&t->output, t->output.len ? "\nthe command " : "the command ");
    process_put_end(p, &t->output);
    buf_putc(&t->output, '\n');
}

static void take_process_end(struct acp_terminal *t, struct process *p)
{
    t->truncated = terminal_read(t, &t->output);
    take_end(t, p);
    t->process = NULL;
    p->left = t->task_id[0] != 0;
}

static void terminal_ended(struct process_waiter *waiter, struct process *p)
{
    struct acp_terminal *t = container_of(waiter, struct acp_terminal, waiter);
    take_process_end(t, p);
    t->shell->ended(t->shell->arg, t->number);
}

/* --- starting --------------------------------------------------------------------------------- */

static void put_argv(struct keep_texts *to, char *const *from, size_t n)
{
    to->list = xcalloc((n + 1) * sizeof *to->list);
    for (to->n = 0; to->n < n; to->n++)
        to->list[to->n] = xstrdup(str_of(from[to->n]));
}

/* Programs name their command in two ways: with its arguments, or as a line for a shell. */
static void set_command(struct keep_spec *spec, const struct acp_command *c)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    struct buf line = {0};
    for (size_t i = 0; i < c->n_argv; i++)
        buf_putf(&line, "%s%s", i ? " " : "", c->argv[i]);
    spec->command = buf_take(&line);
    if (c->n_argv == 1 && c->argv[0][strspn(c->argv[0], plain)])
        put_argv(&spec->argv, (char *[]){"/bin/sh", "-c", c->argv[0]}, 3);
    else
        put_argv(&spec->argv, c->argv, c->n_argv);
}

/* PATH, LANG and HOME, then the agent's own, then the command's: the last one of a name counts. */
static char **terminal_env(const struct acp_shell *s, const struct acp_command *c)
{
    static const char *const inherited[] = {"PATH", "LANG", "HOME"};
    size_t n = 0, n_agent = 0;
    while (s->env && s->env[n_agent])
        n_agent++;
    char **env = xcalloc((countof(inherited) + n_agent + c->n_env + 1) * sizeof *env);
    char *const *const lists[] = {s->env, c->env};
    for (size_t i = 0; i < countof(inherited); i++) {
        struct buf pair = {0};
        const char *value = getenv(inherited[i]);
        buf_putf(&pair, "%s=%s", inherited[i], value ? value : "");
        env[n++] = buf_take(&pair);
    }
    for (size_t i = 0; i < countof(lists); i++)
        for (char *const *text = lists[i]; text && *text; text++) {
            size_t name = strcspn(*text, "=") + 1, at = 0;
            while (at < n && strncmp(env[at], *text, name) != 0)
                at++;
            if (at < n)
                free(env[at]);
            env[at] = xstrdup(str_of(*text));
            n += at == n;
        }
    return env;
}

/* The command's directory, absolute; NULL when it is not the folder or below it. */
static char *find_cwd(const struct acp_shell *s, const char *asked)
{
    const char *folder = s->folder->path;
    char whole[PATH_MAX];
    if (!asked || !*asked)
        return xstrdup(str_of(folder));
    size_t n = strlen(folder);
    bool is_below = asked[0] == '/' && realpath(asked, whole) && strncmp(whole, folder, n) == 0 &&
                    (whole[n] == '/' || whole[n] == '\0' || strcmp(folder, "/") == 0);
    return is_below ? xstrdup(str_of(whole)) : NULL;
}

/* Its name among the calls of its task. */
struct call_name {
    char text[32];
};

static struct call_name call_of(unsigned number)
{
    struct call_name name;
    snprintf(name.text, sizeof name.text, "terminal-%u", number);
    return name;
}

/* The command that an earlier gateway has begun; NULL: it never began, or is gone. */
static struct process *claim(struct acp_shell *s, const char *task_id, unsigned number)
{
    struct call_name call = call_of(number);
    struct tool_caller caller = {.owner = str_of(s->owner),
                                 .conversation_id = str_of(s->conversation_id),
                                 .task_id = str_of(task_id),
                                 .call = str_of(call.text)};
    struct process *p = process_claim(s->processes, &caller);
    if (p && p->never_began) {
        process_forget(p);
        p = NULL;
    }
    return p;
}

static struct process *terminal_start(struct acp_shell *s, const struct acp_command *c)
{
    char *cwd = find_cwd(s, c->cwd);
    if (!cwd) {
        snprintf(s->error, sizeof s->error, "cwd must be a directory in the conversation's folder");
        return NULL;
    }
    struct keep_spec spec = {.owner = xstrdup(str_of(s->owner)),
                             .conversation_id = xstrdup(str_of(s->conversation_id)),
                             .task_id = xstrdup(s->task_id ? str_of(s->task_id) : STR("")),
                             .agent = xstrdup(str_of(s->agent)),
                             .cwd = cwd,
                             .workdir = xstrdup(str_of(cwd))};
    if (s->is_measured)
        spec.folder = xstrdup(str_of(s->folder->path));
    set_command(&spec, c);
    if (s->task_id) {
        struct call_name call = call_of(s->last + 1);
        spec.call = xstrdup(str_of(call.text));
    }
    sandbox_plan_bounds(s->sandbox, &spec);
    char **env = terminal_env(s, c);
    struct process *p = process_start(s->processes, &spec, env, s->error);
    sandbox_env_done(env);
    return p;
}

static struct acp_terminal *terminal_new(struct acp_shell *s, unsigned number, const char *task_id,
                                         size_t output_bytes)
{
    struct acp_terminal *t = xcalloc(sizeof *t);
    *t = (struct acp_terminal){
        .shell = s, .number = number, .output_bytes = output_bytes, .waiter.ended = terminal_ended};
    if (task_id)
        snprintf(t->task_id, sizeof t->task_id, "%s", task_id);
    list_push(&s->list, &t->node);
    s->n++;
    return t;
}

static void terminal_watch(struct acp_terminal *t, struct process *p)
{
    memcpy(t->id, p->id, sizeof t->id);
    t->process = p;
    if (process_runs(p))
        process_wait(p, &t->waiter);
    else
        take_process_end(t, p);
}

static const char *terminal_create(void *arg, const struct acp_command *command,
                                   unsigned *ret_number)
{
    struct acp_shell *s = arg;
    if (s->n == ACP_TERMINALS)
        return "too many terminals: release one first";
    struct process *p = command->again ? claim(s, s->task_id, s->last + 1) : NULL;
    if (!p)
        p = terminal_start(s, command);
    if (!p)
        return s->error;
    struct acp_terminal *t = terminal_new(s, ++s->last, s->task_id, command->output_bytes);
    terminal_watch(t, p);
    *ret_number = t->number;
    return NULL;
}

/* --- the port --------------------------------------------------------------------------------- */

static bool terminal_exists(void *arg, unsigned number)
{
    return terminal_find(arg, number) != NULL;
}

static bool terminal_output(void *arg, unsigned number, struct buf *ret)
{
    const struct acp_terminal *t = terminal_find(arg, number);
    if (t->process)
        return terminal_read(t, ret);
    buf_putstr(ret, buf_str(&t->output));
    return t->truncated;
}

static bool terminal_has_ended(void *arg, unsigned number, struct acp_exit *ret)
{
    const struct acp_terminal *t = terminal_find(arg, number);
    if (!t || t->process)
        return false;
    *ret = (struct acp_exit){t->code, t->signal[0] ? t->signal : NULL};
    return true;
}

static void terminal_kill(void *arg, unsigned number)
{
    struct acp_terminal *t = terminal_find(arg, number);
    t->killed = true;
    if (t->process)
        process_kill(t->process);
}

static void terminal_release(void *arg, unsigned number)
{
    terminal_drop(terminal_find(arg, number));
}

void acp_shell_close(struct acp_shell *s)
{
    while (!list_is_empty(&s->list))
        terminal_drop(list_item(s->list.next, struct acp_terminal, node));
}

/* --- a restart of the gateway ----------------------------------------------------------------- */

void acp_shell_leave(struct acp_shell *s)
{
    while (!list_is_empty(&s->list)) {
        struct acp_terminal *t = list_item(s->list.next, struct acp_terminal, node);
        if (t->process)
            t->process->left = true;
        terminal_free(t);
    }
}

void acp_shell_put(const struct acp_shell *s, struct buf *out)
{
    size_t n = 0;
    if (s->last == 0)
        return;
    js_put_int(out, "last", s->last);
    js_put_raw(out, "terminals", STR("["));
    list_each (it, &s->list) {
        const struct acp_terminal *t = list_item(it, struct acp_terminal, node);
        buf_putf(out, "%s[%u,%zu,", n++ ? "," : "", t->number, t->output_bytes);
        js_put_str(out, str_of(t->task_id));
        buf_putf(out, ",%s]", t->killed ? "true" : "false");
    }
    buf_putc(out, ']');
}

/* [number, bytes, "task", whether it was killed] */
static bool take_terminal(struct acp_shell *s, const struct js_doc *doc, uint32_t row)
{
    struct buf task = {0};
    int64_t number = 0, bytes = 0;
    bool good = js_type(doc, row) == JS_ARRAY && doc->nodes[row].kids == 4 &&
                js_int(doc, row + 1, &number) && js_int(doc, row + 2, &bytes) && number > 0 &&
                number <= s->last && bytes >= 0 && js_type(doc, row + 3) == JS_STRING;
    if (!good)
        return false;
    js_value(doc, row + 3, &task);
    buf_putc(&task, 0);
    struct acp_terminal *t = terminal_new(s, (unsigned)number, task.bytes, (size_t)bytes);
    t->killed = js_type(doc, row + 4) == JS_TRUE;
    struct process *p = claim(s, t->task_id, t->number);
    buf_done(&task);
    if (p) {
        terminal_watch(t, p);
        return true;
    }
    snprintf(t->signal, sizeof t->signal, "SIGKILL");
    buf_puts(&t->output, "the command was lost as the gateway restarted\n");
    return true;
}

bool acp_shell_take(struct acp_shell *s, const struct js_doc *doc, uint32_t object)
{
    int64_t last = 0;
    uint32_t node = js_get(doc, object, "last"), list = js_get(doc, object, "terminals");
    if (!node)
        return true;
    if (!js_int(doc, node, &last) || last < 0 || last > INT32_MAX || !list ||
        js_type(doc, list) != JS_ARRAY || doc->nodes[list].kids > ACP_TERMINALS)
        return false;
    s->last = (unsigned)last;
    for (uint32_t row = js_first(doc, list); row < js_end(doc, list); row = js_next(doc, row))
        if (!take_terminal(s, doc, row))
            return false;
    return true;
}

void acp_shell_tell(struct acp_shell *s)
{
    list_each (it, &s->list) {
        const struct acp_terminal *t = list_item(it, struct acp_terminal, node);
        if (!t->process)
            s->ended(s->arg, t->number);
    }
}

const struct acp_terminals acp_terminals_port = {
    .create = terminal_create,
    .exists = terminal_exists,
    .output = terminal_output,
    .ended = terminal_has_ended,
    .kill = terminal_kill,
    .release = terminal_release,
};
