#include "gateway/agents/react_say.h"

void react_say_usage(struct teller *t, const struct model_usage *usage)
{
    struct buf data = {0};
    buf_puts(&data, "{\"usage\":{");
    js_put_int(&data, "prompt_tokens", usage->prompt_tokens);
    js_put_int(&data, "completion_tokens", usage->completion_tokens);
    js_put_int(&data, "total_tokens", usage->prompt_tokens + usage->completion_tokens);
    buf_puts(&data, "}}");
    teller_result(t, buf_str(&data));
    buf_done(&data);
}

/* {"event_type":"…","payload":{ and open. */
static void say_begin(struct teller *t, const char *type)
{
    teller_begin(t);
    js_put_field(&t->data, "event_type", str_of(type));
    js_put_raw(&t->data, "payload", STR("{"));
}

static void say_end(struct teller *t)
{
    buf_putc(&t->data, '}');
    teller_tell(t, EVENT_CUSTOM, STR_NULL);
}

void react_say_shortened(struct teller *t, size_t messages, size_t bytes, size_t context_bytes)
{
    say_begin(t, "history_shortened");
    js_put_int(&t->data, "messages", (int64_t)messages);
    js_put_int(&t->data, "bytes", (int64_t)bytes);
    js_put_int(&t->data, "context_bytes", (int64_t)context_bytes);
    say_end(t);
}

void react_say_fallback(struct teller *t, const struct model *from, const struct model *to)
{
    say_begin(t, "model_fallback");
    js_put_field(&t->data, "from", str_of(from->name));
    js_put_field(&t->data, "to", str_of(to->name));
    say_end(t);
}
