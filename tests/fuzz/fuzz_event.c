/* A whole stream of events, chosen by the fuzzer's bytes: what was encoded is decoded, from the
 * line, from the JSON that it is, and from the lines that a merged replay makes of it.
 *
 * Bytes: where the numbers begin and the time, then for each event its kind, the length of its
 * text, and the text. */
#include "proto/event.h"

#include "proto/js.h"
#include "proto/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EVENTS 64

struct event {
    enum event_type type;
    struct str data; /* the JSON object */
};

static const char task_id[] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
static struct js_doc doc;

static struct input {
    const uint8_t *at;
    size_t n;
} input;

static uint64_t take(size_t bytes)
{
    uint64_t value = 0;
    for (; bytes > 0 && input.n > 0; bytes--, input.n--)
        value = value << 8 | *input.at++;
    return value;
}

/* {"text":…}, which is merged, or with a member more, which is not. */
static void put_data(struct buf *out, bool is_more)
{
    struct buf text = {0};
    size_t n = take(2) % 4096;
    if (n > input.n)
        n = input.n;
    js_put_str(&text, (struct str){(const char *)input.at, n}); /* repairs what is not UTF-8 */
    input.at += n;
    input.n -= n;
    buf_puts(out, "{\"text\":");
    buf_putstr(out, buf_str(&text));
    buf_puts(out, is_more ? ",\"more\":[1,{}]}" : "}");
    buf_done(&text);
}

static void check_member(const char *key, int64_t value)
{
    int64_t got;
    ASSERT(js_int(&doc, js_get(&doc, 0, key), &got) && got == value);
}

/* A line is the JSON that PROTOCOL.md 4 says, and splits into what it was made of. */
static void check_line(struct str line, uint64_t seq, int64_t ts, const struct event *e)
{
    struct event_parts parts;
    struct buf copied = {0};
    ASSERT(line.n > 0 && line.p[line.n - 1] == '\n');
    ASSERT(memchr(line.p, '\n', line.n) == line.p + line.n - 1);
    ASSERT(event_line_split(line, &parts));
    ASSERT(parts.seq == seq && parts.ts == ts && parts.event == e->type);
    ASSERT(str_eq(parts.data, e->data) && event_line_seq(line.p, line.n) == seq);
    ASSERT(js_parse(&doc, line.p, line.n, JS_ANY_NUMBER));
    check_member("seq", (int64_t)seq);
    check_member("ts", ts);
    ASSERT(js_is(&doc, js_get(&doc, 0, "type"), "event"));
    ASSERT(js_is(&doc, js_get(&doc, 0, "task_id"), task_id));
    ASSERT(js_is(&doc, js_get(&doc, 0, "event"), event_name(e->type)));
    js_copy(&doc, js_get(&doc, 0, "data"), &copied);
    ASSERT(str_eq(buf_str(&copied), e->data));
    buf_done(&copied);
}

static struct str first_line(struct str lines)
{
    const char *end = memchr(lines.p, '\n', lines.n);
    ASSERT(end);
    return (struct str){lines.p, (size_t)(end + 1 - lines.p)};
}

static void skip(struct str *lines, size_t n)
{
    lines->p += n;
    lines->n -= n;
}

/* The texts of all tokens (or thoughts), joined: merging changes none of it. */
static void join(struct str lines, enum event_type type, struct buf *out)
{
    for (struct str line; lines.n > 0; skip(&lines, line.n)) {
        struct event_parts parts;
        line = first_line(lines);
        ASSERT(event_line_split(line, &parts));
        ASSERT(js_parse(&doc, parts.data.p, parts.data.n, JS_ANY_NUMBER));
        if (parts.event == type)
            js_value(&doc, js_get(&doc, 0, "text"), out);
    }
}

static void check_same_text(struct str plain, struct str merged, enum event_type type)
{
    struct buf one = {0}, other = {0};
    join(plain, type, &one);
    join(merged, type, &other);
    ASSERT(str_eq(buf_str(&one), buf_str(&other)));
    buf_done(&one);
    buf_done(&other);
}

/* Each merged line begins after the previous one, and together they reach from first to last. */
static void check_merged(struct str plain, uint64_t first, uint64_t last)
{
    struct buf merged = {0};
    event_coalesce(plain, &merged);
    uint64_t next = first;
    struct str rest = buf_str(&merged);
    for (struct str line; rest.n > 0; skip(&rest, line.n)) {
        struct event_parts parts;
        int64_t from;
        line = first_line(rest);
        ASSERT(event_line_split(line, &parts) && js_parse(&doc, line.p, line.n, JS_ANY_NUMBER));
        uint32_t node = js_get(&doc, 0, "from");
        if (node)
            ASSERT(js_int(&doc, node, &from) && (uint64_t)from == next && parts.seq > next &&
                   line.n <= MAX_MESSAGE_OUT);
        else
            ASSERT(parts.seq == next);
        next = parts.seq + 1;
    }
    ASSERT(next == last + 1);
    check_same_text(plain, buf_str(&merged), EVENT_TOKEN);
    check_same_text(plain, buf_str(&merged), EVENT_THINKING);
    buf_done(&merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum event_type types[] = {EVENT_TOKEN,    EVENT_TOKEN,        EVENT_TOKEN,
                                            EVENT_THINKING, EVENT_FINAL_ANSWER, EVENT_PROGRESS};
    struct buf lines = {0}, object = {0};
    input = (struct input){data, size};
    uint64_t first = 1 + take(6) % ((UINT64_C(1) << 53) - 2 * EVENTS), n = 0;
    int64_t ts = (int64_t)(take(6) % (UINT64_C(1) << 53));
    for (; n < EVENTS && input.n > 0; n++) {
        uint64_t kind = take(1);
        size_t at = lines.len;
        buf_clear(&object);
        put_data(&object, kind & 128);
        struct event e = {types[kind % countof(types)], buf_str(&object)};
        event_line(&lines, task_id, first + n, ts, e.type, e.data);
        check_line((struct str){lines.bytes + at, lines.len - at}, first + n, ts, &e);
    }
    if (n > 0) {
        ASSERT(event_lines_are(buf_str(&lines), first, first + n - 1));
        ASSERT(!event_lines_are(buf_str(&lines), first + 1, first + n));
        ASSERT(!event_lines_are((struct str){lines.bytes, lines.len - 1}, first, first + n - 1));
        check_merged(buf_str(&lines), first, first + n - 1);
    }
    buf_done(&lines);
    buf_done(&object);
    return 0;
}
