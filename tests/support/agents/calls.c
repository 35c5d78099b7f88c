/* Input of the scripted agent after its run line, and the calls that it makes. */
#include <stdlib.h>

#include "tests/support/agents/channel.h"
#include "tests/support/agents/script.h"

struct child { /* a task that it has spawned, by the label that its program gave it */
    char *label, *task_id;
    struct child *next;
};

struct js_doc *heard;
size_t n_heard;
static size_t *waiting; /* these came while a call waited for its answer */
static size_t n_waiting, first_waiting;
static struct child *children;

/* The next line of stdin, as its index in heard; n_heard at the end of stdin. */
static size_t hear_more(void)
{
    struct buf line = {0};
    if (!channel_hear(&line))
        return n_heard;
    heard = xrealloc(heard, (n_heard + 1) * sizeof *heard);
    heard[n_heard] = (struct js_doc){0};
    struct str all = buf_str(&line);
    if (!js_parse(&heard[n_heard], all.p, all.n, JS_OURS)) /* the doc points into it: it stays */
        die("it was told no JSON: %s", heard[n_heard].error);
    return n_heard++;
}

static void say_heard(size_t at)
{
    struct buf line = {0};
    if (at < n_heard)
        js_copy(&heard[at], 0, &line);
    else
        buf_puts(&line, "null");
    say_text("token", "text", buf_str(&line));
    buf_done(&line);
}

/* {"hear": "message"}: waits for a line of that type; "say": true sends it as a token. */
void hear(node step)
{
    char *type = text(&program, value_of(step));
    size_t at;
    do {
        at = first_waiting < n_waiting ? waiting[first_waiting++] : hear_more();
    } while (at < n_heard && !js_is(&heard[at], js_get(&heard[at], 0, "type"), type));
    free(type);
    if (is_set(step, "say"))
        say_heard(at);
}

static const char *task_id_of(const char *label)
{
    for (struct child *c = children; c; c = c->next)
        if (strcmp(c->label, label) == 0)
            return c->task_id;
    die("no child \"%s\"", label);
}

/* Appends a call's line: its "input" may be steps, its "child" is a label. */
static void put_call(struct buf *line, node step, const char *id)
{
    node input = option(step, "input"), child = option(step, "child");
    bool is_program = input && js_type(&program, input) == JS_ARRAY;
    buf_putc(line, '{');
    put_members(
        line, step,
        (const char *const[]){"as", "child", "say", "call_id", is_program ? "input" : NULL, NULL});
    buf_putf(line, ",\"call_id\":%s", id);
    if (is_program) {
        struct buf steps = {0};
        js_copy(&program, input, &steps);
        js_put_field(line, "input", buf_str(&steps));
        buf_done(&steps);
    }
    if (child) {
        char *label = text(&program, child);
        js_put_field(line, "task_id", str_of(task_id_of(label)));
        free(label);
    }
    buf_putc(line, '}');
}

static bool is_answer(const struct js_doc *line, struct str id)
{
    node its = js_get(line, 0, "call_id");
    struct buf json = {0};
    if (its)
        js_copy(line, its, &json);
    bool equal = str_eq(buf_str(&json), id);
    buf_done(&json);
    return equal;
}

/* The line that answers the call; earlier lines wait for hear. */
static size_t answer_to(struct str id)
{
    for (;;) {
        size_t at = hear_more();
        if (at == n_heard || is_answer(&heard[at], id))
            return at;
        waiting = xrealloc(waiting, (n_waiting + 1) * sizeof *waiting);
        waiting[n_waiting++] = at;
    }
}

static void note_child(node label, const struct js_doc *reply)
{
    node task_id = js_get(reply, 0, "task_id");
    struct child *child = xcalloc(sizeof *child);
    child->label = text(&program, label);
    child->task_id = task_id ? text(reply, task_id) : NULL;
    child->next = children;
    children = child;
}

/* {"call": "spawn", …}: a call, and its answer; "say": true sends that as a token.  "as" is a label
 * for the child, used for "child" in a later send or cancel. */
void call(node step)
{
    struct buf line = {0}, id = {0}; /* the id as JSON: some programs send a number */
    if (option(step, "call_id"))
        js_copy(&program, option(step, "call_id"), &id);
    else
        buf_putf(&id, "\"call-%zu\"", n_heard);
    put_call(&line, step, id.bytes);
    say(&line);
    size_t at = answer_to(buf_str(&id));
    if (at < n_heard && option(step, "as"))
        note_child(option(step, "as"), &heard[at]);
    if (is_set(step, "say"))
        say_heard(at);
    buf_done(&id);
}

/* {"answer": "history"}: that member of the run as the final answer, in JSON. */
void answer(node step)
{
    char *name = text(&program, value_of(step));
    node member = js_get(&run, 0, name);
    struct buf json = {0};
    if (member)
        js_copy(&run, member, &json);
    else
        buf_puts(&json, "null");
    say_text("final_answer", "output", buf_str(&json));
    buf_done(&json);
    free(name);
}
