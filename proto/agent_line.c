#include "proto/agent_line.h"

#include <stdarg.h>
#include <stdio.h>

#include "proto/quote.h"
#include "proto/str.h"

/* Design.  Two tables say which members an event's data and a call have; a reader per kind checks
 * one and keeps what the struct has room for.  An optional member that is null counts as absent,
 * because serializers write their empty fields so.
 *
 * The arena is reserved once per line, so that spans stay where they are: a value needs at most
 * three bytes for each byte of its text (a broken byte becomes U+FFFD), and each is kept once. */

#define KEEP_BYTES (256 * 1024)         /* a buffer that one long line has grown further is freed */
#define LONGEST_TIMEOUT_S 10000000000.0 /* 300 years; in milliseconds still far from overflow */

enum kind {
    KIND_TEXT,
    KIND_ID,
    KIND_OBJECT,
    KIND_BOOL,
    KIND_ANY,
    KIND_PROGRESS,
    KIND_INPUT,
    KIND_OPTIONS,
    KIND_TIMEOUT
};

struct field {
    const char *name;
    enum kind kind;
    bool required;
    size_t offset; /* in struct agent_line; 0: checked, not kept */
};

#define AT(member) .offset = offsetof(struct agent_line, member)
#define REQUIRED .required = true
#define OPTIONAL .required = false

static const struct field text_fields[] = {{"text", KIND_TEXT, REQUIRED, AT(text)}};
static const struct field tool_call_fields[] = {
    {"call_id", KIND_TEXT, REQUIRED, AT(call_id)},
    {"name", KIND_TEXT, REQUIRED, AT(tool)},
    {"arguments", KIND_OBJECT, REQUIRED},
};
static const struct field tool_result_fields[] = {
    {"call_id", KIND_TEXT, REQUIRED, AT(call_id)},
    {"name", KIND_TEXT, OPTIONAL, AT(tool)},
    {"output", KIND_TEXT, REQUIRED},
    {"is_error", KIND_BOOL, OPTIONAL},
};
static const struct field progress_fields[] = {
    {"progress", KIND_PROGRESS, REQUIRED, AT(progress)},
    {"note", KIND_TEXT, OPTIONAL},
};
static const struct field input_required_fields[] = {
    {"input_id", KIND_ID, REQUIRED, AT(input_id)},
    {"kind", KIND_INPUT, REQUIRED, AT(approval)},
    {"prompt", KIND_TEXT, REQUIRED},
    {"tool", KIND_TEXT, OPTIONAL},
    {"arguments", KIND_OBJECT, OPTIONAL},
    {"options", KIND_OPTIONS, OPTIONAL, AT(option_ids)},
    {"timeout_s", KIND_TIMEOUT, OPTIONAL, AT(timeout_s)},
};
static const struct field custom_fields[] = {
    {"event_type", KIND_TEXT, REQUIRED},
    {"payload", KIND_ANY, OPTIONAL},
};
static const struct field named_fields[] = {{"name", KIND_TEXT, REQUIRED}};
static const struct field final_answer_fields[] = {
    {"output", KIND_TEXT, REQUIRED, AT(text)},
};

static const struct field title_fields[] = {{"title", KIND_TEXT, REQUIRED, AT(text)}};

static const struct field tool_fields[] = {
    {"call_id", KIND_TEXT, REQUIRED, AT(call_id)},
    {"name", KIND_TEXT, REQUIRED, AT(name)},
    {"arguments", KIND_OBJECT, REQUIRED, AT(arguments)},
};
static const struct field spawn_fields[] = {
    {"call_id", KIND_TEXT, REQUIRED, AT(call_id)},
    {"agent", KIND_TEXT, OPTIONAL, AT(agent)},
    {"input", KIND_TEXT, REQUIRED, AT(input)},
    {"name", KIND_TEXT, OPTIONAL, AT(name)},
    {"description", KIND_TEXT, OPTIONAL, AT(description)},
};
static const struct field send_fields[] = {
    {"call_id", KIND_TEXT, REQUIRED, AT(call_id)},
    {"task_id", KIND_TEXT, REQUIRED, AT(task_id)},
    {"content", KIND_TEXT, REQUIRED, AT(content)},
};
static const struct field cancel_fields[] = {
    {"call_id", KIND_TEXT, REQUIRED, AT(call_id)},
    {"task_id", KIND_TEXT, REQUIRED, AT(task_id)},
    {"tree", KIND_BOOL, OPTIONAL, AT(tree)},
};

static const struct field file_fields[] = {
    {"call_id", KIND_TEXT, REQUIRED, AT(call_id)},
    {"path", KIND_TEXT, REQUIRED, AT(path)},
    {"name", KIND_TEXT, OPTIONAL, AT(name)},
    {"media_type", KIND_TEXT, OPTIONAL, AT(media_type)},
};

struct fields {
    const struct field *fields;
    size_t n;
};
#define FIELDS(table) .fields = (table), .n = countof(table)

/* Events that an agent may send; the gateway alone sends the others. */
static const struct fields line_events[N_EVENT_TYPES] = {
    [EVENT_THINKING] = {FIELDS(text_fields)},
    [EVENT_TOKEN] = {FIELDS(text_fields)},
    [EVENT_TOOL_CALL] = {FIELDS(tool_call_fields)},
    [EVENT_TOOL_RESULT] = {FIELDS(tool_result_fields)},
    [EVENT_PROGRESS] = {FIELDS(progress_fields)},
    [EVENT_INPUT_REQUIRED] = {FIELDS(input_required_fields)},
    [EVENT_CUSTOM] = {FIELDS(custom_fields)},
    [EVENT_FINAL_ANSWER] = {FIELDS(final_answer_fields)},
};

static const struct {
    const char *name;
    enum agent_line_kind kind;
    struct fields fields;
} calls[] = {
    {"tool", LINE_TOOL, {FIELDS(tool_fields)}}, {"spawn", LINE_SPAWN, {FIELDS(spawn_fields)}},
    {"send", LINE_SEND, {FIELDS(send_fields)}}, {"cancel", LINE_CANCEL, {FIELDS(cancel_fields)}},
    {"file", LINE_FILE, {FIELDS(file_fields)}},
};

static bool says_agent(enum event_type e)
{
    switch (e) {
#define X(name, wire, agent) \
    case name: return agent;
        EVENT_TABLE(X)
#undef X
    case N_EVENT_TYPES: break;
    }
    UNREACHABLE();
}

struct decoding {
    struct agent_line_decoder *d;
    struct agent_line *to;
    const char *what; /* the event or call, for messages */
};

static bool line_fail(struct agent_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool line_fail(struct agent_line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(line->error, sizeof line->error, format, args);
    va_end(args);
    return false;
}

static bool fail_limit(struct agent_line *line, const char *what, const char *field, size_t max)
{
    line->over_limit = true;
    return line_fail(line, "%s: \"%s\" is over the limit of %zu bytes", what, field, max);
}

static struct str line_keep(struct agent_line_decoder *d, uint32_t node)
{
    const char *base = d->arena.bytes;
    size_t from = d->arena.len;
    js_value(&d->doc, node, &d->arena);
    ASSERT(d->arena.bytes == base);
    return (struct str){base + from, d->arena.len - from};
}

static struct str line_copy(struct agent_line_decoder *d, uint32_t node)
{
    js_copy(&d->doc, node, &d->json);
    return buf_str(&d->json);
}

/* --- members ---------------------------------------------------------------------------------- */

static const char *const expectations[] = {
    [KIND_TEXT] = "a string",
    [KIND_ID] = "a string of 1 to 128 bytes",
    [KIND_OBJECT] = "an object",
    [KIND_BOOL] = "true or false",
    [KIND_ANY] = "anything",
    [KIND_PROGRESS] = "a number from 0 to 1",
    [KIND_INPUT] = "approval or question",
    [KIND_OPTIONS] = "a list of at most 32 texts, or objects with an id",
    [KIND_TIMEOUT] = "a number above 0",
};

static void *member_of(struct decoding *d, const struct field *f)
{
    return (char *)d->to + f->offset;
}

static bool line_read_text(struct decoding *d, const struct field *f, uint32_t node)
{
    if (js_type(&d->d->doc, node) != JS_STRING)
        return false;
    if (f->offset)
        *(struct str *)member_of(d, f) = line_keep(d->d, node);
    return true;
}

static bool read_id(struct decoding *d, const struct field *f, uint32_t node)
{
    if (!line_read_text(d, f, node))
        return false;
    size_t n = ((struct str *)member_of(d, f))->n;
    return n >= 1 && n <= MAX_INPUT_ID;
}

static bool read_bool(struct decoding *d, const struct field *f, uint32_t node)
{
    enum js_type type = js_type(&d->d->doc, node);
    if (f->offset)
        *(bool *)member_of(d, f) = type == JS_TRUE;
    return type == JS_TRUE || type == JS_FALSE;
}

/* A text is its own id; of an object it is its member. */
static uint32_t id_of_option(const struct js_doc *doc, uint32_t option)
{
    uint32_t id = js_type(doc, option) == JS_STRING ? option : js_get(doc, option, "id");
    return id && js_type(doc, id) == JS_STRING ? id : 0;
}

/* Only approvals need them: any text answers a question.  A NUL ends an id, so none has one. */
static bool read_options(struct decoding *d, const struct field *f, uint32_t node)
{
    struct js_doc *doc = &d->d->doc;
    size_t n = 0, from = d->d->arena.len;
    if (!d->to->approval)
        return true;
    if (js_type(doc, node) != JS_ARRAY)
        return false;
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i)) {
        uint32_t id_node = id_of_option(doc, i);
        if (++n > MAX_OPTIONS || !id_node)
            return false;
        struct str id = line_keep(d->d, id_node);
        if (id.n == 0 || id.n > MAX_INPUT_ID || memchr(id.p, 0, id.n))
            return false;
        buf_putc(&d->d->arena, 0);
    }
    *(struct str *)member_of(d, f) = (struct str){d->d->arena.bytes + from, d->d->arena.len - from};
    return true;
}

static bool line_read_object(struct decoding *d, const struct field *f, uint32_t node)
{
    if (js_type(&d->d->doc, node) != JS_OBJECT)
        return false;
    if (f->offset)
        *(struct str *)member_of(d, f) = line_copy(d->d, node);
    return true;
}

static bool read_timeout(struct decoding *d, uint32_t node)
{
    double seconds;
    if (!js_double(&d->d->doc, node, &seconds) || !(seconds > 0))
        return false;
    if (seconds > LONGEST_TIMEOUT_S)
        seconds = LONGEST_TIMEOUT_S;
    int64_t whole = (int64_t)seconds;
    d->to->timeout_s = whole + ((double)whole < seconds); /* rounded up: never 0 */
    return true;
}

static bool read_member(struct decoding *d, const struct field *f, uint32_t node)
{
    const struct js_doc *doc = &d->d->doc;
    switch (f->kind) {
    case KIND_TEXT: return line_read_text(d, f, node);
    case KIND_ID: return read_id(d, f, node);
    case KIND_OBJECT: return line_read_object(d, f, node);
    case KIND_BOOL: return read_bool(d, f, node);
    case KIND_ANY: return true;
    case KIND_PROGRESS:
        return js_double(doc, node, &d->to->progress) && d->to->progress >= 0 &&
               d->to->progress <= 1;
    case KIND_INPUT:
        d->to->approval = js_is(doc, node, "approval");
        return d->to->approval || js_is(doc, node, "question");
    case KIND_OPTIONS: return read_options(d, f, node);
    case KIND_TIMEOUT: return read_timeout(d, node);
    }
    UNREACHABLE();
}

static bool read_members(struct decoding *d, uint32_t object, struct fields table)
{
    for (size_t i = 0; i < table.n; i++) {
        const struct field *f = &table.fields[i];
        uint32_t node = js_get(&d->d->doc, object, f->name);
        if (!f->required && (!node || js_type(&d->d->doc, node) == JS_NULL))
            continue;
        if (!node)
            return line_fail(d->to, "%s: \"%s\" is missing: it must be %s", d->what, f->name,
                             expectations[f->kind]);
        if (!read_member(d, f, node))
            return line_fail(d->to, "%s: \"%s\" must be %s", d->what, f->name,
                             expectations[f->kind]);
    }
    return true;
}

/* --- events and calls ------------------------------------------------------------------------- */

static void line_put_member(struct agent_line_decoder *d, uint32_t name)
{
    if (d->json.len > 1)
        buf_putc(&d->json, ',');
    js_copy(&d->doc, name, &d->json);
    buf_putc(&d->json, ':');
    js_copy(&d->doc, name + 1, &d->json);
}

/* The data in the gateway's form: timeout_s becomes expires_at, and a result gets its call's
 * name. */
static struct str copy_without(struct agent_line_decoder *d, uint32_t data, const char *a,
                               const char *b)
{
    buf_putc(&d->json, '{');
    for (uint32_t i = js_first(&d->doc, data); i < js_end(&d->doc, data);
         i = js_next(&d->doc, i + 1)) {
        if (!js_is(&d->doc, i, a) && !js_is(&d->doc, i, b))
            line_put_member(d, i);
    }
    buf_putc(&d->json, '}');
    return buf_str(&d->json);
}

/* A custom event that calls its type "name", and its payload perhaps "value" or "data", as AG-UI
 * and other libraries do, in our words; its other members stay as they are. */
static struct str copy_named(struct agent_line_decoder *d, uint32_t data)
{
    static const char *const words[] = {"payload", "value", "data"};
    uint32_t type = js_get(&d->doc, data, "name"), payload = 0;
    for (size_t i = 0; i < countof(words) && !payload; i++)
        payload = js_get(&d->doc, data, words[i]);
    buf_puts(&d->json, "{\"event_type\":");
    js_copy(&d->doc, type, &d->json);
    if (payload) {
        buf_puts(&d->json, ",\"payload\":");
        js_copy(&d->doc, payload, &d->json);
    }
    for (uint32_t i = js_first(&d->doc, data); i < js_end(&d->doc, data);
         i = js_next(&d->doc, i + 1)) {
        if (i + 1 != type && i + 1 != payload)
            line_put_member(d, i);
    }
    buf_putc(&d->json, '}');
    return buf_str(&d->json);
}

static bool decode_result(struct decoding *d, uint32_t data)
{
    d->to->kind = LINE_RESULT;
    d->to->data = line_copy(d->d, data);
    return d->to->data.n <= MAX_OUTPUT || fail_limit(d->to, d->what, "data", MAX_OUTPUT);
}

static bool decode_title(struct decoding *d, uint32_t data)
{
    static const struct fields fields = {FIELDS(title_fields)};
    d->to->kind = LINE_TITLE;
    return read_members(d, data, fields);
}

static bool decode_event(struct agent_line_decoder *d, uint32_t name, struct agent_line *line)
{
    const struct js_doc *doc = &d->doc;
    if (js_type(doc, name) != JS_STRING)
        return line_fail(line, "\"event\" must be a string");
    char quoted[QUOTE_SIZE];
    struct str raw = js_raw(doc, name);
    bool is_result = js_is(doc, name, "result"), is_title = js_is(doc, name, "title");
    if (!is_result && !is_title &&
        !event_find(doc->nodes[name].plain ? raw : line_keep(d, name), &line->event)) {
        quote_raw(raw.p, raw.p + raw.n, quoted);
        return line_fail(line, "unknown event \"%s\"", quoted);
    }
    if (!is_result && !is_title && !says_agent(line->event))
        return line_fail(line, "only the gateway makes event \"%s\"", event_name(line->event));

    struct decoding decoding = {d, line,
                                is_result  ? "result"
                                : is_title ? "title"
                                           : event_name(line->event)};
    uint32_t data = js_get(doc, 0, "data");
    if (!data || js_type(doc, data) != JS_OBJECT)
        return line_fail(line, "%s: \"data\" %s", decoding.what,
                         data ? "must be an object" : "is missing: it must be an object");
    if (is_result)
        return decode_result(&decoding, data);
    if (is_title)
        return decode_title(&decoding, data);
    line->kind = LINE_EVENT;
    bool is_named = line->event == EVENT_CUSTOM && !js_get(doc, data, "event_type") &&
                    js_get(doc, data, "name");
    if (!read_members(&decoding, data,
                      is_named ? (struct fields){FIELDS(named_fields)} : line_events[line->event]))
        return false;
    if (line->event == EVENT_FINAL_ANSWER && line->text.n > MAX_OUTPUT)
        return fail_limit(line, decoding.what, "output", MAX_OUTPUT);
    line->nameless = line->event == EVENT_TOOL_RESULT && !line->tool.p;
    if (line->event == EVENT_INPUT_REQUIRED)
        line->data = copy_without(d, data, "timeout_s", "expires_at");
    else if (line->nameless)
        line->data = copy_without(d, data, "name", "name");
    else if (is_named)
        line->data = copy_named(d, data);
    else
        line->data = line_copy(d, data);
    return true;
}

static bool decode_call(struct agent_line_decoder *d, uint32_t name, struct agent_line *line)
{
    const struct js_doc *doc = &d->doc;
    if (js_type(doc, name) != JS_STRING)
        return line_fail(line, "\"call\" must be a string");
    for (size_t i = 0; i < countof(calls); i++) {
        if (js_is(doc, name, calls[i].name)) {
            line->kind = calls[i].kind;
            return read_members(&(struct decoding){d, line, calls[i].name}, 0, calls[i].fields);
        }
    }
    char quoted[QUOTE_SIZE];
    struct str raw = js_raw(doc, name);
    quote_raw(raw.p, raw.p + raw.n, quoted);
    return line_fail(line, "unknown call \"%s\"", quoted);
}

static bool parse(struct agent_line_decoder *d, struct str text, struct agent_line *line)
{
    struct js_doc *doc = &d->doc;
    if (js_parse(doc, text.p, text.n, JS_AGENT)) {
        if (js_type(doc, 0) == JS_OBJECT)
            return true;
        return line_fail(line, "a line is not a JSON object");
    }
    char quoted[QUOTE_SIZE];
    if (doc->error == js_duplicate_key) {
        quote_raw(doc->text + doc->error_at, text.p + text.n, quoted);
        return line_fail(line, "duplicate key \"%s\"", quoted);
    }
    quote_text(text, quoted);
    return line_fail(line, "a line is not JSON (%s at byte %zu): %s", doc->error, doc->error_at,
                     quoted);
}

static void reset(struct buf *b)
{
    if (b->cap > KEEP_BYTES)
        buf_done(b);
    buf_clear(b);
}

/* Some runtimes begin their programs' output with a byte order mark. */
static struct str without_mark(struct str text)
{
    bool has_mark = text.n >= 3 && memcmp(text.p, "\xEF\xBB\xBF", 3) == 0;
    return has_mark ? (struct str){text.p + 3, text.n - 3} : text;
}

bool agent_line_decode(struct agent_line_decoder *d, struct str text, struct agent_line *ret)
{
    text = without_mark(text);
    *ret = (struct agent_line){.kind = LINE_EMPTY, .timeout_s = -1};
    if (str_is_blank(text))
        return true;
    if (!parse(d, text, ret))
        return false;
    reset(&d->arena);
    reset(&d->json);
    buf_reserve(&d->arena, text.n * 3);
    uint32_t event = js_get(&d->doc, 0, "event"), call = js_get(&d->doc, 0, "call");
    if (event)
        return decode_event(d, event, ret);
    if (call)
        return decode_call(d, call, ret);
    return line_fail(ret, "a line has neither \"event\" nor \"call\"");
}

void agent_line_done(struct agent_line_decoder *d)
{
    js_done(&d->doc);
    buf_done(&d->arena);
    buf_done(&d->json);
}
