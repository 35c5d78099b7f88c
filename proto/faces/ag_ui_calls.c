#include "proto/faces/ag_ui_calls.h"

#include "proto/faces/ag_ui_parts.h"

#define KEPT_BYTES (64 * 1024)

static void begin_kept(struct ag_ui_calls *c, const char *task_id, uint32_t id, struct str role)
{
    buf_puts(&c->messages, ",{");
    js_put_key(&c->messages, "id");
    buf_putf(&c->messages, "\"%s-%u\"", task_id, id);
    js_put_field(&c->messages, "role", role);
}

static void end_kept(struct ag_ui_calls *c)
{
    if (c->open_id)
        buf_puts(&c->messages, "]}");
    c->open_id = 0;
}

void ag_ui_calls_add(struct ag_ui_calls *c, const char *task_id, uint32_t id,
                     const struct face_event *e)
{
    if (c->messages.len >= KEPT_BYTES)
        return;
    if (c->open_id == id) {
        buf_putc(&c->messages, ',');
    } else {
        end_kept(c);
        begin_kept(c, task_id, id, STR("assistant"));
        js_put_key(&c->messages, "toolCalls");
        buf_putc(&c->messages, '[');
    }
    c->open_id = id;
    ag_ui_put_call(&c->messages, task_id, e);
}

void ag_ui_calls_add_result(struct ag_ui_calls *c, const char *task_id, uint32_t id,
                            const struct face_event *e)
{
    if (c->messages.len >= KEPT_BYTES)
        return;
    end_kept(c);
    begin_kept(c, task_id, id, STR("tool"));
    ag_ui_put_call_id(&c->messages, "toolCallId", task_id, e);
    ag_ui_put_as_text(&c->messages, "content", e, "output", "");
    buf_putc(&c->messages, '}');
}

struct str ag_ui_calls_messages(struct ag_ui_calls *c)
{
    end_kept(c);
    return buf_str(&c->messages);
}

void ag_ui_calls_done(struct ag_ui_calls *c)
{
    buf_done(&c->messages);
}
