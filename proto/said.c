#include "proto/said.h"

void said_token(struct said *s, struct str text)
{
    if (s->tokens_cut)
        return;
    size_t n = utf8_cut(text, MAX_OUTPUT - s->tokens.len);
    buf_put(&s->tokens, text.p, n);
    s->tokens_cut = n < text.n;
}

void said_final(struct said *s, struct str text)
{
    buf_clear(&s->final);
    buf_put(&s->final, text.p, utf8_cut(text, MAX_OUTPUT));
    s->has_final = true;
}

void said_keep(struct said *s, const struct said_sum *keep)
{
    size_t n =
        utf8_chars(buf_str(&s->tokens), keep->text < SIZE_MAX ? (size_t)keep->text : SIZE_MAX);
    if (n < s->tokens.len) {
        s->tokens.len = n;
        s->tokens_cut = false;
    }
    s->sum = *keep;
}

static uint64_t count_chars(struct str text)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += ((unsigned char)text.p[i] & 0xc0) != 0x80;
    return n;
}

static void said_text(struct said *s, enum event_type event, struct str text)
{
    if (event == EVENT_FINAL_ANSWER) {
        said_final(s, text);
        return;
    }
    s->sum.bytes += text.n;
    *(event == EVENT_TOKEN ? &s->sum.text : &s->sum.thinking) += count_chars(text);
    if (event == EVENT_TOKEN)
        said_token(s, text);
}

static bool said_number(const struct js_doc *doc, uint32_t object, const char *member,
                        uint64_t *ret)
{
    int64_t n = 0;
    uint32_t node = js_get(doc, object, member);
    bool good = node && js_int(doc, node, &n) && n >= 0;
    *ret = good ? (uint64_t)n : 0;
    return good;
}

/* Without keep nothing was withdrawn. */
static void said_resumed(struct said *s, const struct js_doc *doc)
{
    struct said_sum keep = {.bytes = s->sum.bytes};
    uint32_t node = js_get(doc, 0, "keep");
    if (node && js_type(doc, node) == JS_OBJECT && said_number(doc, node, "text", &keep.text) &&
        said_number(doc, node, "thinking", &keep.thinking))
        said_keep(s, &keep);
}

void said_line(struct said *s, const struct event_parts *line)
{
    static const char *const members[N_EVENT_TYPES] = {
        [EVENT_TOKEN] = "text", [EVENT_THINKING] = "text", [EVENT_FINAL_ANSWER] = "output"};
    const char *member = members[line->event];
    bool resumed = line->event == EVENT_TASK_RESUMED;
    struct js_doc doc = {0};
    struct buf text = {0};
    if (!member && !resumed)
        return;
    if (js_parse(&doc, line->data.p, line->data.n, JS_OURS)) {
        uint32_t node = member ? js_get(&doc, 0, member) : 0;
        if (resumed)
            said_resumed(s, &doc);
        if (node && js_type(&doc, node) == JS_STRING) {
            js_value(&doc, node, &text);
            said_text(s, line->event, buf_str(&text));
        }
    }
    buf_done(&text);
    js_done(&doc);
}

struct str said_output(const struct said *s)
{
    if (s->has_final)
        return buf_str(&s->final);
    return s->tokens.len > 0 ? buf_str(&s->tokens) : STR_NULL;
}

struct str said_take_output(struct said *s)
{
    struct buf *from = s->has_final ? &s->final : &s->tokens;
    size_t n = from->len;
    if (n == 0 && !s->has_final)
        return STR_NULL;
    return (struct str){buf_take(from), n};
}

void said_answer_tokens(struct said *s)
{
    buf_done(&s->final);
    s->final = s->tokens;
    s->tokens = (struct buf){0};
    s->has_final = true;
}

void said_done(struct said *s)
{
    buf_done(&s->tokens);
    buf_done(&s->final);
    *s = (struct said){0};
}
