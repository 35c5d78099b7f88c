#include "proto/faces/ag_ui_parts.h"

#include <time.h>

void ag_ui_put_call_id(struct buf *out, const char *key, const char *task_id,
                       const struct face_event *e)
{
    struct buf id = {0}, scratch = {0};
    buf_puts(&id, task_id);
    buf_putc(&id, '-');
    buf_putstr(&id, face_text(e, "call_id", &scratch));
    js_put_field(out, key, buf_str(&id));
    buf_done(&id);
    buf_done(&scratch);
}

void ag_ui_put_as_text(struct buf *out, const char *key, const struct face_event *e,
                       const char *member, const char *fallback)
{
    struct buf scratch = {0};
    struct str text = face_text(e, member, &scratch);
    if (!text.p && face_has(e, member)) {
        js_copy(e->doc, js_get(e->doc, 0, member), &scratch);
        text = buf_str(&scratch);
    }
    js_put_field(out, key, text.p ? text : str_of(fallback));
    buf_done(&scratch);
}

void ag_ui_put_call(struct buf *out, const char *task_id, const struct face_event *e)
{
    buf_putc(out, '{');
    ag_ui_put_call_id(out, "id", task_id, e);
    js_put_field(out, "type", STR("function"));
    js_put_key(out, "function");
    buf_putc(out, '{');
    face_copy(out, "name", e, "name", STR("\"\""));
    ag_ui_put_as_text(out, "arguments", e, "arguments", "{}");
    buf_puts(out, "}}");
}

/* --- questions -------------------------------------------------------------------------------- */

/* Unix ms in the format of RFC 3339. */
static void put_expiry(struct buf *out, const struct face_event *e)
{
    int64_t ms;
    uint32_t at = js_get(e->doc, 0, "expires_at");
    if (!at || !js_int(e->doc, at, &ms) || ms < 0)
        return;
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    char day[32];
    if (!gmtime_r(&seconds, &tm) || !strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm))
        return;
    js_put_key(out, "expiresAt");
    buf_putf(out, "\"%s.%03dZ\"", day, (int)(ms % 1000));
}

void ag_ui_put_question(struct buf *out, const char *task_id, const struct face_event *e)
{
    bool approval = face_asks_yes_or_no(e);
    bool of_call = approval && face_has(e, "call_id");
    js_put_field(out, "reason",
                 of_call    ? STR("tool_call")
                 : approval ? STR("confirmation")
                            : STR("input_required"));
    if (face_has(e, "prompt"))
        ag_ui_put_as_text(out, "message", e, "prompt", "");
    if (of_call)
        ag_ui_put_call_id(out, "toolCallId", task_id, e);
    js_put_raw(out, "responseSchema",
               approval ? STR("{\"type\":\"boolean\"}") : STR("{\"type\":\"string\"}"));
    put_expiry(out, e);
    js_put_key(out, "metadata");
    js_copy(e->doc, 0, out);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void put_count(struct buf *out, const char *key, const struct js_doc *d, uint32_t usage,
                      const char *member)
{
    int64_t n;
    uint32_t at = js_get(d, usage, member);
    if (at && js_int(d, at, &n) && n >= 0 && n <= MAX_SAFE_INTEGER)
        js_put_int(out, key, n);
}

void ag_ui_put_usage(struct buf *out, const struct face_event *e)
{
    const struct js_doc *d = e->doc;
    uint32_t result = js_get(d, 0, "result");
    uint32_t usage = result && js_type(d, result) == JS_OBJECT ? js_get(d, result, "usage") : 0;
    if (!usage || js_type(d, usage) != JS_OBJECT)
        return;
    js_put_key(out, "usage");
    buf_puts(out, "[{");
    put_count(out, "inputTokens", d, usage, "prompt_tokens");
    put_count(out, "outputTokens", d, usage, "completion_tokens");
    put_count(out, "totalTokens", d, usage, "total_tokens");
    buf_puts(out, "}]");
}

void ag_ui_put_error_member(struct buf *out, const char *key, const struct face_event *e,
                            const char *fallback)
{
    uint32_t error = js_get(e->doc, 0, "error");
    bool is_object = error && js_type(e->doc, error) == JS_OBJECT;
    uint32_t at = is_object ? js_get(e->doc, error, key) : 0;
    js_put_key(out, key);
    if (at && js_type(e->doc, at) == JS_STRING)
        js_copy(e->doc, at, out);
    else
        js_put_str(out, str_of(fallback));
}
