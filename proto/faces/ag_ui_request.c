#include "proto/faces/ag_ui.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/faces/face_parts.h"
#include "proto/str.h"
#include "proto/ulid.h"

/* Design. AG-UI's client keeps the thread itself and posts all of its messages: the last one is the
 * question, and those before it are context for the agent. Spans are collected as offsets into one
 * buffer, because it moves while it grows. */

struct reader {
    const struct js_doc *doc;
    struct ag_ui_request *r;
    struct buf *memory;
    char *why; /* of 128 bytes */
};

static bool refuse_input(struct reader *in, const char *why)
{
    snprintf(in->why, 128, "%s", why);
    return false;
}

static uint32_t input_member(const struct js_doc *d, uint32_t object, const char *key,
                             enum js_type type)
{
    uint32_t at = js_type(d, object) == JS_OBJECT ? js_get(d, object, key) : 0;
    return at && js_type(d, at) == type ? at : 0;
}

/* The bytes put since begin, as an offset that fix_spans turns into a span; the 1 keeps it from
 * NULL. */
static struct str since(const struct reader *in, size_t begin)
{
    return (struct str){(const char *)(begin + 1), in->memory->len - begin};
}

static void fix_spans(struct ag_ui_request *r, const struct buf *memory)
{
    struct str *spans[] = {&r->thread_id, &r->run_id,     &r->resume,  &r->message,
                           &r->parts,     &r->context,    &r->history, &r->record,
                           &r->thread,    &r->message_id, &r->follows};
    for (size_t i = 0; i < countof(spans); i++)
        if (spans[i]->p)
            spans[i]->p = memory->bytes + (size_t)spans[i]->p - 1;
}

static bool read_string(struct reader *in, const char *key, struct str *ret)
{
    uint32_t at = input_member(in->doc, 0, key, JS_STRING);
    size_t begin = in->memory->len;
    if (!at)
        return false;
    js_value(in->doc, at, in->memory);
    *ret = since(in, begin);
    return true;
}

static bool refuse_file(struct reader *in, const char *what)
{
    char why[128];
    snprintf(why, sizeof why, "a part that is no text %s", what);
    return refuse_input(in, why);
}

/* --- messages --------------------------------------------------------------------------------- */

/* A part with a source, or one of before 1.0 (binary).  NULL, or what is wrong. */
static const char *ag_ui_read_file(const struct js_doc *d, uint32_t part, struct face_parts *parts)
{
    uint32_t source = input_member(d, part, "source", JS_OBJECT), at = source ? source : part;
    uint32_t url = input_member(d, at, "url", JS_STRING);
    uint32_t data = input_member(d, at, "data", JS_STRING);
    uint32_t type = input_member(d, at, "mimeType", JS_STRING);
    uint32_t kind = source ? input_member(d, source, "type", JS_STRING) : 0;
    uint32_t value = source ? input_member(d, source, "value", JS_STRING) : 0;
    uint32_t name = input_member(d, part, "filename", JS_STRING);
    if (kind && js_is(d, kind, "url"))
        url = value;
    else if (kind && js_is(d, kind, "data"))
        data = value;
    return url ? face_parts_url(parts, d, url, name) : face_parts_data(parts, d, data, type, name);
}

/* The text of a message's content, a string or an array of parts, whose texts are joined by
 * newlines; and its parts, when that is not NULL.  NULL, or what is wrong with a part. */
static const char *ag_ui_put_content(const struct js_doc *d, uint32_t message, struct buf *out,
                                     struct face_parts *parts)
{
    uint32_t content = js_get(d, message, "content");
    const char *wrong = NULL;
    size_t begin = out->len;
    if (content && js_type(d, content) == JS_STRING)
        js_value(d, content, out);
    if (!content || js_type(d, content) != JS_ARRAY)
        return NULL;
    for (uint32_t i = js_first(d, content); i < js_end(d, content); i = js_next(d, i)) {
        uint32_t text = input_member(d, i, "text", JS_STRING);
        if (parts && text)
            face_parts_text(parts, d, text);
        else if (parts && !wrong)
            wrong = ag_ui_read_file(d, i, parts);
        if (text && out->len > begin)
            buf_putc(out, '\n');
        if (text)
            js_value(d, text, out);
    }
    return wrong;
}

/* The role in chat's `context`; NULL for what an agent does not get: tool calls, thoughts. */
static const char *context_role(const struct js_doc *d, uint32_t message)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    uint32_t role = input_member(d, message, "role", JS_STRING);
    for (size_t i = 0; role && i < countof(roles); i++)
        if (js_is(d, role, roles[i]))
            return roles[i];
    return NULL;
}

static void put_role(struct buf *out, const char *role, struct str content)
{
    buf_putc(out, '{');
    js_put_field(out, "role", str_of(role));
    js_put_field(out, "content", content);
    buf_putc(out, '}');
}

/* AG-UI's own context, the page's description of itself, as one message in front. */
static void put_ambient(const struct js_doc *d, struct buf *out)
{
    struct buf text = {0};
    uint32_t context = input_member(d, 0, "context", JS_ARRAY);
    for (uint32_t i = context ? js_first(d, context) : 0; context && i < js_end(d, context);
         i = js_next(d, i)) {
        uint32_t what = input_member(d, i, "description", JS_STRING);
        uint32_t value = input_member(d, i, "value", JS_STRING);
        if (!what || !value)
            continue;
        if (text.len)
            buf_putc(&text, '\n');
        js_value(d, what, &text);
        buf_puts(&text, ": ");
        js_value(d, value, &text);
    }
    if (text.len)
        put_role(out, "system", buf_str(&text));
    buf_done(&text);
}

/* One message in the form of chat's `context`; nothing when the agent does not get it. */
static void put_told(const struct js_doc *d, uint32_t message, struct buf *out)
{
    struct buf content = {0};
    const char *role = context_role(d, message);
    (void)ag_ui_put_content(d, message, &content, NULL);
    if (role && content.len)
        put_role(out, role, buf_str(&content));
    buf_done(&content);
}

/* As much of the messages before the question as an agent may get, the newest of them. */
static void read_context(struct reader *in, uint32_t messages, uint32_t last)
{
    const struct js_doc *d = in->doc;
    struct buf one = {0};
    size_t begin = in->memory->len, total;
    put_ambient(d, &one);
    total = one.len + 2;
    buf_putc(in->memory, '[');
    if (total <= MAX_HISTORY)
        buf_putstr(in->memory, buf_str(&one));
    for (uint32_t i = js_first(d, messages); i < last; i = js_next(d, i)) {
        buf_clear(&one);
        put_told(d, i, &one);
        total += one.len + 1;
    }
    for (uint32_t i = js_first(d, messages); i < last; i = js_next(d, i)) {
        buf_clear(&one);
        put_told(d, i, &one);
        if (one.len && total <= MAX_HISTORY) {
            buf_puts(in->memory, in->memory->bytes[in->memory->len - 1] == '[' ? "" : ",");
            buf_putstr(in->memory, buf_str(&one));
        } else {
            total -= one.len + 1;
        }
    }
    buf_putc(in->memory, ']');
    if (in->memory->len - begin > 2)
        in->r->context = since(in, begin);
    buf_done(&one);
}

/* The client's own messages up to the question, in case one has to be taken back. */
static void read_history(struct reader *in, uint32_t messages, uint32_t last)
{
    const struct js_doc *d = in->doc;
    size_t begin = in->memory->len;
    buf_putc(in->memory, '[');
    for (uint32_t i = js_first(d, messages); i <= last; i = js_next(d, i)) {
        if (i != js_first(d, messages))
            buf_putc(in->memory, ',');
        js_copy(d, i, in->memory);
    }
    buf_putc(in->memory, ']');
    in->r->history = since(in, begin);
    if (in->r->history.n > MAX_HISTORY)
        in->r->history = STR_NULL;
}

/* The last message; 0 when there is none, or it is malformed. Sets the last one of the user. */
static uint32_t last_message(const struct js_doc *d, uint32_t messages, uint32_t *ret_question)
{
    uint32_t last = 0;
    *ret_question = 0;
    for (uint32_t i = js_first(d, messages); i < js_end(d, messages); i = js_next(d, i)) {
        uint32_t role = input_member(d, i, "role", JS_STRING);
        if (!role)
            return 0;
        if (js_is(d, role, "user"))
            *ret_question = i;
        last = i;
    }
    return last;
}

/* An id of the gateway's: of a message, or one that begins with a task's. */
static bool is_own_id(struct str id)
{
    bool is_long = id.n > TASK_ID_LEN;
    return id.n >= TASK_ID_LEN && (!is_long || id.p[TASK_ID_LEN] == '-') &&
           ulid_is_valid((struct str){id.p, TASK_ID_LEN});
}

bool ag_ui_edits(const struct ag_ui_request *r)
{
    return r->message_id.n == TASK_ID_LEN && is_own_id(r->message_id);
}

/* Where the question stands among the client's messages. What an answer consists of besides its
 * text (tools' results, thoughts) has the task's id as well. */
static void read_place_of(struct reader *in, uint32_t messages, uint32_t question)
{
    const struct js_doc *d = in->doc;
    uint32_t before = 0, id = input_member(d, question, "id", JS_STRING);
    size_t begin = in->memory->len;
    for (uint32_t i = js_first(d, messages); i < question; i = js_next(d, i))
        before = i;
    in->r->is_lone = !before;
    if (id && js_raw(d, id).n <= MAX_NAME) {
        js_value(d, id, in->memory);
        in->r->message_id = since(in, begin);
    }
    begin = in->memory->len;
    uint32_t role = before ? input_member(d, before, "role", JS_STRING) : 0;
    id = before ? input_member(d, before, "id", JS_STRING) : 0;
    if (!id || js_is(d, role, "user") || !is_own_id(js_raw(d, id)))
        return;
    buf_put(in->memory, js_raw(d, id).p, TASK_ID_LEN);
    in->r->follows = since(in, begin);
}

static bool read_messages(struct reader *in)
{
    uint32_t messages = input_member(in->doc, 0, "messages", JS_ARRAY), question;
    if (!messages)
        return refuse_input(in, "\"messages\" must be an array");
    uint32_t last = last_message(in->doc, messages, &question);
    if (question)
        read_history(in, messages, question);
    if (in->r->resume.p)
        return true;
    if (!last || question != last)
        return refuse_input(in, "\"messages\" must end in a message of the role \"user\"");
    read_context(in, messages, last);
    read_place_of(in, messages, last);
    struct face_parts parts = {0};
    size_t begin = in->memory->len;
    const char *wrong = ag_ui_put_content(in->doc, last, in->memory, &parts);
    in->r->message = since(in, begin);
    begin = in->memory->len;
    face_parts_end(&parts, in->memory);
    if (parts.has_file)
        in->r->parts = since(in, begin);
    face_parts_done(&parts);
    if (wrong)
        return refuse_file(in, wrong);
    return in->r->message.n > 0 || in->r->parts.p ||
           refuse_input(in, "the last message has no text");
}

/* --- the input -------------------------------------------------------------------------------- */

static bool read_resume(struct reader *in)
{
    const struct js_doc *d = in->doc;
    uint32_t resume = input_member(d, 0, "resume", JS_ARRAY);
    size_t begin = in->memory->len;
    if (!resume || js_first(d, resume) >= js_end(d, resume))
        return true;
    for (uint32_t i = js_first(d, resume); i < js_end(d, resume); i = js_next(d, i)) {
        uint32_t status = input_member(d, i, "status", JS_STRING);
        if (!input_member(d, i, "interruptId", JS_STRING) || !status ||
            !(js_is(d, status, "resolved") || js_is(d, status, "cancelled")))
            return refuse_input(in,
                                "each of \"resume\" must have an \"interruptId\", and \"status\" "
                                "\"resolved\" or \"cancelled\"");
    }
    js_copy(d, resume, in->memory);
    in->r->resume = since(in, begin);
    return true;
}

static bool read_input(struct reader *in)
{
    const struct js_doc *d = in->doc;
    uint32_t tools = input_member(d, 0, "tools", JS_ARRAY);
    in->r->is_before_1_0 = !input_member(d, 0, "protocolVersion", JS_STRING);
    if (!read_string(in, "threadId", &in->r->thread_id))
        return refuse_input(in, "\"threadId\" must be a string");
    if (!read_string(in, "runId", &in->r->run_id) || in->r->run_id.n == 0 || in->r->run_id.n > 128)
        return refuse_input(in, "\"runId\" must be a string of 1 to 128 bytes");
    if (tools && js_first(d, tools) < js_end(d, tools))
        return refuse_input(in,
                            "\"tools\" must be empty: this gateway runs no tools of the client");
    return read_resume(in) && read_messages(in);
}

bool ag_ui_read(struct js_doc *doc, struct str json, struct ag_ui_request *ret, struct buf *memory,
                char why[128])
{
    *ret = (struct ag_ui_request){0};
    struct reader in = {.doc = doc, .r = ret, .memory = memory, .why = why};
    if (!js_parse(doc, json.p, json.n, JS_CLIENT)) {
        snprintf(why, 128, "not JSON: %s", doc->error);
        return false;
    }
    if (js_type(doc, 0) != JS_OBJECT)
        return refuse_input(&in, "not a JSON object");
    bool good = read_input(&in);
    fix_spans(ret, memory);
    return good;
}

/* --- a thread that is stored ------------------------------------------------------------------ */

/* Whether this is the answer of the task whose events come next. */
static bool is_answer_of(const struct js_doc *d, uint32_t message, const char *task_id)
{
    uint32_t role = input_member(d, message, "role", JS_STRING);
    uint32_t task = input_member(d, message, "task_id", JS_STRING);
    return task && role && js_is(d, role, "assistant") && js_is(d, task, task_id);
}

/* Messages in AG-UI's form; without this task's answer, unless the id is "". */
static struct str read_thread(struct reader *in, uint32_t messages, const char *task_id)
{
    const struct js_doc *d = in->doc;
    struct buf *out = in->memory;
    size_t begin = out->len;
    buf_putc(out, '[');
    for (uint32_t i = messages ? js_first(d, messages) : 0; messages && i < js_end(d, messages);
         i = js_next(d, i)) {
        uint32_t id = input_member(d, i, "message_id", JS_STRING);
        uint32_t role = input_member(d, i, "role", JS_STRING);
        uint32_t content = input_member(d, i, "content", JS_STRING);
        if (!id || !role || !content || is_answer_of(d, i, task_id))
            continue;
        buf_puts(out, out->len > begin + 1 ? ",{" : "{");
        js_put_key(out, "id");
        js_copy(d, id, out);
        js_put_key(out, "role");
        js_copy(d, role, out);
        js_put_key(out, "content");
        js_copy(d, content, out);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    return since(in, begin);
}

void ag_ui_read_record(const struct js_doc *doc, uint32_t task, struct ag_ui_request *ret,
                       struct buf *memory)
{
    const struct reader in = {.doc = doc, .memory = memory};
    size_t begin = memory->len;
    js_copy(doc, task, memory);
    ret->record = since(&in, begin);
}

void ag_ui_read_history(struct js_doc *doc, struct str line, struct ag_ui_request *ret,
                        struct buf *memory)
{
    struct reader in = {.doc = doc, .r = ret, .memory = memory};
    bool good = js_parse(doc, line.p, line.n, JS_OURS);
    uint32_t messages = good ? input_member(doc, 0, "messages", JS_ARRAY) : 0;
    ret->history = read_thread(&in, messages, ret->task_id);
    if (ret->record.p)
        ret->thread = read_thread(&in, messages, "");
    fix_spans(ret, memory);
}

/* --- places and answers ----------------------------------------------------------------------- */

/* Digits up to 2^53-1, without a leading zero. */
static size_t read_number(struct str text, uint64_t *ret)
{
    size_t n = 0;
    *ret = 0;
    while (n < text.n && n < 16 && is_digit(text.p[n]))
        *ret = *ret * 10 + (uint64_t)(text.p[n++] - '0');
    return n > 0 && (text.p[0] != '0' || n == 1) && *ret <= MAX_SAFE_INTEGER ? n : 0;
}

/* `task.seq`, and the rest in ret_rest: nothing, or something after a dot. */
static bool read_place(struct str text, char ret_task_id[TASK_ID_LEN + 1], uint64_t *ret_seq,
                       struct str *ret_rest)
{
    struct str id = {text.p, TASK_ID_LEN};
    ret_task_id[0] = 0;
    if (text.n < TASK_ID_LEN + 2 || !ulid_is_valid(id) || text.p[TASK_ID_LEN] != '.')
        return false;
    text = str_from(text, TASK_ID_LEN + 1);
    size_t n = read_number(text, ret_seq);
    *ret_rest = str_from(text, n);
    if (n == 0 || (ret_rest->n > 0 && (ret_rest->p[0] != '.' || ret_rest->n == 1)))
        return false;
    memcpy(ret_task_id, id.p, TASK_ID_LEN);
    ret_task_id[TASK_ID_LEN] = 0;
    return true;
}

bool ag_ui_read_id(struct str id, struct ag_ui_request *ret)
{
    struct str rest;
    uint64_t n = 0;
    if (!read_place(id, ret->task_id, &ret->known.seq, &rest))
        return false;
    if (rest.n > 0 && (read_number(str_from(rest, 1), &n) != rest.n - 1 || n > UINT32_MAX))
        return false;
    ret->known.n = (uint32_t)n;
    return true;
}

/* true, false or a string unchanged; from an object `approved` or `answer`; anything else as
 * text. */
static void put_answer(const struct js_doc *d, uint32_t payload, struct buf *out)
{
    uint32_t inner = 0;
    if (payload && js_type(d, payload) == JS_OBJECT) {
        inner = js_get(d, payload, "approved");
        inner = inner ? inner : js_get(d, payload, "answer");
    }
    uint32_t at = inner ? inner : payload;
    enum js_type type = at ? js_type(d, at) : JS_TRUE;
    if (!at) {
        buf_puts(out, "true"); /* resolved, and no more is needed */
    } else if (type == JS_TRUE || type == JS_FALSE || type == JS_STRING) {
        js_copy(d, at, out);
    } else {
        struct buf text = {0};
        js_copy(d, at, &text);
        js_put_str(out, buf_str(&text));
        buf_done(&text);
    }
}

bool ag_ui_answer(const struct ag_ui_request *r, struct js_doc *doc, uint32_t n,
                  struct ag_ui_answer *ret)
{
    struct buf id = {0};
    struct str rest = STR("");
    *ret = (struct ag_ui_answer){0};
    if (!js_parse(doc, r->resume.p, r->resume.n, JS_OURS))
        return false;
    uint32_t at = js_first(doc, 0);
    for (; at < js_end(doc, 0) && n > 0; n--)
        at = js_next(doc, at);
    if (at >= js_end(doc, 0))
        return false;
    js_value(doc, js_get(doc, at, "interruptId"), &id);
    bool ours = read_place(buf_str(&id), ret->task_id, &ret->seq, &rest) && rest.n > 1;
    buf_putstr(&ret->input_id, ours ? str_from(rest, 1) : STR("none"));
    if (!ours)
        ret->task_id[0] = 0;
    buf_done(&id);
    ret->is_cancelled = js_is(doc, js_get(doc, at, "status"), "cancelled");
    if (ret->is_cancelled)
        buf_puts(&ret->answer, "false");
    else
        put_answer(doc, js_get(doc, at, "payload"), &ret->answer);
    return true;
}

void ag_ui_answer_done(struct ag_ui_answer *a)
{
    buf_done(&a->input_id);
    buf_done(&a->answer);
}
