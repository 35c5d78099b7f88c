/* The context of a chat: messages that take the place of the history (PROTOCOL.md section 5). */
#include "proto/request_fields.h"

/* The role in the agent's form; NULL for none. */
static const char *context_role(const struct js_doc *doc, uint32_t role)
{
    static const char *const roles[][2] = {{"user", "user"},
                                           {"assistant", "assistant"},
                                           {"system", "system"},
                                           {"developer", "system"}};
    for (size_t i = 0; i < countof(roles); i++)
        if (js_type(doc, role) == JS_STRING && js_is(doc, role, roles[i][0]))
            return roles[i][1];
    return NULL;
}

static bool keep_message(struct decoding *d, uint32_t node)
{
    const struct js_doc *doc = d->doc;
    bool is_object = js_type(doc, node) == JS_OBJECT;
    uint32_t role = is_object ? js_get(doc, node, "role") : 0;
    uint32_t content = is_object ? js_get(doc, node, "content") : 0;
    const char *name = role ? context_role(doc, role) : NULL;
    if (!name || !content || js_type(doc, content) != JS_STRING)
        return false;
    buf_putc(&d->block, '{');
    js_put_field(&d->block, "role", str_of(name));
    js_put_key(&d->block, "content");
    js_copy(doc, content, &d->block);
    buf_putc(&d->block, '}');
    return true;
}

/* Only the two members of each message are kept, so the result is no longer than the input. */
bool request_read_context(struct decoding *d, uint32_t node)
{
    const struct js_doc *doc = d->doc;
    size_t from = d->block.len;
    if (js_type(doc, node) != JS_ARRAY)
        return false;
    buf_putc(&d->block, '[');
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i)) {
        if (d->block.len > from + 1)
            buf_putc(&d->block, ',');
        if (!keep_message(d, i))
            return false;
    }
    buf_putc(&d->block, ']');
    ASSERT(d->block.bytes == d->to->memory);
    d->to->context = (struct str){d->block.bytes + from, d->block.len - from};
    return true;
}
