/* Output of the scripted agent: events, and bytes that are not events. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/agents/channel.h"
#include "tests/support/agents/script.h"

#define FLOOD_LINES 64 /* in one write */

void say(struct buf *line)
{
    buf_putc(line, '\n');
    channel_say(buf_str(line));
    buf_done(line);
}

/* An event whose data is the contents of members, `"key":value,…`. */
static void say_event(const char *name, struct buf *members)
{
    struct buf line = {0};
    buf_putf(&line, "{\"event\":\"%s\",\"data\":{", name);
    buf_putstr(&line, buf_str(members));
    buf_puts(&line, "}}");
    buf_done(members);
    say(&line);
}

void say_text(const char *name, const char *key, struct str value)
{
    struct buf members = {0};
    buf_putf(&members, "\"%s\":", key);
    js_put_str(&members, value);
    say_event(name, &members);
}

/* An event with one member: the verb's value. */
static void say_value(const char *name, const char *key, node step)
{
    struct buf members = {0};
    buf_putf(&members, "\"%s\":", key);
    js_copy(&program, value_of(step), &members);
    say_event(name, &members);
}

/* An event with the verb's value under a name, and the step's other members unchanged. */
static void say_named(const char *name, const char *key, node step)
{
    char *verb = text(&program, verb_of(step));
    struct buf members = {0};
    buf_putf(&members, "\"%s\":", key);
    js_copy(&program, value_of(step), &members);
    put_members(&members, step, (const char *const[]){verb, NULL});
    say_event(name, &members);
    free(verb);
}

void token(node step)
{
    say_value("token", "text", step);
}

void thinking(node step)
{
    say_value("thinking", "text", step);
}

void final_answer(node step)
{
    say_value("final_answer", "output", step);
}

void progress(node step)
{
    say_named("progress", "progress", step);
}

void question(node step)
{
    say_named("input_required", "input_id", step);
}

/* {"custom": type, "payload": …} */
void custom(node step)
{
    node payload = option(step, "payload");
    struct buf members = {0};
    buf_puts(&members, "\"event_type\":");
    js_copy(&program, value_of(step), &members);
    buf_puts(&members, ",\"payload\":");
    if (payload)
        js_copy(&program, payload, &members);
    else
        buf_puts(&members, "null");
    say_event("custom", &members);
}

void result(node step)
{
    struct buf line = {0};
    buf_puts(&line, "{\"event\":\"result\",\"data\":");
    js_copy(&program, value_of(step), &line);
    buf_putc(&line, '}');
    say(&line);
}

/* {"line": any}: as a line of JSON. */
void line_step(node step)
{
    struct buf line = {0};
    js_copy(&program, value_of(step), &line);
    say(&line);
}

/* {"raw": text}: these bytes, without an end of line. */
void raw(node step)
{
    struct buf bytes = {0};
    js_value(&program, value_of(step), &bytes);
    channel_say(buf_str(&bytes));
    buf_done(&bytes);
}

/* {"hex": "ff00"}: these bytes. */
void hex(node step)
{
    struct str digits = js_raw(&program, value_of(step));
    struct buf bytes = {0};
    for (size_t i = 0; i + 1 < digits.n; i += 2) {
        char pair[] = {digits.p[i], digits.p[i + 1], 0};
        buf_putc(&bytes, (char)strtol(pair, NULL, 16));
    }
    channel_say(buf_str(&bytes));
    buf_done(&bytes);
}

/* {"line_of": n}: a token of n bytes. */
void line_of(node step)
{
    size_t n = (size_t)number(value_of(step), 0);
    struct buf line = {0};
    buf_puts(&line, "{\"event\":\"token\",\"data\":{\"text\":\"");
    memset(buf_reserve(&line, n), 'x', n);
    line.len += n;
    buf_puts(&line, "\"}}");
    say(&line);
}

void stderr_step(node step)
{
    struct buf bytes = {0};
    js_value(&program, value_of(step), &bytes);
    if (write(STDERR_FILENO, bytes.bytes, bytes.len) != (ssize_t)bytes.len)
        _exit(1);
    buf_done(&bytes);
}

/* {"flood": 1000, "bytes": 20, "per_s": 500, "text": "x"}: that many tokens, each numbered. */
void flood(node step)
{
    int64_t count = (int64_t)number(value_of(step), 0);
    double rate = number(option(step, "per_s"), 0);
    size_t chars = (size_t)number(option(step, "bytes"), 0);
    int64_t burst = rate > 0 ? (int64_t)(rate / 100) : FLOOD_LINES;
    struct buf fill = {0}, lines = {0};
    char *piece = option(step, "text") ? text(&program, option(step, "text")) : xstrdup(STR("x"));
    for (size_t i = 0; i < chars; i++)
        buf_puts(&fill, piece);
    fill.len = fill.len ? utf8_chars(buf_str(&fill), chars) : 0;
    burst = burst < 1 ? 1 : burst;
    double begun = channel_now();
    for (int64_t first = 1; first <= count; first += burst) {
        for (int64_t i = first; i < first + burst && i <= count; i++) {
            buf_putf(&lines, "{\"event\":\"token\",\"data\":{\"text\":\"%" PRId64 " ", i);
            buf_putstr(&lines, buf_str(&fill));
            buf_puts(&lines, "\"}}\n");
        }
        channel_say(buf_str(&lines));
        buf_clear(&lines);
        if (rate > 0)
            channel_sleep(begun + (double)first * 1000 / rate - channel_now());
    }
    free(piece);
    buf_done(&fill);
    buf_done(&lines);
}
