#include "proto/errors.h"

#include "proto/js.h"

const char *error_code(enum error e)
{
    switch (e) {
    case ERR_NONE: return "none";
#define X(name, code, status) \
    case name: return code;
        ERROR_TABLE(X)
#undef X
    }
    UNREACHABLE();
}

int error_status(enum error e)
{
    switch (e) {
    case ERR_NONE: return 200;
#define X(name, code, status) \
    case name: return status;
        ERROR_TABLE(X)
#undef X
    }
    UNREACHABLE();
}

const char *task_error_code(enum task_error e)
{
    switch (e) {
    case TASK_OK: return "none";
#define X(name, code) \
    case name: return code;
        TASK_ERROR_TABLE(X)
#undef X
    }
    UNREACHABLE();
}

static const struct {
    const char *word, *text;
} reasons[] = {[MODEL_FAULT_OTHER] = {"", "the model failed"},
#define X(name, word, text) [name] = {word, text},
               MODEL_REASON_TABLE(X)
#undef X
};

const char *model_reason_word(enum model_reason reason)
{
    return reasons[reason].word;
}

const char *model_reason_text(enum model_reason reason)
{
    return reasons[reason].text;
}

#define MODEL_FAILED "agent_error: model: "

/* The word after MODEL_FAILED, or STR_NULL. */
static struct str reason_in(struct str message)
{
    size_t n = sizeof MODEL_FAILED - 1;
    if (message.n < n || memcmp(message.p, MODEL_FAILED, n) != 0)
        return STR_NULL;
    message = (struct str){message.p + n, message.n - n};
    for (size_t i = 1; i < countof(reasons); i++) {
        struct str word = str_of(reasons[i].word);
        ASSERT(word.p);
        if (message.n >= word.n + 2 && memcmp(message.p + word.n, ": ", 2) == 0 &&
            memcmp(message.p, word.p, word.n) == 0)
            return (struct str){message.p, word.n};
    }
    return STR_NULL;
}

void task_error_put(struct buf *out, enum task_error e, struct str message)
{
    struct str reason = message.p ? reason_in(message) : STR_NULL;
    struct buf text = {0};
    if (reason.p) {
        const char *rest = reason.p + reason.n + 2;
        buf_puts(&text, MODEL_FAILED);
        buf_put(&text, rest, message.n - (size_t)(rest - message.p));
        message = buf_str(&text);
    }
    buf_putc(out, '{');
    js_put_field(out, "code", str_of(task_error_code(e)));
    js_put_field(out, "message", message.p ? message : STR(""));
    if (reason.p)
        js_put_field(out, "reason", reason);
    buf_putc(out, '}');
    buf_done(&text);
}

const char *close_text(enum close_code c)
{
    switch (c) {
    case CLOSE_NONE: return "";
#define X(name, code, text) \
    case name: return text;
        CLOSE_TABLE(X)
#undef X
    }
    UNREACHABLE();
}

void error_line(struct buf *out, enum error e, struct str id, const char *message,
                msec_t retry_after_ms, int64_t head)
{
    buf_puts(out, "{\"type\":\"error\"");
    if (id.p)
        js_put_field(out, "id", id);
    js_put_field(out, "code", str_of(error_code(e)));
    js_put_field(out, "message", str_of(message));
    if (retry_after_ms == RETRY_USUAL && (e == ERR_OVERLOADED || e == ERR_RATE_LIMITED))
        retry_after_ms = ERROR_RETRY_MS;
    if (retry_after_ms >= 0)
        js_put_int(out, "retry_after_ms", retry_after_ms);
    if (head >= 0)
        js_put_int(out, "head", head);
    buf_putc(out, '}');
}
