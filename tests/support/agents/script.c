/* script -- the exec agent of nearly all tests: the input of its run is the program that it carries
 * out.
 *
 * The input is a JSON array of steps, each an object whose first member is a verb (the table at the
 * end lists them), with options after it.  Any other input is echoed as one token.  Nothing here
 * waits for a time where a test could wait for an event: "touch" and "wait" are the two directions.
 *
 * It is built without sanitizers, in all builds: hundreds are started, and it is not what is
 * tested.
 */
#include "tests/support/agents/script.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/agents/channel.h"

struct js_doc program;
struct js_doc run;

_Noreturn void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "script: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    _exit(1);
}

/* --- the program's values --------------------------------------------------------------------- */

/* A step's option; 0: there is none. */
node option(node step, const char *key)
{
    return js_get(&program, step, key);
}

node verb_of(node step)
{
    return js_first(&program, step);
}

node value_of(node step) /* the verb's */
{
    return js_next(&program, verb_of(step));
}

bool is_set(node step, const char *key)
{
    node at = option(step, key);
    int64_t n;
    return at && js_type(&program, at) != JS_FALSE && js_type(&program, at) != JS_NULL &&
           !(js_int(&program, at, &n) && n == 0);
}

double number(node at, double otherwise)
{
    double n;
    return at && js_double(&program, at, &n) ? n : otherwise;
}

/* A string's value; the caller frees it. */
char *text(const struct js_doc *doc, node at)
{
    struct buf value = {0};
    buf_puts(&value, "");
    js_value(doc, at, &value);
    return buf_take(&value);
}

static bool is_one_of(node key, const char *const *names)
{
    while (*names && !js_is(&program, key, *names))
        names++;
    return *names != NULL;
}

/* Appends the members of a step except those named. */
void put_members(struct buf *out, node step, const char *const *without)
{
    for (node key = js_first(&program, step), value; key < js_end(&program, step);
         key = js_next(&program, value)) {
        value = js_next(&program, key);
        if (is_one_of(key, without))
            continue;
        if (out->len > 0 && out->bytes[out->len - 1] != '{')
            buf_putc(out, ',');
        js_copy(&program, key, out);
        buf_putc(out, ':');
        js_copy(&program, value, out);
    }
}

/* --- control ---------------------------------------------------------------------------------- */

static void carry_out(node steps);

/* {"on_term": [steps]}: carried out when SIGTERM comes; then it continues. */
static void on_term(node step)
{
    channel_on_term(carry_out, value_of(step));
}

static void ignore_term(node step)
{
    (void)step;
    signal(SIGTERM, SIG_IGN);
}

static void hang(node step)
{
    (void)step;
    for (;;)
        channel_sleep(1e9);
}

static void sleep_ms(node step)
{
    channel_sleep(number(value_of(step), 0));
}

/* {"repeat": 3, "steps": […]} */
static void repeat(node step)
{
    node steps = option(step, "steps");
    for (int64_t n = (int64_t)number(value_of(step), 0); n > 0; n--)
        carry_out(steps);
}

static void close_stdin(node step)
{
    (void)step;
    close(STDIN_FILENO);
}

static void close_stdout(node step)
{
    (void)step;
    close(STDOUT_FILENO);
}

/* {"kill": 9}: sends itself that signal. */
static void kill_step(node step)
{
    kill(getpid(), (int)number(value_of(step), 0));
    hang(step);
}

static void exit_step(node step)
{
    _exit((int)number(value_of(step), 0));
}

static const struct {
    const char *name;
    void (*carry_out)(node step);
} verbs[] = {
    {"token", token},
    {"thinking", thinking},
    {"final_answer", final_answer},
    {"progress", progress},
    {"custom", custom},
    {"result", result},
    {"question", question},
    {"line", line_step},
    {"raw", raw},
    {"hex", hex},
    {"line_of", line_of},
    {"stderr", stderr_step},
    {"hear", hear},
    {"call", call},
    {"answer", answer},
    {"flood", flood},
    {"wait", wait_step},
    {"touch", touch},
    {"count", count},
    {"dump", dump},
    {"grandchild", grandchild},
    {"on_term", on_term},
    {"ignore_term", ignore_term},
    {"hang", hang},
    {"sleep_ms", sleep_ms},
    {"repeat", repeat},
    {"close_stdin", close_stdin},
    {"close_stdout", close_stdout},
    {"kill", kill_step},
    {"exit", exit_step},
};

static void carry_out(node steps)
{
    for (node step = js_first(&program, steps); step < js_end(&program, steps);
         step = js_next(&program, step)) {
        size_t i = 0;
        while (i < countof(verbs) && !js_is(&program, verb_of(step), verbs[i].name))
            i++;
        if (i == countof(verbs))
            die("no such verb: %s", text(&program, verb_of(step)));
        verbs[i].carry_out(step);
    }
}

int main(void)
{
    struct buf line = {0}, input = {0};
    signal(SIGPIPE, SIG_IGN); /* a closed stdout ends it like other errors */
    if (!channel_hear(&line) || !js_parse(&run, line.bytes, line.len, JS_OURS))
        die("no run on stdin");
    buf_puts(&input, "");
    js_value(&run, js_get(&run, 0, "input"), &input);
    if (js_parse(&program, input.bytes, input.len, JS_OURS) && js_type(&program, 0) == JS_ARRAY)
        carry_out(0);
    else
        say_text("token", "text", buf_str(&input));
    _exit(0);
}
