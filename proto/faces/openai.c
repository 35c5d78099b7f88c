#include "proto/faces/openai.h"

#include <stdlib.h>

#include "proto/faces/face_parts.h"

/* --- errors ----------------------------------------------------------------------------------- */

static const char *type_of_status(int status)
{
    if (status >= 500)
        return "server_error";
    return status == 429 ? "rate_limit_error" : "invalid_request_error";
}

void openai_put_error(struct buf *out, int status, struct str message, struct str param,
                      struct str code)
{
    buf_puts(out, "{\"error\":{");
    js_put_field(out, "message", message);
    js_put_field(out, "type", str_of(type_of_status(status)));
    if (param.n)
        js_put_field(out, "param", param);
    else
        js_put_raw(out, "param", STR("null"));
    js_put_field(out, "code", code);
    buf_puts(out, "}}");
}

void openai_put_gateway_error(struct buf *out, enum error e, const char *message)
{
    const char *code = e == ERR_UNAUTHORIZED   ? "invalid_api_key"
                       : e == ERR_RATE_LIMITED ? "rate_limit_exceeded"
                                               : error_code(e);
    openai_put_error(out, error_status(e), str_of(message), STR_NULL, str_of(code));
}

static enum face_next openai_refuse(struct face_exchange *x, const struct openai_fault *fault)
{
    buf_clear(&x->reply);
    openai_put_error(&x->reply, fault->status, str_of(fault->message), str_of(fault->param),
                     str_of(fault->code));
    x->status = fault->status;
    return FACE_REPLY;
}

static enum face_next no_such_model(struct face_exchange *x)
{
    static const struct openai_fault fault = {.status = 404,
                                              .message = "no agent has the name of this model",
                                              .param = "model",
                                              .code = "model_not_found"};
    return openai_refuse(x, &fault);
}

/* --- models ----------------------------------------------------------------------------------- */

static void put_model(struct buf *out, struct str name)
{
    buf_puts(out, out->len && out->bytes[out->len - 1] == '}' ? ",{" : "{");
    js_put_field(out, "id", name);
    js_put_field(out, "object", STR("model"));
    js_put_int(out, "created", 0);
    js_put_field(out, "owned_by", STR("holdfast"));
    buf_putc(out, '}');
}

/* Appends those with that name, or all (STR_NULL); returns their number. */
static size_t put_models(struct buf *out, struct str agents, struct str name)
{
    struct js_doc doc = {0};
    struct buf text = {0};
    size_t n = 0;
    ASSERT(js_parse(&doc, agents.p, agents.n, JS_OURS));
    for (uint32_t i = js_first(&doc, 0); i < js_end(&doc, 0); i = js_next(&doc, i)) {
        buf_clear(&text);
        js_value(&doc, js_get(&doc, i, "name"), &text);
        if (name.p && !str_eq(name, buf_str(&text)))
            continue;
        put_model(out, buf_str(&text));
        n++;
    }
    buf_done(&text);
    js_done(&doc);
    return n;
}

static enum face_next tell_models(struct face_exchange *x, struct str agents, struct str name)
{
    buf_clear(&x->reply);
    if (!name.p)
        buf_puts(&x->reply, "{\"object\":\"list\",\"data\":[");
    size_t n = put_models(&x->reply, agents, name);
    if (name.p && n == 0)
        return no_such_model(x);
    if (!name.p)
        buf_puts(&x->reply, "]}");
    x->status = 200;
    return FACE_REPLY;
}

static bool is_model(struct str agents, struct str name)
{
    struct buf none = {0};
    size_t n = put_models(&none, agents, name);
    buf_done(&none);
    return n > 0;
}

/* --- completions ------------------------------------------------------------------------------ */

static void openai_put_chat(struct face_exchange *x, const struct openai_request *r, struct str key)
{
    struct str own = r->conversation.len ? buf_str(&r->conversation) : STR_NULL;
    struct buf *body = exchange_ask(x, VERB_CHAT, own, STR_NULL);
    face_put_message(body, buf_str(&r->message), buf_str(&r->parts));
    js_put_raw(body, "context", buf_str(&r->context));
    if (r->agent.len)
        js_put_field(body, "agent", buf_str(&r->agent));
    if (key.n)
        js_put_field(body, "request_key", key);
    if (r->metadata.len)
        js_put_raw(body, "metadata", buf_str(&r->metadata));
    js_put_bool(body, "unlisted", !own.p);
    exchange_ask_end(x);
}

static enum face_next begin_completion(struct face_exchange *x, const struct face_input *in)
{
    struct openai_request r;
    struct openai_fault fault;
    enum face_next next = FACE_FOLLOW;
    if (in->idempotency_key.n > MAX_REQUEST_KEY) {
        r = (struct openai_request){0};
        next = exchange_fail(x, ERR_BAD_REQUEST, "Idempotency-Key has more than 128 bytes");
    } else if (!openai_read(in->doc, in->body, &r, &fault)) {
        next = openai_refuse(x, &fault);
    } else if (r.agent.len && !is_model(in->agents, buf_str(&r.agent))) {
        next = no_such_model(x);
    } else {
        struct openai_options *options = xalloc(sizeof *options);
        *options = (struct openai_options){!r.stream, r.wants_usage};
        x->state = options;
        x->is_whole = !r.stream;
        openai_put_chat(x, &r, in->idempotency_key);
    }
    openai_request_done(&r);
    return next;
}

static enum face_next openai_begin(struct face_exchange *x, const struct face_input *in)
{
    x->operation = in->operation;
    if (in->operation == OPENAI_CHAT)
        return begin_completion(x, in);
    return tell_models(x, in->agents, in->operation == OPENAI_MODEL ? in->conversation : STR_NULL);
}

/* Only called for an error. */
static enum face_next openai_replied(struct face_exchange *x, enum error e, struct str line,
                                     struct js_doc *doc)
{
    return exchange_fail_line(x, e, line, doc);
}

/* A failed request is not repeated automatically: the agent would run once more. */
const struct face_http_ops openai_http_ops = {
    .stream = &openai_ops,
    .begin = openai_begin,
    .replied = openai_replied,
    .put_error = openai_put_gateway_error,
    .header = "x-should-retry:",
    .header_value = "false",
    .last = "[DONE]",
};
