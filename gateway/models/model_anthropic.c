#include "gateway/models/model_anthropic.h"

#include <stdio.h>
#include <stdlib.h>

#define TURN_MAGIC 0x616e7468u

/* A content block that comes in pieces. */
struct block {
    bool open, is_text;
    struct buf members; /* what its start has, without what deltas add to */
    struct buf text, thinking, signature, input, citations;
    struct buf id; /* of a call */
};

struct model_turn {
    unsigned magic;
    struct model_stream stream;
    struct block block;
    struct buf bad; /* ids of calls whose input is not JSON, each with a newline */
    struct buf id;  /* of the message, "" until it came */
    char stop[48];  /* stop_reason, "" until it came */
    struct buf why; /* its explanation; "" for none */
};

static struct model_turn *anthropic_turn(void *arg)
{
    struct model_turn *t = arg;
    ASSERT(t && t->magic == TURN_MAGIC);
    return t;
}

static struct model_turn *anthropic_turn_of(struct model_stream *s)
{
    return anthropic_turn(container_of(s, struct model_turn, stream));
}

/* --- blocks ----------------------------------------------------------------------------------- */

static void block_clear(struct block *b)
{
    struct buf *const all[] = {&b->members, &b->text,      &b->thinking, &b->signature,
                               &b->input,   &b->citations, &b->id};
    for (size_t i = 0; i < countof(all); i++)
        buf_done(all[i]);
    *b = (struct block){0};
}

/* Where a member grows; NULL: it is whole from the start. */
static struct buf *block_part(struct block *b, const struct js_doc *doc, uint32_t name)
{
    struct buf *const parts[] = {&b->text, &b->thinking, &b->signature};
    static const char *const names[] = {"text", "thinking", "signature"};
    for (size_t i = 0; i < countof(names); i++)
        if (js_is(doc, name, names[i]))
            return parts[i];
    return NULL;
}

static void block_take_member(struct block *b, const struct js_doc *doc, uint32_t name,
                              uint32_t value)
{
    struct buf *part = block_part(b, doc, name);
    if (part && js_type(doc, value) == JS_STRING) {
        js_value(doc, value, part);
    } else if (js_is(doc, name, "input") && js_type(doc, value) == JS_OBJECT) {
        if (js_first(doc, value) < js_end(doc, value))
            buf_putstr(&b->input, js_raw(doc, value));
    } else if (js_is(doc, name, "citations")) {
        struct str raw = js_raw(doc, value);
        if (js_type(doc, value) == JS_ARRAY)
            buf_put(&b->citations, raw.p + 1, raw.n - 2);
    } else {
        struct buf *m = &b->members;
        buf_puts(m, m->len ? "," : "");
        js_copy(doc, name, m);
        buf_putc(m, ':');
        js_copy(doc, value, m);
    }
}

static void block_begin(struct block *b, const struct js_doc *doc, uint32_t start)
{
    uint32_t type = js_get(doc, start, "type"), id = js_get(doc, start, "id");
    block_clear(b);
    b->open = true;
    b->is_text = type && js_type(doc, type) == JS_STRING && js_is(doc, type, "text");
    if (id && js_type(doc, id) == JS_STRING)
        js_value(doc, id, &b->id);
    for (uint32_t i = js_first(doc, start); i < js_end(doc, start); i = js_next(doc, i + 1))
        block_take_member(b, doc, i, i + 1);
}

static bool is_input(struct str text)
{
    struct js_doc doc = {0};
    bool good = js_parse(&doc, text.p, text.n, JS_AGENT) && js_type(&doc, 0) == JS_OBJECT;
    js_done(&doc);
    return good;
}

/* The members that have grown, as far as the block has them. */
static void block_put_parts(struct model_turn *t, struct buf *out)
{
    struct block *b = &t->block;
    struct str input = b->input.len ? buf_str(&b->input) : STR("{}");
    if (b->text.len)
        js_put_field(out, "text", buf_str(&b->text));
    if (b->thinking.len || b->signature.len)
        js_put_field(out, "thinking", buf_str(&b->thinking));
    if (b->signature.len)
        js_put_field(out, "signature", buf_str(&b->signature));
    if (b->citations.len) {
        js_put_raw(out, "citations", STR("["));
        buf_putstr(out, buf_str(&b->citations));
        buf_putc(out, ']');
    }
    if (b->id.len && memmem(b->members.bytes, b->members.len, "tool_use\"", 9)) {
        bool good = is_input(input);
        js_put_raw(out, "input", good ? input : STR("{}"));
        if (!good)
            buf_putf(&t->bad, "%s\n", b->id.bytes);
    }
}

/* An empty text is no block that could go back. */
static void block_end(struct model_turn *t)
{
    struct block *b = &t->block;
    struct buf json = {0};
    if (b->open && (!b->is_text || b->text.len)) {
        buf_putc(&json, '{');
        buf_putstr(&json, buf_str(&b->members));
        block_put_parts(t, &json);
        buf_putc(&json, '}');
        model_stream_item(&t->stream, ITEM_LAST, buf_str(&json));
    }
    buf_done(&json);
    block_clear(b);
}

static void take_block_start(struct model_turn *t)
{
    struct model_stream *s = &t->stream;
    uint32_t start = model_stream_find(s, 0, "content_block", JS_OBJECT);
    block_end(t);
    if (!start || s->done)
        return;
    block_begin(&t->block, &s->doc, start);
    model_stream_piece(s, PIECE_THINKING, js_get(&s->doc, start, "thinking"));
    if (t->block.is_text)
        model_stream_piece(s, PIECE_TOKEN, js_get(&s->doc, start, "text"));
}

static void add_text(struct model_stream *s, uint32_t delta, const char *name, struct buf *to)
{
    uint32_t node = model_stream_find(s, delta, name, JS_STRING);
    if (node)
        js_value(&s->doc, node, to);
}

static void take_block_delta(struct model_turn *t)
{
    struct model_stream *s = &t->stream;
    struct block *b = &t->block;
    uint32_t delta = model_stream_find(s, 0, "delta", JS_OBJECT);
    uint32_t citation = delta ? model_stream_find(s, delta, "citation", JS_OBJECT) : 0;
    if (!delta || !b->open)
        return;
    add_text(s, delta, "text", &b->text);
    add_text(s, delta, "thinking", &b->thinking);
    add_text(s, delta, "signature", &b->signature);
    add_text(s, delta, "partial_json", &b->input);
    if (citation) {
        buf_puts(&b->citations, b->citations.len ? "," : "");
        buf_putstr(&b->citations, js_raw(&s->doc, citation));
    }
    if (b->text.len + b->thinking.len + b->signature.len + b->input.len + b->citations.len >
        STREAM_REPLY_BYTES) {
        model_stream_fail(s, "an answer exceeds 4 MiB");
        return;
    }
    model_stream_piece(s, PIECE_THINKING, js_get(&s->doc, delta, "thinking"));
    if (b->is_text)
        model_stream_piece(s, PIECE_TOKEN, js_get(&s->doc, delta, "text"));
}

/* --- the message ------------------------------------------------------------------------------ */

/* Counts are totals so far; the last one that is told stands. */
static void anthropic_take_usage(struct model_stream *s, uint32_t object)
{
    uint32_t usage = model_stream_find(s, object, "usage", JS_OBJECT);
    if (!usage)
        return;
    int64_t read = model_stream_count(s, usage, "cache_read_input_tokens");
    int64_t in = read + model_stream_count(s, usage, "input_tokens") +
                 model_stream_count(s, usage, "cache_creation_input_tokens");
    int64_t out = model_stream_count(s, usage, "output_tokens");
    s->has_usage = true;
    if (in >= s->usage.prompt_tokens) {
        s->usage.prompt_tokens = in;
        s->usage.cached_tokens = read;
    }
    if (out)
        s->usage.completion_tokens = out;
}

static void take_stop(struct model_turn *t, uint32_t object)
{
    struct model_stream *s = &t->stream;
    uint32_t node = model_stream_find(s, object, "stop_reason", JS_STRING);
    struct buf text = {0};
    if (node)
        js_value(&s->doc, node, &text);
    if (text.len)
        snprintf(t->stop, sizeof t->stop, "%.*s", (int)utf8_cut(buf_str(&text), sizeof t->stop - 1),
                 text.bytes);
    buf_done(&text);
    uint32_t details = model_stream_find(s, object, "stop_details", JS_OBJECT);
    buf_clear(&t->why);
    if (details)
        add_text(s, details, "explanation", &t->why);
}

/* A proxy that asks a second server in mid-answer begins another message: what was said belongs to
 * two answers then, and the calls of the first one may lack their ends. */
static void take_message_start(struct model_turn *t)
{
    struct model_stream *s = &t->stream;
    uint32_t message = model_stream_find(s, 0, "message", JS_OBJECT);
    struct buf id = {0};
    if (!message)
        return;
    add_text(s, message, "id", &id);
    anthropic_take_usage(s, message);
    if (t->id.len && id.len && !str_eq(buf_str(&t->id), buf_str(&id)))
        model_stream_fail(s, "the answer broke off, and another one began");
    buf_done(&t->id);
    t->id = id;
}

static void take_message_delta(struct model_turn *t)
{
    uint32_t delta = model_stream_find(&t->stream, 0, "delta", JS_OBJECT);
    anthropic_take_usage(&t->stream, 0);
    if (delta)
        take_stop(t, delta);
}

static void anthropic_end(struct model_turn *t)
{
    struct model_stream *s = &t->stream;
    struct buf why = {0};
    block_end(t);
    if (openai_put_fault(t->stop, &why))
        model_stream_fail(s, "%s%s%s", why.bytes, t->why.len ? ": " : "",
                          t->why.len ? t->why.bytes : "");
    else
        model_stream_finish(s);
    buf_done(&why);
}

static void anthropic_take_error(struct model_turn *t)
{
    model_stream_complain(&t->stream, 0);
}

static const struct {
    const char *type;
    void (*take)(struct model_turn *t);
} takers[] = {
    {"message_start", take_message_start},     {"content_block_start", take_block_start},
    {"content_block_delta", take_block_delta}, {"content_block_stop", block_end},
    {"message_delta", take_message_delta},     {"message_stop", anthropic_end},
    {"error", anthropic_take_error},
};

static void anthropic_take(struct model_stream *s, struct str type)
{
    struct model_turn *t = anthropic_turn_of(s);
    for (size_t i = 0; i < countof(takers); i++)
        if (str_eq(type, str_of(takers[i].type)))
            takers[i].take(t);
}

static void anthropic_take_whole(struct model_stream *s)
{
    struct model_turn *t = anthropic_turn_of(s);
    uint32_t content = model_stream_find(s, 0, "content", JS_ARRAY);
    if (!content) {
        model_stream_complain(s, 0);
        return;
    }
    anthropic_take_usage(s, 0);
    take_stop(t, 0);
    for (uint32_t i = js_first(&s->doc, content); i < js_end(&s->doc, content) && !s->done;
         i = js_next(&s->doc, i)) {
        if (js_type(&s->doc, i) != JS_OBJECT)
            continue;
        block_begin(&t->block, &s->doc, i);
        model_stream_piece(s, PIECE_THINKING, js_get(&s->doc, i, "thinking"));
        if (t->block.is_text)
            model_stream_piece(s, PIECE_TOKEN, js_get(&s->doc, i, "text"));
        block_end(t);
    }
    if (!s->done)
        anthropic_end(t);
}

/* --- calls ------------------------------------------------------------------------------------ */

static bool is_bad(const struct model_turn *t, struct str id)
{
    struct buf line = {0};
    buf_putstr(&line, id);
    buf_putc(&line, '\n');
    bool found = t->bad.len && memmem(t->bad.bytes, t->bad.len, line.bytes, line.len);
    buf_done(&line);
    return found;
}

/* Input that was not JSON is a call that nobody can make: its mistake is told to the model. */
static size_t anthropic_tell_calls(struct model_stream *s)
{
    struct model_turn *t = anthropic_turn_of(s);
    size_t n = 0;
    for (uint32_t i = js_first(&s->doc, 0); i < js_end(&s->doc, 0); i = js_next(&s->doc, i)) {
        struct buf id = {0}, name = {0};
        uint32_t type = model_stream_find(s, i, "type", JS_STRING);
        uint32_t input = model_stream_find(s, i, "input", JS_OBJECT);
        if (!type || !js_is(&s->doc, type, "tool_use"))
            continue;
        add_text(s, i, "id", &id);
        add_text(s, i, "name", &name);
        struct str arguments = input ? js_raw(&s->doc, input) : STR("{}");
        if (is_bad(t, buf_str(&id)))
            arguments = STR("{");
        s->events.on_tool_call(s->user, &(struct model_call){.id = buf_str(&id),
                                                             .name = buf_str(&name),
                                                             .arguments = arguments});
        n++;
        buf_done(&id);
        buf_done(&name);
    }
    return n;
}

static void anthropic_forget(struct model_stream *s)
{
    struct model_turn *t = anthropic_turn_of(s);
    block_clear(&t->block);
    buf_clear(&t->bad);
    buf_clear(&t->id);
    buf_clear(&t->why);
    t->stop[0] = '\0';
}

/* --- the port --------------------------------------------------------------------------------- */

static const struct stream_api anthropic_api = {
    .name = "anthropic",
    .take = anthropic_take,
    .take_whole = anthropic_take_whole,
    .tell_calls = anthropic_tell_calls,
    .forget = anthropic_forget,
};

static struct model_turn *anthropic_start(void *settings, const struct model_request *request,
                                          const struct model_events *events, void *user,
                                          char *ret_error)
{
    struct stream_settings *s = settings;
    struct buf body = {0};
    if (!anthropic_put_request(s, request, &body)) {
        snprintf(ret_error, 256, "the messages are not a JSON array");
        return NULL;
    }
    struct model_turn *t = xcalloc(sizeof *t);
    t->magic = TURN_MAGIC;
    t->stream = (struct model_stream){
        .api = &anthropic_api, .settings = s, .events = *events, .user = user, .request = body};
    model_stream_begin(&t->stream, request);
    return t;
}

static void anthropic_unpause(struct model_turn *turn)
{
    model_stream_unpause(&anthropic_turn(turn)->stream);
}

static void anthropic_free(struct model_turn *turn)
{
    if (!turn)
        return;
    struct model_turn *t = anthropic_turn(turn);
    model_stream_done(&t->stream);
    block_clear(&t->block);
    buf_done(&t->bad);
    buf_done(&t->id);
    buf_done(&t->why);
    t->magic = 0;
    free(t);
}

const struct model_ops model_anthropic_ops = {
    .kind = "anthropic",
    .start = anthropic_start,
    .unpause = anthropic_unpause,
    .free = anthropic_free,
};
