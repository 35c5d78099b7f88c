#include "proto/mcp/mcp_content.h"

#include "proto/forms/say.h"

#define HEAD (48 * 1024)
#define TAIL (MCP_OUTPUT - HEAD)

static const char *const task_words[] = {"working", "input_required", "completed", "failed",
                                         "cancelled"};

static uint32_t object_of(const struct js_doc *doc, uint32_t object, const char *key)
{
    uint32_t node = say_member(doc, object, key);
    return node && js_type(doc, node) == JS_OBJECT ? node : 0;
}

static uint32_t content_text(const struct js_doc *doc, uint32_t object, const char *key)
{
    uint32_t node = say_member(doc, object, key);
    return node && js_type(doc, node) == JS_STRING ? node : 0;
}

enum mcp_outcome mcp_outcome_of(const struct js_doc *doc, uint32_t result)
{
    if (!js_get(doc, result, "resultType"))
        return object_of(doc, result, "task") ? MCP_TASK : MCP_COMPLETE;
    if (say_is(doc, result, "resultType", "complete"))
        return MCP_COMPLETE;
    if (say_is(doc, result, "resultType", "input_required"))
        return MCP_INPUT;
    return say_is(doc, result, "resultType", "task") ? MCP_TASK : MCP_STRANGE;
}

void mcp_task_read(const struct js_doc *doc, uint32_t result, struct mcp_task *ret)
{
    uint32_t inner = object_of(doc, result, "task"), at = inner ? inner : result;
    uint32_t poll = js_get(doc, at, "pollIntervalMs");
    *ret = (struct mcp_task){.status = MCP_TASK_STRANGE,
                             .id = content_text(doc, at, "taskId"),
                             .message = content_text(doc, at, "statusMessage"),
                             .inputs = object_of(doc, at, "inputRequests"),
                             .result = object_of(doc, at, "result"),
                             .error = object_of(doc, at, "error")};
    poll = poll ? poll : js_get(doc, at, "pollInterval");
    if (!poll || !js_int(doc, poll, &ret->poll_ms) || ret->poll_ms < 0)
        ret->poll_ms = 0;
    for (size_t i = 0; i < countof(task_words); i++)
        if (say_is(doc, at, "status", task_words[i]))
            ret->status = (enum mcp_task_status)i;
}

/* --- content ---------------------------------------------------------------------------------- */

static void put_size(struct buf *out, size_t bytes)
{
    if (bytes < 1024)
        buf_putf(out, "%zu bytes", bytes);
    else
        buf_putf(out, "%zu KiB", (bytes + 512) / 1024);
}

static void put_type(const struct js_doc *doc, uint32_t part, struct buf *out)
{
    uint32_t type = content_text(doc, part, "mimeType");
    if (type)
        js_value(doc, type, out);
    else
        buf_puts(out, "unknown type");
}

/* "[image: image/png, 4 KiB]": the bytes themselves are of no use to a model as text. */
static void put_bytes(const struct js_doc *doc, uint32_t part, const char *what, const char *member,
                      struct buf *out)
{
    uint32_t data = content_text(doc, part, member);
    struct str base64 = data ? js_raw(doc, data) : STR("");
    while (base64.n && base64.p[base64.n - 1] == '=')
        base64.n--;
    buf_putf(out, "[%s: ", what);
    put_type(doc, part, out);
    buf_puts(out, ", ");
    put_size(out, base64.n * 3 / 4);
    buf_putc(out, ']');
}

static void put_link(const struct js_doc *doc, uint32_t part, struct buf *out)
{
    uint32_t name = content_text(doc, part, "name"), uri = content_text(doc, part, "uri"),
             told = content_text(doc, part, "description");
    buf_puts(out, "[link: ");
    if (name)
        js_value(doc, name, out);
    buf_puts(out, " <");
    if (uri)
        js_value(doc, uri, out);
    buf_puts(out, ">, ");
    put_type(doc, part, out);
    buf_putc(out, ']');
    if (told) {
        buf_putc(out, ' ');
        js_value(doc, told, out);
    }
}

static void put_resource(const struct js_doc *doc, uint32_t part, struct buf *out)
{
    uint32_t resource = object_of(doc, part, "resource");
    uint32_t uri = content_text(doc, resource, "uri"), text = content_text(doc, resource, "text");
    if (!resource) {
        buf_puts(out, "[resource without content]");
        return;
    }
    if (!text) {
        put_bytes(doc, resource, "resource", "blob", out);
    } else {
        buf_puts(out, "[resource: ");
        put_type(doc, resource, out);
        buf_putc(out, ']');
    }
    if (uri) {
        buf_puts(out, " <");
        js_value(doc, uri, out);
        buf_putc(out, '>');
    }
    if (text) {
        buf_putc(out, '\n');
        js_value(doc, text, out);
    }
}

static void put_part(const struct js_doc *doc, uint32_t part, struct buf *out)
{
    uint32_t text = content_text(doc, part, "text");
    if (say_is(doc, part, "type", "text") && text) {
        js_value(doc, text, out);
    } else if (say_is(doc, part, "type", "image") || say_is(doc, part, "type", "audio")) {
        put_bytes(doc, part, say_is(doc, part, "type", "image") ? "image" : "audio", "data", out);
    } else if (say_is(doc, part, "type", "resource_link")) {
        put_link(doc, part, out);
    } else if (say_is(doc, part, "type", "resource")) {
        put_resource(doc, part, out);
    } else {
        buf_puts(out, "[content of a type that is not known]");
    }
}

bool mcp_content_put(const struct js_doc *doc, uint32_t result, struct buf *out)
{
    uint32_t content = js_get(doc, result, "content"), failed = js_get(doc, result, "isError"),
             structured = js_get(doc, result, "structuredContent");
    size_t begin = out->len;
    bool has_text = false, first = true;
    if (content && js_type(doc, content) == JS_ARRAY) {
        for (uint32_t i = js_first(doc, content); i < js_end(doc, content); i = js_next(doc, i)) {
            if (js_type(doc, i) != JS_OBJECT)
                continue;
            if (!first)
                buf_putc(out, '\n');
            first = false;
            put_part(doc, i, out);
            has_text |= say_is(doc, i, "type", "text");
        }
    }
    if (!has_text && structured) { /* otherwise the text repeats it */
        if (out->len > begin)
            buf_putc(out, '\n');
        js_copy(doc, structured, out);
    }
    return !(failed && js_type(doc, failed) == JS_TRUE);
}

void mcp_output_cut(struct buf *text)
{
    struct buf whole = *text;
    if (whole.len <= MCP_OUTPUT)
        return;
    size_t head = utf8_cut(buf_str(&whole), HEAD), tail = whole.len - TAIL;
    while (tail < whole.len && (whole.bytes[tail] & 0xC0) == 0x80)
        tail++;
    *text = (struct buf){0};
    buf_put(text, whole.bytes, head);
    buf_putf(text, "\n[%zu bytes are left out]\n", tail - head);
    buf_put(text, whole.bytes + tail, whole.len - tail);
    buf_done(&whole);
}
