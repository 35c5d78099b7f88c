/* Tasks, their messages and artifacts, and errors, in A2A's form (its ProtoJSON). */
#include <stdio.h>
#include <time.h>

#include "proto/faces/a2a.h"
#include "proto/str.h"

static const char *const state_names[N_A2A_STATES] = {
    "UNSPECIFIED", "SUBMITTED", "WORKING", "INPUT_REQUIRED", "COMPLETED", "FAILED", "CANCELED",
};
#define STATE_PREFIX "TASK_STATE_"

bool a2a_state_read(struct str name, enum a2a_state *ret)
{
    char full[40];
    for (int i = 0; i < N_A2A_STATES; i++) {
        snprintf(full, sizeof full, STATE_PREFIX "%s", state_names[i]);
        if (!str_eq(name, str_of(full)))
            continue;
        *ret = (enum a2a_state)i;
        return true;
    }
    return false;
}

/* --- times ------------------------------------------------------------------------------------ */

static bool take_char(struct str *rest, char c)
{
    if (rest->n == 0 || rest->p[0] != c)
        return false;
    *rest = str_from(*rest, 1);
    return true;
}

static bool take_digits(struct str *rest, size_t n, int *ret)
{
    *ret = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == rest->n || !is_digit(rest->p[i]))
            return false;
        *ret = *ret * 10 + (rest->p[i] - '0');
    }
    *rest = str_from(*rest, n);
    return true;
}

/* Further digits than those of milliseconds are passed over. */
static void take_fraction(struct str *rest, int *ret_ms)
{
    *ret_ms = 0;
    if (!take_char(rest, '.'))
        return;
    for (int unit = 100; rest->n > 0 && is_digit(rest->p[0]); unit /= 10) {
        *ret_ms += unit * (rest->p[0] - '0');
        *rest = str_from(*rest, 1);
    }
}

/* Z, or +01:30. */
static bool take_offset(struct str *rest, int *ret_minutes)
{
    int hours, minutes;
    *ret_minutes = 0;
    if (take_char(rest, 'Z'))
        return true;
    int sign = take_char(rest, '-') ? -1 : 1;
    if (sign > 0 && !take_char(rest, '+'))
        return false;
    if (!take_digits(rest, 2, &hours) || !take_char(rest, ':') || !take_digits(rest, 2, &minutes))
        return false;
    *ret_minutes = sign * (hours * 60 + minutes);
    return true;
}

bool a2a_time_read(struct str text, int64_t *ret_ms)
{
    static const char behind[] = {'-', '-', 'T', ':', ':'};
    struct tm tm = {0};
    int *const numbers[] = {&tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                            &tm.tm_hour, &tm.tm_min, &tm.tm_sec};
    int ms, offset_minutes;
    for (size_t i = 0; i < countof(numbers); i++)
        if (!take_digits(&text, i == 0 ? 4 : 2, numbers[i]) ||
            (i < countof(behind) && !take_char(&text, behind[i])))
            return false;
    take_fraction(&text, &ms);
    if (!take_offset(&text, &offset_minutes) || text.n > 0)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    *ret_ms = ((int64_t)timegm(&tm) - offset_minutes * 60) * 1000 + ms;
    return true;
}

/* --- tasks ------------------------------------------------------------------------------------ */

static void put_id(struct buf *out, const char *key, const struct a2a_task *task)
{
    js_put_key(out, key);
    buf_putc(out, '"');
    exchange_put_id(out, task->conversation_id, task->task_id);
    buf_putc(out, '"');
}

void a2a_put_status(struct buf *out, const struct a2a_task *task)
{
    js_put_key(out, "status");
    buf_putf(out, "{\"state\":\"" STATE_PREFIX "%s\"", state_names[task->state]);
    face_put_time(out, "timestamp", task->at);
    if (task->message.n)
        js_put_raw(out, "message", task->message);
    buf_putc(out, '}');
}

void a2a_put_text_parts(struct buf *out, struct str text)
{
    js_put_key(out, "parts");
    buf_puts(out, "[{");
    js_put_field(out, "text", text);
    buf_puts(out, "}]");
}

void a2a_put_artifact(struct buf *out, struct str text)
{
    js_put_raw(out, "artifact", STR("{\"artifactId\":\"answer\",\"name\":\"answer\""));
    a2a_put_text_parts(out, text);
    buf_putc(out, '}');
}

void a2a_put_file(struct buf *out, struct str base, struct str conversation_id,
                  const struct face_event *e)
{
    buf_putc(out, '{');
    face_copy(out, "artifactId", e, "file_id", STR("\"\""));
    face_copy(out, "name", e, "name", STR("\"\""));
    js_put_raw(out, "parts", STR("[{"));
    face_put_file_url(out, "url", base, conversation_id, e);
    face_copy(out, "filename", e, "name", STR("\"\""));
    face_copy(out, "mediaType", e, "media_type", STR("\"\""));
    js_put_raw(out, "metadata", STR("{"));
    face_copy(out, "size", e, "size", STR("null"));
    face_copy(out, "sha256", e, "sha256", STR("null"));
    buf_puts(out, "}}]}");
}

void a2a_put_message(struct buf *out, const struct a2a_task *task, uint64_t n, bool of_user,
                     struct str text, struct str data)
{
    buf_puts(out, "{\"messageId\":\"");
    buf_putstr(out, task->task_id);
    buf_putf(out, "-%llu\"", (unsigned long long)n);
    js_put_field(out, "contextId", task->conversation_id);
    put_id(out, "taskId", task);
    js_put_field(out, "role", of_user ? STR("ROLE_USER") : STR("ROLE_AGENT"));
    js_put_key(out, "parts");
    buf_puts(out, "[{");
    js_put_field(out, "text", text.p ? text : STR(""));
    if (data.p) {
        buf_puts(out, "},{");
        js_put_raw(out, "data", data);
    }
    buf_puts(out, "}]}");
}

void a2a_put_task(struct buf *out, const struct a2a_task *task)
{
    buf_putc(out, '{');
    put_id(out, "id", task);
    js_put_field(out, "contextId", task->conversation_id);
    a2a_put_status(out, task);
    if (task->text.p || task->files.n)
        js_put_raw(out, "artifacts", STR("["));
    if (task->text.p) {
        buf_puts(out, "{\"artifactId\":\"answer\",\"name\":\"answer\"");
        a2a_put_text_parts(out, task->text);
        buf_puts(out, task->files.n ? "}," : "}");
    }
    buf_putstr(out, task->files);
    if (task->text.p || task->files.n)
        buf_putc(out, ']');
    if (task->history.n) {
        js_put_key(out, "history");
        buf_putc(out, '[');
        buf_putstr(out, task->history);
        buf_putc(out, ']');
    }
    if (task->metadata.n)
        js_put_raw(out, "metadata", task->metadata);
    buf_putc(out, '}');
}

static enum a2a_state a2a_state_of(const struct js_doc *doc, uint32_t task)
{
    static const struct {
        const char *status;
        enum a2a_state state;
    } states[] = {{"pending", A2A_SUBMITTED},
                  {"running", A2A_WORKING},
                  {"completed", A2A_COMPLETED},
                  {"failed", A2A_FAILED},
                  {"cancelled", A2A_CANCELED}};
    uint32_t status = js_get(doc, task, "status"), asks = js_get(doc, task, "waiting_for");
    for (size_t i = 0; i < countof(states); i++)
        if (status && js_is(doc, status, states[i].status))
            return states[i].state == A2A_WORKING && asks && js_type(doc, asks) == JS_STRING
                       ? A2A_INPUT_REQUIRED
                       : states[i].state;
    return A2A_UNSPECIFIED;
}

static int64_t time_of(const struct js_doc *doc, uint32_t task)
{
    static const char *const members[] = {"completed_at", "started_at", "created_at"};
    for (size_t i = 0; i < countof(members); i++) {
        int64_t ms = 0;
        uint32_t at = js_get(doc, task, members[i]);
        if (at && js_type(doc, at) == JS_NUMBER && js_int(doc, at, &ms))
            return ms;
    }
    return 0;
}

/* A string member, unescaped into memory, which has room for it. */
static struct str text_of(const struct js_doc *doc, uint32_t object, const char *member,
                          struct buf *memory)
{
    uint32_t at = object && js_type(doc, object) == JS_OBJECT ? js_get(doc, object, member) : 0;
    if (!at || js_type(doc, at) != JS_STRING)
        return STR_NULL;
    size_t begin = memory->len;
    js_value(doc, at, memory);
    return (struct str){memory->bytes + begin, memory->len - begin};
}

void a2a_put_why(struct buf *out, const struct a2a_task *task, uint64_t n, const struct js_doc *doc,
                 uint32_t object)
{
    uint32_t error = js_get(doc, object, "error");
    uint32_t why = error && js_type(doc, error) == JS_OBJECT ? js_get(doc, error, "message") : 0;
    struct buf text = {0};
    if (why && js_type(doc, why) == JS_STRING) {
        js_value(doc, why, &text);
        a2a_put_message(out, task, n, false, buf_str(&text), STR_NULL);
    }
    buf_done(&text);
}

/* A task has one of both, or none. */
void a2a_put_outcome(struct buf *out, const struct js_doc *doc, uint32_t object)
{
    uint32_t result = js_get(doc, object, "result"), error = js_get(doc, object, "error");
    bool has_error = error && js_type(doc, error) != JS_NULL;
    uint32_t at = has_error ? error : result;
    if (!at || js_type(doc, at) == JS_NULL)
        return;
    buf_putc(out, '{');
    js_put_key(out, has_error ? "error" : "result");
    js_copy(doc, at, out);
    buf_putc(out, '}');
}

void a2a_task_read(const struct js_doc *doc, uint32_t task, struct buf *memory,
                   struct a2a_task *ret)
{
    size_t len = js_raw(doc, task).n;
    buf_clear(memory);
    buf_reserve(memory, 4 * len + 1024); /* the spans into it stay valid */
    *ret = (struct a2a_task){.state = a2a_state_of(doc, task), .at = time_of(doc, task)};
    ret->task_id = text_of(doc, task, "task_id", memory);
    ret->conversation_id = text_of(doc, task, "conversation_id", memory);
    ret->text = text_of(doc, task, "output", memory);
    int64_t head = 0;
    uint32_t at = js_get(doc, task, "head");
    if (at && js_type(doc, at) == JS_NUMBER && !js_int(doc, at, &head))
        head = 0;
    size_t begin = memory->len;
    if (ret->state == A2A_FAILED || ret->state == A2A_CANCELED)
        a2a_put_why(memory, ret, (uint64_t)head, doc, task);
    ret->message = (struct str){memory->bytes + begin, memory->len - begin};
    begin = memory->len;
    a2a_put_outcome(memory, doc, task);
    ret->metadata = (struct str){memory->bytes + begin, memory->len - begin};
}

/* --- results and errors ----------------------------------------------------------------------- */

static const struct fault_row {
    int code, status;
    const char *name, *reason;
} faults[] = {[A2A_NONE] = {0},
#define X(name, code, status, status_name, reason) [name] = {code, status, status_name, reason},
              A2A_FAULT_TABLE(X)
#undef X
};

static void begin_envelope(struct buf *out, struct str rpc_id)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    buf_putstr(out, rpc_id.n ? rpc_id : STR("null"));
}

void a2a_begin_result(struct buf *out, const struct a2a_request *r)
{
    if (!r->is_rpc)
        return;
    begin_envelope(out, r->rpc_id);
    buf_puts(out, ",\"result\":");
}

void a2a_end_result(struct buf *out, const struct a2a_request *r)
{
    if (r->is_rpc)
        buf_putc(out, '}');
}

static void put_reason(struct buf *out, const char *key, const struct fault_row *row)
{
    if (!row->reason)
        return;
    js_put_key(out, key);
    buf_puts(out, "[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\"");
    js_put_field(out, "reason", str_of(row->reason));
    buf_puts(out, ",\"domain\":\"a2a-protocol.org\"}]");
}

static void put_rpc_fault(struct buf *out, struct str rpc_id, enum a2a_fault fault,
                          const char *message)
{
    begin_envelope(out, rpc_id);
    buf_puts(out, ",\"error\":{");
    js_put_int(out, "code", faults[fault].code);
    js_put_field(out, "message", str_of(message));
    put_reason(out, "data", &faults[fault]);
    buf_puts(out, "}}");
}

static void put_rest_fault(struct buf *out, enum a2a_fault fault, const char *message)
{
    buf_puts(out, "{\"error\":{");
    js_put_int(out, "code", faults[fault].status);
    js_put_field(out, "status", str_of(faults[fault].name));
    js_put_field(out, "message", str_of(message));
    put_reason(out, "details", &faults[fault]);
    buf_puts(out, "}}");
}

void a2a_put_rpc_error(struct buf *out, enum error e, const char *message)
{
    put_rpc_fault(out, STR_NULL, a2a_fault_of(e), message);
}

void a2a_put_rest_error(struct buf *out, enum error e, const char *message)
{
    put_rest_fault(out, a2a_fault_of(e), message);
}

/* JSON-RPC has its own codes, and HTTP's status only concerns the transport. */
enum face_next a2a_fail(struct face_exchange *x, enum a2a_fault fault, const char *message)
{
    const struct a2a_request *r = x->state;
    buf_clear(&x->reply);
    if (r->is_rpc)
        put_rpc_fault(&x->reply, r->rpc_id, fault, message);
    else
        put_rest_fault(&x->reply, fault, message);
    x->status = r->is_rpc && faults[fault].code != -32000 ? 200 : faults[fault].status;
    return FACE_REPLY;
}

enum face_next a2a_fail_line(struct face_exchange *x, enum error e, struct str line,
                             struct js_doc *doc)
{
    struct buf message = {0};
    exchange_put_why(&message, line, doc);
    enum face_next next = a2a_fail(x, a2a_fault_of(e), message.bytes);
    buf_done(&message);
    return next;
}

enum a2a_fault a2a_fault_of(enum error e)
{
    switch (e) {
    case ERR_BAD_REQUEST: return A2A_PARAMS;
    case ERR_UNAUTHORIZED: return A2A_UNAUTHENTICATED;
    case ERR_NOT_FOUND: return A2A_NOT_FOUND;
    case ERR_CONFLICT:
    case ERR_OUT_OF_RANGE:
    case ERR_TASK_TERMINATED:
    case ERR_NO_INBOX:
    case ERR_UNSUPPORTED: return A2A_UNSUPPORTED;
    case ERR_TOO_LARGE: return A2A_TOO_LARGE;
    case ERR_RATE_LIMITED: return A2A_TOO_MANY;
    case ERR_OVERLOADED: return A2A_UNAVAILABLE;
    default: return A2A_INTERNAL;
    }
}
