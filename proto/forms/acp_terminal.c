/* Terminals of the protocol: commands that the program lets its client run. */
#include <stdio.h>
#include <stdlib.h>

#include "proto/forms/acp.h"

#define TERMINAL_ID "term-"
#define OUTPUT_BYTES (1024 * 1024) /* when the program names no limit, and at most */

/* --- reading ---------------------------------------------------------------------------------- */

/* A text without a NUL; NULL for anything else. */
static char *terminal_text(struct acp *a, uint32_t node)
{
    if (!node || js_type(&a->doc, node) != JS_STRING)
        return NULL;
    struct str text = say_text(&a->doc, node, &a->text);
    return memchr(text.p, 0, text.n) ? NULL : xstrdup(text);
}

static void command_add(char ***list, size_t *n, char *text)
{
    *list = xrealloc(*list, (*n + 2) * sizeof **list);
    (*list)[(*n)++] = text;
    (*list)[*n] = NULL;
}

static bool read_args(struct acp *a, uint32_t args, struct acp_command *c)
{
    for (uint32_t i = args ? js_first(&a->doc, args) : 0; args && i < js_end(&a->doc, args);
         i = js_next(&a->doc, i)) {
        char *text = terminal_text(a, i);
        if (!text)
            return false;
        command_add(&c->argv, &c->n_argv, text);
    }
    return true;
}

/* {"name":…,"value":…} as NAME=value. */
static bool read_env(struct acp *a, uint32_t env, struct acp_command *c)
{
    for (uint32_t i = env ? js_first(&a->doc, env) : 0; env && i < js_end(&a->doc, env);
         i = js_next(&a->doc, i)) {
        bool is_object = js_type(&a->doc, i) == JS_OBJECT;
        char *name = is_object ? terminal_text(a, js_get(&a->doc, i, "name")) : NULL;
        char *value = is_object ? terminal_text(a, js_get(&a->doc, i, "value")) : NULL;
        bool good = name && *name && !strchr(name, '=') && value;
        struct buf pair = {0};
        if (good) {
            buf_putf(&pair, "%s=%s", name, value);
            command_add(&c->env, &c->n_env, buf_take(&pair));
        }
        free(name);
        free(value);
        if (!good)
            return false;
    }
    return true;
}

static uint32_t find_array(const struct js_doc *doc, uint32_t params, const char *name)
{
    uint32_t node = js_get(doc, params, name);
    return node && js_type(doc, node) == JS_ARRAY ? node : 0;
}

static bool read_command(struct acp *a, uint32_t params, struct acp_command *c)
{
    int64_t limit;
    uint32_t bytes = js_get(&a->doc, params, "outputByteLimit");
    char *command = terminal_text(a, js_get(&a->doc, params, "command"));
    if (!command)
        return false;
    command_add(&c->argv, &c->n_argv, command);
    c->cwd = terminal_text(a, js_get(&a->doc, params, "cwd"));
    bool has_limit =
        bytes && js_type(&a->doc, bytes) == JS_NUMBER && js_int(&a->doc, bytes, &limit);
    c->output_bytes =
        has_limit && limit >= 0 && limit < OUTPUT_BYTES ? (size_t)limit : OUTPUT_BYTES;
    return *command && read_args(a, find_array(&a->doc, params, "args"), c) &&
           read_env(a, find_array(&a->doc, params, "env"), c);
}

static void free_texts(char **list)
{
    for (char **text = list; text && *text; text++)
        free(*text);
    free(list);
}

/* --- answers ---------------------------------------------------------------------------------- */

static void terminal_create(struct acp *a, uint32_t id, uint32_t params)
{
    struct acp_command command = {.again = a->again};
    char name[32];
    unsigned number = 0;
    if (!read_command(a, params, &command)) {
        acp_refuse(a, id, RPC_BAD_PARAMS, "command, args and env must be texts");
    } else {
        const char *why = a->o.terminals->create(a->o.terminals_arg, &command, &number);
        snprintf(name, sizeof name, TERMINAL_ID "%u", number);
        if (why) {
            acp_refuse(a, id, RPC_FAILED, why);
        } else {
            acp_put_id(a, id);
            js_put_raw(&a->out, "result", STR("{"));
            js_put_field(&a->out, "terminalId", str_of(name));
            acp_end(a);
        }
    }
    free_texts(command.argv);
    free_texts(command.env);
    free(command.cwd);
}

static void acp_put_exit(struct buf *out, const struct acp_exit *e)
{
    if (e->signal)
        js_put_raw(out, "exitCode", STR("null"));
    else
        js_put_int(out, "exitCode", e->code);
    js_put_field(out, "signal", e->signal ? str_of(e->signal) : STR_NULL);
}

static void terminal_output(struct acp *a, uint32_t id, unsigned number)
{
    struct buf text = {0};
    struct acp_exit exit = {0};
    bool truncated = a->o.terminals->output(a->o.terminals_arg, number, &text);
    bool ended = a->o.terminals->ended(a->o.terminals_arg, number, &exit);
    acp_put_id(a, id);
    js_put_raw(&a->out, "result", STR("{"));
    js_put_field(&a->out, "output", buf_str(&text));
    js_put_bool(&a->out, "truncated", truncated);
    if (ended) {
        js_put_raw(&a->out, "exitStatus", STR("{"));
        acp_put_exit(&a->out, &exit);
        buf_putc(&a->out, '}');
    }
    acp_end(a);
    buf_done(&text);
}

static void put_waited(struct acp *a, struct str id, const struct acp_exit *exit)
{
    buf_puts(&a->out, "{\"jsonrpc\":\"2.0\"");
    js_put_raw(&a->out, "id", id);
    js_put_raw(&a->out, "result", STR("{"));
    acp_put_exit(&a->out, exit);
    acp_end(a);
}

/* Answered at once when it has ended, else by acp_terminal_ended. */
static void terminal_wait(struct acp *a, uint32_t id, unsigned number)
{
    struct buf text = {0};
    struct acp_exit exit = {0};
    js_copy(&a->doc, id, &text);
    if (a->o.terminals->ended(a->o.terminals_arg, number, &exit)) {
        put_waited(a, buf_str(&text), &exit);
        buf_done(&text);
    } else if (a->n_waits == ACP_WAITS) {
        acp_refuse(a, id, RPC_FAILED, "too many requests wait");
        buf_done(&text);
    } else {
        a->waits[a->n_waits++] = (struct acp_wait){number, text};
    }
}

void acp_terminal_ended(struct acp *a, unsigned number)
{
    struct acp_exit exit = {0};
    size_t kept = 0;
    if (!a->o.terminals->ended(a->o.terminals_arg, number, &exit))
        return;
    for (size_t i = 0; i < a->n_waits; i++) {
        if (a->waits[i].number != number) {
            a->waits[kept++] = a->waits[i];
            continue;
        }
        put_waited(a, buf_str(&a->waits[i].id), &exit);
        buf_done(&a->waits[i].id);
    }
    a->n_waits = kept;
}

/* Those that wait for a terminal that is released are told what is known. */
static void terminal_let_go(struct acp *a, unsigned number)
{
    static const struct acp_exit killed = {.signal = "SIGTERM"};
    acp_terminal_ended(a, number);
    size_t kept = 0;
    for (size_t i = 0; i < a->n_waits; i++) {
        if (a->waits[i].number != number) {
            a->waits[kept++] = a->waits[i];
            continue;
        }
        put_waited(a, buf_str(&a->waits[i].id), &killed);
        buf_done(&a->waits[i].id);
    }
    a->n_waits = kept;
    a->o.terminals->release(a->o.terminals_arg, number);
}

static void put_empty(struct acp *a, uint32_t id)
{
    acp_put_id(a, id);
    js_put_raw(&a->out, "result", STR("{"));
    acp_end(a);
}

static void terminal_kill(struct acp *a, uint32_t id, unsigned number)
{
    a->o.terminals->kill(a->o.terminals_arg, number);
    put_empty(a, id);
}

static void terminal_release(struct acp *a, uint32_t id, unsigned number)
{
    terminal_let_go(a, number);
    put_empty(a, id);
}

/* --- requests --------------------------------------------------------------------------------- */

static const struct {
    const char *method;
    void (*serve)(struct acp *a, uint32_t id, unsigned number);
} served[] = {
    {"terminal/output", terminal_output},
    {"terminal/wait_for_exit", terminal_wait},
    {"terminal/kill", terminal_kill},
    {"terminal/release", terminal_release},
};

/* The number of a terminal that exists; 0 for none. */
static unsigned find_terminal(struct acp *a, uint32_t params)
{
    struct str text = say_text(&a->doc, js_get(&a->doc, params, "terminalId"), &a->text);
    struct str prefix = STR(TERMINAL_ID);
    unsigned number = 0;
    if (text.n <= prefix.n || text.n > prefix.n + 9 || memcmp(text.p, prefix.p, prefix.n) != 0)
        return 0;
    for (size_t i = prefix.n; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return 0;
        number = number * 10 + (unsigned)(text.p[i] - '0');
    }
    return a->o.terminals->exists(a->o.terminals_arg, number) ? number : 0;
}

bool acp_terminal(struct acp *a, uint32_t id, uint32_t params, uint32_t method)
{
    if (js_is(&a->doc, method, "terminal/create")) {
        terminal_create(a, id, params);
        return true;
    }
    for (size_t i = 0; i < countof(served); i++) {
        if (!js_is(&a->doc, method, served[i].method))
            continue;
        unsigned number = find_terminal(a, params);
        if (number)
            served[i].serve(a, id, number);
        else
            acp_refuse(a, id, ACP_NOT_FOUND, "there is no such terminal");
        return true;
    }
    return false;
}

void acp_terminals_done(struct acp *a)
{
    for (size_t i = 0; i < a->n_waits; i++)
        buf_done(&a->waits[i].id);
    a->n_waits = 0;
}
