#include "gateway/agents/react_tell.h"

void react_tell_usage(struct teller *t, const struct model_usage *usage)
{
    struct buf data = {0};
    buf_puts(&data, "{\"usage\":{");
    js_put_int(&data, "prompt_tokens", usage->prompt_tokens);
    js_put_int(&data, "completion_tokens", usage->completion_tokens);
    js_put_int(&data, "total_tokens", usage->prompt_tokens + usage->completion_tokens);
    if (usage->cached_tokens)
        js_put_int(&data, "cached_tokens", usage->cached_tokens);
    buf_puts(&data, "}}");
    teller_result(t, buf_str(&data));
    buf_done(&data);
}

static void begin_custom(struct teller *t, const char *type)
{
    teller_begin(t);
    js_put_field(&t->data, "event_type", str_of(type));
    js_put_raw(&t->data, "payload", STR("{"));
}

static void end_custom(struct teller *t)
{
    buf_putc(&t->data, '}');
    teller_tell(t, EVENT_CUSTOM, STR_NULL);
}

void react_tell_shortened(struct teller *t, size_t messages, size_t bytes, size_t context_bytes)
{
    begin_custom(t, "history_shortened");
    js_put_int(&t->data, "messages", (int64_t)messages);
    js_put_int(&t->data, "bytes", (int64_t)bytes);
    js_put_int(&t->data, "context_bytes", (int64_t)context_bytes);
    end_custom(t);
}

void react_tell_fallback(struct teller *t, const char *from, const char *to)
{
    begin_custom(t, "model_fallback");
    js_put_field(&t->data, "from", str_of(from));
    js_put_field(&t->data, "to", str_of(to));
    end_custom(t);
}
