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

void said_line(struct said *s, const struct event_parts *line)
{
    if (line->event != EVENT_TOKEN && line->event != EVENT_FINAL_ANSWER)
        return;
    bool final = line->event == EVENT_FINAL_ANSWER;
    struct js_doc doc = {0};
    struct buf text = {0};
    if (js_parse(&doc, line->data.p, line->data.n, JS_OURS)) {
        uint32_t node = js_get(&doc, 0, final ? "output" : "text");
        if (node && js_type(&doc, node) == JS_STRING) {
            js_value(&doc, node, &text);
            if (final)
                said_final(s, buf_str(&text));
            else
                said_token(s, buf_str(&text));
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

void said_done(struct said *s)
{
    buf_done(&s->tokens);
    buf_done(&s->final);
    *s = (struct said){0};
}
