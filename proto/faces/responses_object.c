/* The Response object and its id. Members that OpenAI's clients expect are in every response; those
 * that the gateway does not have are null. */
#include <inttypes.h>

#include "proto/base64url.h"
#include "proto/faces/responses.h"
#include "proto/str.h"

#define PREFIX "resp_"
#define APPROVAL_PREFIX "mcpr_"

void responses_put_id(struct buf *out, struct str conversation_id, struct str task_id)
{
    buf_puts(out, PREFIX);
    exchange_put_id(out, conversation_id, task_id);
}

bool responses_read_id(struct str id, struct buf *conversation_id, struct buf *task_id)
{
    struct str task;
    if (!str_begins(id, STR(PREFIX)) ||
        !exchange_read_id(str_from(id, strlen(PREFIX)), conversation_id, &task))
        return false;
    buf_putstr(task_id, task);
    return true;
}

void responses_put_approval_id(struct buf *out, struct str input_id)
{
    buf_puts(out, APPROVAL_PREFIX);
    base64url_put(out, input_id.p, input_id.n);
}

bool responses_read_approval_id(struct str id, struct buf *input_id)
{
    return str_begins(id, STR(APPROVAL_PREFIX)) &&
           base64url_read(str_from(id, strlen(APPROVAL_PREFIX)), input_id);
}

/* OpenAI's metadata has only strings; a task's has any JSON. */
static void put_metadata(struct buf *out, const struct response *r)
{
    struct str given = r->metadata.n > 2 ? r->metadata : STR("{}");
    js_put_key(out, "metadata");
    buf_put(out, given.p, given.n - 1);
    if (r->output_is_cut)
        js_put_field(out, "output_truncated", STR("true"));
    buf_putc(out, '}');
}

static void put_ending(struct buf *out, const struct response *r)
{
    js_put_key(out, "error");
    if (r->error.p) {
        buf_putc(out, '{');
        js_put_field(out, "code", STR("server_error"));
        js_put_field(out, "message", r->error);
        buf_putc(out, '}');
    } else {
        buf_puts(out, "null");
    }
    bool was_cancelled = strcmp(r->status, "cancelled") == 0;
    js_put_raw(out, "incomplete_details",
               was_cancelled ? STR("{\"reason\":\"cancelled\"}") : STR("null"));
    js_put_raw(out, "usage", r->usage.n ? r->usage : STR("null"));
    if (r->completed_ms)
        js_put_int(out, "completed_at", r->completed_ms / 1000);
}

void responses_put(struct buf *out, const struct response *r)
{
    struct buf id = {0};
    responses_put_id(&id, r->conversation_id, r->task_id);
    buf_putc(out, '{');
    js_put_field(out, "id", buf_str(&id));
    buf_done(&id);
    js_put_field(out, "object", STR("response"));
    js_put_int(out, "created_at", r->created_ms / 1000);
    js_put_field(out, "status", str_of(r->status));
    js_put_bool(out, "background", true);
    js_put_field(out, "model", r->agent);
    js_put_key(out, "conversation");
    buf_putc(out, '{');
    js_put_field(out, "id", r->conversation_id);
    buf_puts(out, "}");
    js_put_key(out, "output");
    buf_putc(out, '[');
    buf_putstr(out, r->output);
    buf_putc(out, ']');
    put_ending(out, r);
    put_metadata(out, r);
    js_put_raw(out, "instructions", STR("null"));
    js_put_raw(out, "previous_response_id", STR("null"));
    js_put_bool(out, "parallel_tool_calls", true);
    js_put_raw(out, "temperature", STR("null"));
    js_put_raw(out, "top_p", STR("null"));
    js_put_field(out, "tool_choice", STR("auto"));
    js_put_raw(out, "tools", STR("[]"));
    js_put_raw(out, "text", STR("{\"format\":{\"type\":\"text\"}}"));
    buf_putc(out, '}');
}

static int64_t count_of(const struct js_doc *doc, uint32_t object, const char *member)
{
    uint32_t at = js_get(doc, object, member);
    int64_t n = 0;
    return at && js_int(doc, at, &n) && n >= 0 ? n : 0;
}

void responses_put_usage(struct buf *out, const struct js_doc *doc, uint32_t result)
{
    bool is_object = result && js_type(doc, result) == JS_OBJECT;
    uint32_t usage = is_object ? js_get(doc, result, "usage") : 0;
    if (!usage || js_type(doc, usage) != JS_OBJECT)
        return;
    buf_putf(out,
             "{\"input_tokens\":%" PRId64 ",\"input_tokens_details\":{\"cached_tokens\":0},"
             "\"output_tokens\":%" PRId64 ",\"output_tokens_details\":{\"reasoning_tokens\":0},"
             "\"total_tokens\":%" PRId64 "}",
             count_of(doc, usage, "prompt_tokens"), count_of(doc, usage, "completion_tokens"),
             count_of(doc, usage, "total_tokens"));
}

/* --- from a task's record --------------------------------------------------------------------- */

static struct str raw_member(const struct js_doc *doc, uint32_t object, const char *member,
                             enum js_type type)
{
    uint32_t at = js_get(doc, object, member);
    return at && js_type(doc, at) == type ? js_raw(doc, at) : STR_NULL;
}

/* A cancel is on disk before it is answered, and it stays one, whatever the agent still says. */
static const char *status_of(const struct js_doc *doc, uint32_t task)
{
    static const char *const words[][2] = {{"completed", "completed"},
                                           {"failed", "failed"},
                                           {"cancelled", "cancelled"},
                                           {"pending", "queued"},
                                           {"running", "in_progress"}};
    uint32_t status = js_get(doc, task, "status");
    bool lives = exchange_task_lives(doc, task);
    if (lives && js_get(doc, task, "cancel_requested_at"))
        return "cancelled";
    for (size_t i = 0; status && i < countof(words); i++)
        if (js_is(doc, status, words[i][0]))
            return words[i][1];
    return "in_progress";
}

/* All that the record has of the output: one message. */
static void put_record_item(struct buf *out, const struct js_doc *doc, uint32_t task, bool is_whole)
{
    uint32_t output = js_get(doc, task, "output");
    if (!output || js_type(doc, output) != JS_STRING || js_raw(doc, output).n == 0)
        return;
    buf_puts(out, "{\"id\":\"msg_");
    buf_putstr(out, raw_member(doc, task, "task_id", JS_STRING));
    buf_putf(out,
             "\",\"type\":\"message\",\"role\":\"assistant\",\"status\":\"%s\",\"content\":[{"
             "\"type\":\"output_text\",\"text\":",
             is_whole ? "completed" : "incomplete");
    js_copy(doc, output, out);
    buf_puts(out, ",\"annotations\":[],\"logprobs\":[]}]}");
}

void responses_put_task(struct buf *out, const struct js_doc *doc, uint32_t task)
{
    struct buf output = {0}, usage = {0}, error = {0};
    struct response r = {.conversation_id = raw_member(doc, task, "conversation_id", JS_STRING),
                         .task_id = raw_member(doc, task, "task_id", JS_STRING),
                         .agent = raw_member(doc, task, "agent", JS_STRING),
                         .metadata = raw_member(doc, task, "metadata", JS_OBJECT),
                         .created_ms = count_of(doc, task, "created_at"),
                         .completed_ms = count_of(doc, task, "completed_at"),
                         .status = status_of(doc, task),
                         .output_is_cut = js_get(doc, task, "output_truncated") != 0};
    uint32_t fault = js_get(doc, task, "error");
    uint32_t message =
        fault && js_type(doc, fault) == JS_OBJECT ? js_get(doc, fault, "message") : 0;
    if (message && strcmp(r.status, "failed") == 0) {
        js_value(doc, message, &error);
        r.error = buf_str(&error);
    }
    put_record_item(&output, doc, task, strcmp(r.status, "completed") == 0);
    responses_put_usage(&usage, doc, js_get(doc, task, "result"));
    r.output = buf_str(&output);
    r.usage = buf_str(&usage);
    responses_put(out, &r);
    buf_done(&output);
    buf_done(&usage);
    buf_done(&error);
}
