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
