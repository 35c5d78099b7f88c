/* Any lines as what an ACP agent says, with answers, a cancel and a further prompt in between.  The
 * gateway's own lines are JSON, what the task says is lines that an agent may say, and a turn that
 * is over stays so. */
#include "proto/forms/acp.h"

#include "proto/agent_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct agent_line_decoder decoder;
static struct js_doc doc;

static const char *on_read(void *arg, const char *path, struct buf *ret)
{
    (void)arg;
    buf_puts(ret, "one\ntwo\nthree");
    return path[0] == '/' ? NULL : "no";
}

static const char *on_write(void *arg, const char *path, struct str content)
{
    (void)arg, (void)content;
    return path[0] == '/' ? NULL : "no";
}

/* Terminals with odd numbers have ended. */
static const char *on_create(void *arg, const struct acp_command *c, unsigned *ret_number)
{
    unsigned *last = arg;
    ASSERT(c->n_argv > 0 && !c->argv[c->n_argv] && (!c->env || !c->env[c->n_env]));
    *ret_number = ++*last;
    return c->argv[0][0] == '!' ? "no" : NULL;
}

static bool on_exists(void *arg, unsigned number)
{
    return number > 0 && number <= *(unsigned *)arg;
}

static bool on_output(void *arg, unsigned number, struct buf *ret)
{
    ASSERT(on_exists(arg, number));
    buf_puts(ret, "out");
    return number > 2;
}

static bool on_ended(void *arg, unsigned number, struct acp_exit *ret)
{
    (void)arg;
    *ret = (struct acp_exit){1, number > 4 ? "SIGTERM" : NULL};
    return number % 2;
}

static void on_number(void *arg, unsigned number)
{
    ASSERT(on_exists(arg, number));
}

static const struct acp_terminals terminals = {.create = on_create,
                                               .exists = on_exists,
                                               .output = on_output,
                                               .ended = on_ended,
                                               .kill = on_number,
                                               .release = on_number};
static unsigned last_terminal;

static const struct acp_files files = {.read = on_read, .write = on_write};

static void check_lines(struct buf *lines, bool said)
{
    struct agent_line line;
    for (size_t at = 0; at < lines->len;) {
        const char *end = memchr(lines->bytes + at, '\n', lines->len - at);
        ASSERT(end);
        struct str one = {lines->bytes + at, (size_t)(end - lines->bytes) - at};
        if (said) {
            bool good = agent_line_decode(&decoder, one, &line);
            ASSERT(good && (line.kind == LINE_EVENT || line.kind == LINE_RESULT));
            ASSERT(line.data.n < MAX_EVENT_LINE - EVENT_FRAME);
        } else {
            bool good = js_parse(&doc, one.p, one.n, JS_OURS);
            ASSERT(good && js_type(&doc, 0) == JS_OBJECT);
        }
        at += one.n + 1;
    }
    buf_clear(lines);
}

#define FILES                                                                             \
    "[{\"name\":\"a\",\"media_type\":\"image/png\",\"path\":\"/a b\",\"data\":\"AA==\"}," \
    "{\"media_type\":\"text/plain\",\"size\":1,\"path\":\"/b\"}]"

static void put(const struct acp *a, struct buf *out)
{
    buf_clear(out);
    buf_putc(out, '{');
    acp_put_state(a, out);
    buf_putc(out, '}');
}

/* Its state is one that is taken, and the same again. */
static void check_state(const struct acp *a)
{
    static struct buf state, again;
    static struct js_doc parsed;
    struct acp next;
    put(a, &state);
    bool good = js_parse(&parsed, state.bytes, state.len, JS_OURS) &&
                acp_take_state(&next, &a->o, &parsed, 0);
    ASSERT(good);
    put(&next, &again);
    ASSERT(str_eq(buf_str(&state), buf_str(&again)));
    acp_done(&next);
}

static void take(struct acp *a, struct str line)
{
    enum acp_turn before = a->turn;
    if (line.n && line.p[0] == '!')
        acp_answer(a, (struct str){line.p + 1, line.n - 1});
    else if (line.n && line.p[0] == '?')
        (void)acp_cancel(a);
    else if (line.n && line.p[0] == '+' && a->turn != ACP_RUNNING && !a->broken)
        acp_prompt(a, STR("more"), STR("all"), STR(FILES));
    else if (line.n && line.p[0] == '#')
        acp_lost(a, STR("gone"));
    else
        acp_take(a, line);
    ASSERT(a->n_gifts <= ACP_GIFTS);
    ASSERT(before == ACP_RUNNING || a->turn == before || (line.n && line.p[0] == '+') || a->broken);
    check_lines(&a->out, false);
    check_lines(&a->said, true);
    check_state(a);
    ASSERT(a->turn != ACP_FAILED || a->failure.len > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct acp acp;
    struct acp_options o = {.cwd = "/w",
                            .version = "1",
                            .auth_method = size % 2 ? "key" : NULL,
                            .files = &files,
                            .terminals = &terminals,
                            .terminals_arg = &last_terminal};
    last_terminal = 0;
    acp_open(&acp, &o, size % 3 ? STR("s-1") : STR(""));
    acp_prompt(&acp, STR("input"), STR("recap"), STR(FILES));
    while (text.n) {
        const char *newline = memchr(text.p, '\n', text.n);
        size_t n = newline ? (size_t)(newline - text.p) : text.n, next = newline ? n + 1 : n;
        take(&acp, (struct str){text.p, n});
        text = (struct str){text.p + next, text.n - next};
    }
    acp_done(&acp);
    return 0;
}
