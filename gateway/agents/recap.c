#include "gateway/agents/recap.h"

void recap_put(struct buf *out, struct str history, struct str input)
{
    struct js_doc doc = {0};
    size_t before = out->len;
    bool is_list =
        history.n && js_parse(&doc, history.p, history.n, JS_OURS) && js_type(&doc, 0) == JS_ARRAY;
    for (uint32_t i = 1; is_list && i < js_end(&doc, 0); i = js_next(&doc, i)) {
        uint32_t role = js_get(&doc, i, "role"), content = js_get(&doc, i, "content");
        if (!role || !content || js_type(&doc, content) != JS_STRING)
            continue;
        if (out->len == before)
            buf_puts(out, "What was said before in this conversation:\n");
        buf_puts(out, "\n[");
        js_value(&doc, role, out);
        buf_puts(out, "] ");
        js_value(&doc, content, out);
        buf_putc(out, '\n');
    }
    js_done(&doc);
    if (out->len > before)
        buf_puts(out, "\nNow:\n\n");
    buf_putstr(out, input);
}
