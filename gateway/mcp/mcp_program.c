/* The configuration of a server as a program, or as headers. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/mcp/mcp_private.h"
#include "gateway/processes/sandbox.h"
#include "gateway/processes/supervisor.h"
#include "proto/str.h"

#define HEADERS_FILE_BYTES 65536
#define SANDBOX_TMP (256ULL << 20) /* bytes of /tmp */

/* --- programs --------------------------------------------------------------------------------- */

static struct sandbox mcp_sandbox(const struct config_mcp *c)
{
    return (struct sandbox){.kind = SANDBOX_BUBBLEWRAP,
                            .network = c->network,
                            .tmp = SANDBOX_TMP,
                            .paths = c->paths.list};
}

static void add_word(struct keep_texts *argv, const char *word)
{
    argv->list = xrealloc(argv->list, (argv->n + 2) * sizeof(char *));
    argv->list[argv->n++] = xstrdup(str_of(word));
    argv->list[argv->n] = NULL;
}

void mcp_program_argv(const struct config_mcp *c, struct keep_texts *ret)
{
    struct sandbox sandbox = mcp_sandbox(c);
    if (c->sandbox == MCP_SANDBOX_BUBBLEWRAP)
        sandbox_wrap(&sandbox, c->cwd, c->command.list, ret);
    else
        for (size_t i = 0; i < c->command.n; i++)
            add_word(ret, c->command.list[i]);
}

/* The home of the gateway's user does not exist in a sandbox. */
char **mcp_program_env(const struct config_mcp *c)
{
    static char home[] = "HOME=/tmp";
    char **env = xcalloc((c->env.n + 2) * sizeof *env);
    size_t n = 0;
    bool has_home = c->sandbox == MCP_SANDBOX_NONE;
    for (size_t i = 0; i < c->env.n; i++) {
        has_home |= str_begins(str_of(c->env.list[i]), STR("HOME="));
        env[n++] = c->env.list[i];
    }
    if (!has_home)
        env[n++] = home;
    return env;
}

bool mcp_program_works(const struct config_mcp *c, char ret_error[MCP_ERROR_TEXT])
{
    struct sandbox sandbox = mcp_sandbox(c);
    char why[SANDBOX_ERROR];
    sandbox.paths = NULL; /* a path that is missing concerns this server alone, at its start */
    if (c->sandbox != MCP_SANDBOX_BUBBLEWRAP || sandbox_works(&sandbox, why))
        return true;
    snprintf(ret_error, MCP_ERROR_TEXT, "mcp server %s: %s", c->name, why);
    return false;
}

/* --- headers ---------------------------------------------------------------------------------- */

/* RFC 9110 section 5: a name that is a token, a colon, a value of one line. */
static bool is_header_line(struct str line)
{
    const char *colon = memchr(line.p, ':', line.n);
    size_t name = colon ? (size_t)(colon - line.p) : 0;
    for (size_t i = 0; i < line.n; i++) {
        unsigned char c = (unsigned char)line.p[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
        if (i < name && (c <= ' ' || c >= 0x7f || strchr("()<>@,;\\\"/[]?={}", (char)c)))
            return false;
    }
    return name > 0;
}

static bool take_header_lines(struct str text, struct keep_texts *ret)
{
    while (text.n) {
        const char *end = memchr(text.p, '\n', text.n);
        struct str line = {text.p, end ? (size_t)(end - text.p) : text.n};
        text = str_from(text, line.n + (end != NULL));
        if (line.n && line.p[line.n - 1] == '\r')
            line.n--;
        if (str_is_blank(line) || line.p[0] == '#')
            continue;
        if (!is_header_line(line))
            return false;
        char *word = xstrdup(line);
        add_word(ret, word);
        free(word);
    }
    return true;
}

bool mcp_program_headers(const struct config_mcp *c, struct keep_texts *ret, char *ret_error,
                         size_t n)
{
    struct buf text = {0};
    for (size_t i = 0; i < c->headers.n; i++)
        add_word(ret, c->headers.list[i]);
    if (!c->headers_file)
        return true;
    FILE *file = fopen(c->headers_file, "re");
    if (!file) {
        snprintf(ret_error, n, "headers_file cannot be read: %s", strerror(errno));
        return false;
    }
    text.len = fread(buf_reserve(&text, HEADERS_FILE_BYTES), 1, HEADERS_FILE_BYTES, file);
    bool good = !ferror(file) && feof(file) && take_header_lines(buf_str(&text), ret);
    (void)fclose(file);
    explicit_bzero(text.bytes, text.len);
    buf_done(&text);
    if (!good)
        snprintf(ret_error, n, "headers_file must have a header in each line, in at most 64 KiB");
    return good;
}

/* --- for the operator ------------------------------------------------------------------------- */

static bool mcp_check_program(const struct config_mcp *c, char *ret_error, size_t n)
{
    char why[SUPERVISOR_ERROR], sandboxed[MCP_ERROR_TEXT];
    char **env = mcp_program_env(c);
    struct supervisor_spec spec = {.command = c->command.list, .env = env};
    if (c->sandbox == MCP_SANDBOX_NONE)
        spec.cwd = c->cwd;
    bool good = c->sandbox != MCP_SANDBOX_NONE || supervisor_check(&spec, why);
    free(env);
    if (!good)
        snprintf(ret_error, n, "%s", why);
    else if (!(good = mcp_program_works(c, sandboxed)))
        snprintf(ret_error, n, "%s", sandboxed);
    return good;
}

static void put_kind(const struct config_mcp *c, char *ret, size_t n)
{
    if (c->command.n)
        snprintf(ret, n, "%s%s", c->command.list[0],
                 c->sandbox == MCP_SANDBOX_BUBBLEWRAP ? ", in bubblewrap" : "");
    else
        snprintf(ret, n, "over HTTP%s", c->headers_file ? ", with the headers of its file" : "");
}

void mcp_check(const struct config *config, bool all, void (*say)(const char *line, bool good))
{
    char why[MCP_ERROR_TEXT], line[MCP_ERROR_TEXT + 64];
    for (size_t i = 0; i < config->n_mcp; i++) {
        const struct config_mcp *c = &config->mcp[i];
        struct keep_texts headers = {0};
        bool good = c->command.n ? mcp_check_program(c, why, sizeof why)
                                 : mcp_program_headers(c, &headers, why, sizeof why);
        if (good)
            put_kind(c, why, sizeof why);
        snprintf(line, sizeof line, "mcp[%zu] %s: %s", i, c->name, why);
        if (!good || all)
            say(line, good);
        keep_texts_done(&headers);
    }
}

/* --- for agents of kind acp ------------------------------------------------------------------- */

/* An absolute path, which the protocol wants. */
static void put_program(const char *program, struct buf *out)
{
    const char *path = strchr(program, '/') ? NULL : getenv("PATH");
    char whole[PATH_MAX];
    for (size_t n; path && *path; path += n + (path[n] == ':')) {
        struct buf file = {0};
        n = strcspn(path, ":");
        buf_putf(&file, "%.*s/%s", (int)n, path, program);
        bool found = access(file.bytes, X_OK) == 0 && realpath(file.bytes, whole);
        if (found)
            js_put_field(out, "command", str_of(file.bytes));
        buf_done(&file);
        if (found)
            return;
    }
    js_put_field(out, "command",
                 str_of(strchr(program, '/') && realpath(program, whole) ? whole : program));
}

/* "NAME=value" or "Name: value" as {"name":…,"value":…}. */
static void put_pair(const char *text, const char *border, bool first, struct buf *out)
{
    const char *at = strstr(text, border);
    buf_puts(out, first ? "{" : ",{");
    js_put_field(out, "name", (struct str){text, at ? (size_t)(at - text) : strlen(text)});
    struct str value = str_of(at ? at + strlen(border) : "");
    js_put_field(out, "value", str_trim(value));
    buf_putc(out, '}');
}

static void put_acp_program(const struct config_mcp *c, struct buf *out)
{
    struct keep_texts argv = {0};
    char **env = mcp_program_env(c);
    mcp_program_argv(c, &argv);
    buf_puts(out, out->len ? ",{" : "{");
    js_put_field(out, "name", str_of(c->name));
    put_program(argv.list[0], out);
    js_put_raw(out, "args", STR("["));
    for (size_t i = 1; i < argv.n; i++) {
        buf_puts(out, i > 1 ? "," : "");
        js_put_str(out, str_of(argv.list[i]));
    }
    buf_putc(out, ']');
    js_put_raw(out, "env", STR("["));
    for (size_t i = 0; env[i]; i++)
        put_pair(env[i], "=", i == 0, out);
    buf_puts(out, "]}");
    free(env);
    keep_texts_done(&argv);
}

static void put_acp_url(const struct config_mcp *c, struct buf *out)
{
    struct keep_texts headers = {0};
    char why[MCP_ERROR_TEXT];
    if (mcp_program_headers(c, &headers, why, sizeof why)) { /* otherwise check-config tells */
        buf_puts(out, out->len ? ",{" : "{");
        js_put_field(out, "type", STR("http"));
        js_put_field(out, "name", str_of(c->name));
        js_put_field(out, "url", str_of(c->url));
        js_put_raw(out, "headers", STR("["));
        for (size_t i = 0; i < headers.n; i++)
            put_pair(headers.list[i], ":", i == 0, out);
        buf_puts(out, "]}");
    }
    keep_texts_done(&headers);
}

void mcp_put_acp_servers(const struct config *config, const struct config_texts *tools,
                         struct buf *stdio, struct buf *http)
{
    const char *tool;
    for (size_t i = 0; i < tools->n; i++) {
        const struct config_mcp *c = config_find_mcp(config, tools->list[i], &tool);
        if (c && c->command.n)
            put_acp_program(c, stdio);
        else if (c)
            put_acp_url(c, http);
    }
}
