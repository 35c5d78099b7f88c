/* The items of a response that are no text. */
#include <stdlib.h>

#include "proto/faces/responses_stream.h"
#include "proto/str.h"

/* --- calls of tools --------------------------------------------------------------------------- */

/* output and error are complete members. */
static void put_call_item(struct responses_stream *s, struct buf *out, const struct open_call *call,
                          const char *status, struct str result)
{
    buf_putf(out, "{\"id\":\"mcp_%s_%u\",\"type\":\"mcp_call\"", s->task_id, call->index);
    js_put_field(out, "status", str_of(status));
    buf_putc(out, ',');
    buf_puts(out, call->call);
    buf_putstr(out, result);
    buf_putc(out, '}');
}

static void put_call_state(struct responses_stream *s, const char *type, uint32_t index,
                           const struct face_sink *to)
{
    struct buf *out = responses_begin_event(s, type);
    buf_putf(out, ",\"item_id\":\"mcp_%s_%u\",\"output_index\":%u", s->task_id, index, index);
    responses_put_event(s, to);
}

/* There, the arguments are a string of JSON. */
static void put_arguments(struct buf *out, const struct face_event *e)
{
    struct buf json = {0};
    uint32_t at = js_get(e->doc, 0, "arguments");
    if (at)
        js_copy(e->doc, at, &json);
    js_put_field(out, "arguments", buf_str(&json));
    buf_done(&json);
}

static void end_call(struct responses_stream *s, size_t at, const char *status, struct str result,
                     const struct face_sink *to)
{
    struct open_call call = s->calls[at];
    struct buf *out = responses_begin_event(s, "response.output_item.done");
    js_put_int(out, "output_index", call.index);
    js_put_key(out, "item");
    size_t begin = out->len;
    put_call_item(s, out, &call, status, result);
    responses_output_add(&s->output, str_from(buf_str(out), begin), 0);
    responses_put_event(s, to);
    s->n_calls--;
    memmove(s->calls + at, s->calls + at + 1, (s->n_calls - at) * sizeof call);
    s->call_bytes -= strlen(call.call);
    free(call.id);
    free(call.call);
}

#define NO_RESULT STR(",\"output\":null,\"error\":null")

static void begin_call(struct responses_stream *s, const struct face_event *e,
                       const struct face_sink *to)
{
    struct buf json = {0};
    face_copy(&json, "name", e, "name", STR("\"\""));
    put_arguments(&json, e);
    js_put_field(&json, "server_label", STR("holdfast"));
    buf_putc(&json, 0);
    while (s->n_calls == MOST_CALLS || (s->n_calls && s->call_bytes + json.len > MAX_OUTPUT))
        end_call(s, 0, "incomplete", NO_RESULT, to);
    struct str id = face_text(e, "call_id", &s->scratch);
    struct open_call *call = &s->calls[s->n_calls++];
    *call = (struct open_call){
        .index = s->n_items++, .id = xstrdup(id.p ? id : STR("")), .call = buf_take(&json)};
    s->call_bytes += strlen(call->call);
    struct buf *out = responses_begin_event(s, "response.output_item.added");
    js_put_int(out, "output_index", call->index);
    js_put_key(out, "item");
    put_call_item(s, out, call, "in_progress", NO_RESULT);
    responses_put_event(s, to);
    put_call_state(s, "response.mcp_call.in_progress", call->index, to);
}

static size_t find_call(struct responses_stream *s, const struct face_event *e)
{
    struct str id = face_text(e, "call_id", &s->scratch);
    size_t at = 0;
    while (at < s->n_calls && !str_eq(str_of(s->calls[at].id), id))
        at++;
    return at;
}

void responses_tool_call(struct responses_stream *s, const struct face_event *e,
                         const struct face_sink *to)
{
    responses_end_run(s, to);
    begin_call(s, e, to);
}

/* A result without a known call brings its call along. */
void responses_tool_result(struct responses_stream *s, const struct face_event *e,
                           const struct face_sink *to)
{
    bool is_bad = face_is_true(e, "is_error");
    responses_end_run(s, to);
    size_t at = find_call(s, e);
    if (at == s->n_calls) {
        begin_call(s, e, to);
        at = s->n_calls - 1;
    }
    struct buf result = {0};
    buf_puts(&result, is_bad ? ",\"output\":null" : "");
    if (is_bad) {
        buf_puts(&result, ",\"error\":{\"type\":\"mcp_tool_execution_error\"");
        face_copy(&result, "content", e, "output", STR("\"\""));
        buf_putc(&result, '}');
    } else {
        buf_puts(&result, ",\"output\":");
        struct str output = face_text(e, "output", &s->scratch);
        js_put_str(&result, output.p ? output : STR(""));
        buf_puts(&result, ",\"error\":null");
    }
    put_call_state(s, is_bad ? "response.mcp_call.failed" : "response.mcp_call.completed",
                   s->calls[at].index, to);
    end_call(s, at, is_bad ? "failed" : "completed", buf_str(&result), to);
    buf_done(&result);
}

/* --- approvals -------------------------------------------------------------------------------- */

/* A question for a text has no place there. The item is complete at once; the answer comes with a
 * create, and the stream continues. */
void responses_input_required(struct responses_stream *s, const struct face_event *e,
                              const struct face_sink *to)
{
    struct buf item = {0}, id = {0};
    if (!face_asks_yes_or_no(e))
        return;
    responses_end_run(s, to);
    responses_put_approval_id(&id, face_text(e, "input_id", &s->scratch));
    buf_putc(&item, '{');
    js_put_field(&item, "id", buf_str(&id));
    js_put_field(&item, "type", STR("mcp_approval_request"));
    face_copy(&item, "name", e, "tool", STR("\"\""));
    put_arguments(&item, e);
    js_put_field(&item, "server_label", STR("holdfast"));
    face_copy(&item, "prompt", e, "prompt", STR("null"));
    buf_putc(&item, '}');
    static const char *const types[] = {"response.output_item.added", "response.output_item.done"};
    for (size_t i = 0; i < countof(types); i++) {
        struct buf *out = responses_begin_event(s, types[i]);
        js_put_int(out, "output_index", s->n_items);
        js_put_raw(out, "item", buf_str(&item));
        responses_put_event(s, to);
    }
    s->n_items++;
    responses_output_add(&s->output, buf_str(&item), 0);
    s->waits = true;
    buf_done(&item);
    buf_done(&id);
}

void responses_end_calls(struct responses_stream *s, const struct face_sink *to)
{
    while (s->n_calls)
        end_call(s, 0, "incomplete", NO_RESULT, to);
}

void responses_free_calls(struct responses_stream *s)
{
    for (size_t i = 0; i < s->n_calls; i++) {
        free(s->calls[i].id);
        free(s->calls[i].call);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

/* As the files of OpenAI's own tools: a citation with the container, which is the conversation. */
static void put_citation(struct buf *out, const struct responses_stream *s,
                         const struct face_event *e)
{
    buf_puts(out, "{\"type\":\"container_file_citation\"");
    js_put_field(out, "container_id", str_of(s->conversation_id));
    face_copy(out, "file_id", e, "file_id", STR("\"\""));
    face_copy(out, "filename", e, "name", STR("\"\""));
    js_put_int(out, "start_index", 0);
    js_put_int(out, "end_index", 0);
    face_copy(out, "media_type", e, "media_type", STR("null"));
    face_copy(out, "size", e, "size", STR("null"));
    buf_putc(out, '}');
}

static struct buf *begin_of_file(struct responses_stream *s, const char *type, bool is_item)
{
    struct buf *out = responses_begin_event(s, type);
    if (!is_item)
        buf_putf(out, ",\"item_id\":\"msg_%s_%u\"", s->task_id, s->n_items);
    js_put_int(out, "output_index", s->n_items);
    if (!is_item)
        js_put_int(out, "content_index", 0);
    return out;
}

static void put_cited(struct buf *out, struct str citation)
{
    buf_puts(out, "{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[");
    buf_putstr(out, citation);
    buf_puts(out, "],\"logprobs\":[]}");
}

static void put_file_part(struct buf *out, struct str citation)
{
    js_put_key(out, "part");
    put_cited(out, citation);
}

static void put_file_item(struct responses_stream *s, struct buf *out, const char *status,
                          struct str citation)
{
    buf_putf(out, "{\"id\":\"msg_%s_%u\",\"type\":\"message\",\"role\":\"assistant\"", s->task_id,
             s->n_items);
    js_put_field(out, "status", str_of(status));
    js_put_raw(out, "content", STR("["));
    if (citation.n)
        put_cited(out, citation);
    buf_puts(out, "]}");
}

void responses_file(struct responses_stream *s, const struct face_event *e,
                    const struct face_sink *to)
{
    struct buf citation = {0}, item = {0};
    responses_end_run(s, to);
    put_citation(&citation, s, e);
    struct buf *out = begin_of_file(s, "response.output_item.added", true);
    js_put_key(out, "item");
    put_file_item(s, out, "in_progress", STR_NULL);
    responses_put_event(s, to);
    put_file_part(begin_of_file(s, "response.content_part.added", false), STR_NULL);
    responses_put_event(s, to);
    out = begin_of_file(s, "response.output_text.annotation.added", false);
    js_put_int(out, "annotation_index", 0);
    js_put_raw(out, "annotation", buf_str(&citation));
    responses_put_event(s, to);
    out = begin_of_file(s, "response.output_text.done", false);
    buf_puts(out, ",\"text\":\"\",\"logprobs\":[]");
    responses_put_event(s, to);
    put_file_part(begin_of_file(s, "response.content_part.done", false), buf_str(&citation));
    responses_put_event(s, to);
    put_file_item(s, &item, "completed", buf_str(&citation));
    js_put_raw(begin_of_file(s, "response.output_item.done", true), "item", buf_str(&item));
    responses_output_add(&s->output, buf_str(&item), 0);
    responses_put_event(s, to);
    s->n_items++;
    buf_done(&citation);
    buf_done(&item);
}
