#include "gateway/models/model_responses.h"

#include <stdio.h>
#include <stdlib.h>

#define TURN_MAGIC 0x72657370u

struct model_turn {
    unsigned magic;
    struct model_stream stream;
    uint64_t told; /* items, by deltas: bit told_bit */
};

static struct model_turn *responses_turn(void *arg)
{
    struct model_turn *t = arg;
    ASSERT(t && t->magic == TURN_MAGIC);
    return t;
}

static struct model_turn *responses_turn_of(struct model_stream *s)
{
    return responses_turn(container_of(s, struct model_turn, stream));
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* The item that an event is about, by its place in the output: some servers end one item after the
 * next one has begun, and their ids change.  ITEM_LAST: it does not say. */
static size_t item_index(const struct model_stream *s)
{
    uint32_t node = model_stream_find(s, 0, "output_index", JS_NUMBER);
    int64_t n;
    return node && js_int(&s->doc, node, &n) && n >= 0 ? (size_t)n : ITEM_LAST;
}

/* Deltas that name no place share the last bit with items far behind. */
static uint64_t told_bit(size_t index)
{
    return UINT64_C(1) << (index < 63 ? index : 63);
}

/* The deltas that an item may have had: those of its place, and those of none. */
static uint64_t told_mask(size_t index)
{
    return index == ITEM_LAST ? UINT64_MAX : told_bit(index) | told_bit(ITEM_LAST);
}

static void take_text_delta(struct model_turn *t)
{
    struct model_stream *s = &t->stream;
    t->told |= told_bit(item_index(s));
    model_stream_piece(s, PIECE_TOKEN, js_get(&s->doc, 0, "delta"));
}

static void take_thought_delta(struct model_turn *t)
{
    struct model_stream *s = &t->stream;
    t->told |= told_bit(item_index(s));
    model_stream_piece(s, PIECE_THINKING, js_get(&s->doc, 0, "delta"));
}

/* A further part of the summary is a paragraph of its own. */
static void take_thought_part(struct model_turn *t)
{
    struct model_stream *s = &t->stream;
    uint32_t index = model_stream_find(s, 0, "summary_index", JS_NUMBER);
    int64_t n;
    if (index && js_int(&s->doc, index, &n) && n > 0)
        openai_answer_thought(&s->answer, STR("\n\n"));
}

/* --- items ------------------------------------------------------------------------------------ */

static bool has_type(const struct model_stream *s, uint32_t item, const char *type)
{
    uint32_t node = model_stream_find(s, item, "type", JS_STRING);
    return node && js_is(&s->doc, node, type);
}

/* The texts of an item's parts. */
static void tell_parts(struct model_stream *s, uint32_t item, const char *name,
                       enum model_piece kind)
{
    uint32_t parts = model_stream_find(s, item, name, JS_ARRAY);
    for (uint32_t i = parts ? js_first(&s->doc, parts) : 0; parts && i < js_end(&s->doc, parts);
         i = js_next(&s->doc, i)) {
        uint32_t text = js_type(&s->doc, i) == JS_OBJECT ? js_get(&s->doc, i, "text") : 0;
        if (!text && js_type(&s->doc, i) == JS_OBJECT)
            text = js_get(&s->doc, i, "refusal");
        model_stream_piece(s, kind, text);
    }
}

/* Keeps the item, and tells it unless its deltas have. */
static void take_item(struct model_turn *t, size_t index, uint32_t item)
{
    struct model_stream *s = &t->stream;
    bool told = t->told & told_mask(index);
    if (js_type(&s->doc, item) != JS_OBJECT)
        return;
    model_stream_item(s, index, js_raw(&s->doc, item));
    if (!told && has_type(s, item, "message"))
        tell_parts(s, item, "content", PIECE_TOKEN);
    if (!told && has_type(s, item, "reasoning")) {
        tell_parts(s, item, "summary", PIECE_THINKING);
        tell_parts(s, item, "content", PIECE_THINKING);
    }
    t->told &= ~told_mask(index);
}

static void take_item_done(struct model_turn *t)
{
    uint32_t item = js_get(&t->stream.doc, 0, "item");
    if (item)
        take_item(t, item_index(&t->stream), item);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void responses_take_usage(struct model_stream *s, uint32_t response)
{
    uint32_t usage = model_stream_find(s, response, "usage", JS_OBJECT);
    if (!usage)
        return;
    uint32_t details = model_stream_find(s, usage, "input_tokens_details", JS_OBJECT);
    s->has_usage = true;
    s->usage = (struct model_usage){model_stream_count(s, usage, "input_tokens"),
                                    model_stream_count(s, usage, "output_tokens"),
                                    model_stream_count(s, details, "cached_tokens")};
}

/* Why an answer is not whole; false: it is. */
static bool fail_by_status(struct model_stream *s, uint32_t response)
{
    uint32_t status = model_stream_find(s, response, "status", JS_STRING);
    uint32_t details = model_stream_find(s, response, "incomplete_details", JS_OBJECT);
    uint32_t reason = details ? model_stream_find(s, details, "reason", JS_STRING) : 0;
    struct buf word = {0}, why = {0};
    if (status && js_is(&s->doc, status, "failed")) {
        model_stream_complain(s, response);
    } else if (status && js_is(&s->doc, status, "incomplete")) {
        if (reason)
            js_value(&s->doc, reason, &word);
        if (!openai_put_fault(word.len ? word.bytes : "", &why))
            buf_puts(&why, "the model's server broke off the answer");
        model_stream_fail(s, "%s", why.bytes);
    } else if (status && js_is(&s->doc, status, "cancelled")) {
        model_stream_fail(s, "the model's server broke off the answer");
    }
    buf_done(&word);
    buf_done(&why);
    return s->done;
}

/* The last event has the whole output: of servers that sent no items, it is taken from there. */
static void take_response(struct model_turn *t, uint32_t response)
{
    struct model_stream *s = &t->stream;
    uint32_t output = model_stream_find(s, response, "output", JS_ARRAY);
    bool had_items = s->items.len > 0;
    responses_take_usage(s, response);
    for (uint32_t i = output ? js_first(&s->doc, output) : 0;
         output && !had_items && !s->done && i < js_end(&s->doc, output); i = js_next(&s->doc, i))
        take_item(t, ITEM_LAST, i);
    if (!s->done && !fail_by_status(s, response))
        model_stream_finish(s);
}

static void take_last(struct model_turn *t)
{
    struct model_stream *s = &t->stream;
    uint32_t response = model_stream_find(s, 0, "response", JS_OBJECT);
    if (response)
        take_response(t, response);
    else
        model_stream_fail(s, "the last event of the stream has no response");
}

static void responses_take_error(struct model_turn *t)
{
    model_stream_complain(&t->stream, 0);
}

static const struct {
    const char *type;
    void (*take)(struct model_turn *t);
} takers[] = {
    {"response.output_text.delta", take_text_delta},
    {"response.refusal.delta", take_text_delta},
    {"response.reasoning_summary_text.delta", take_thought_delta},
    {"response.reasoning_text.delta", take_thought_delta},
    {"response.reasoning_summary_part.added", take_thought_part},
    {"response.output_item.done", take_item_done},
    {"response.completed", take_last},
    {"response.incomplete", take_last},
    {"response.failed", take_last},
    {"response.cancelled", take_last},
    {"error", responses_take_error},
};

static void responses_take(struct model_stream *s, struct str type)
{
    struct model_turn *t = responses_turn_of(s);
    for (size_t i = 0; i < countof(takers); i++)
        if (str_eq(type, str_of(takers[i].type)))
            takers[i].take(t);
}

static void responses_take_whole(struct model_stream *s)
{
    if (model_stream_find(s, 0, "output", JS_ARRAY))
        take_response(responses_turn_of(s), 0);
    else
        model_stream_complain(s, 0);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void responses_put_value(const struct model_stream *s, uint32_t item, const char *name,
                                struct buf *out)
{
    uint32_t node = model_stream_find(s, item, name, JS_STRING);
    if (node)
        js_value(&s->doc, node, out);
}

static size_t responses_tell_calls(struct model_stream *s)
{
    size_t n = 0;
    for (uint32_t i = js_first(&s->doc, 0); i < js_end(&s->doc, 0); i = js_next(&s->doc, i)) {
        struct buf id = {0}, name = {0}, arguments = {0};
        if (!has_type(s, i, "function_call"))
            continue;
        responses_put_value(s, i, "call_id", &id);
        responses_put_value(s, i, "name", &name);
        responses_put_value(s, i, "arguments", &arguments);
        s->events.on_tool_call(s->user, &(struct model_call){.id = buf_str(&id),
                                                             .name = buf_str(&name),
                                                             .arguments = buf_str(&arguments)});
        n++;
        buf_done(&id);
        buf_done(&name);
        buf_done(&arguments);
    }
    return n;
}

static void responses_forget(struct model_stream *s)
{
    responses_turn_of(s)->told = 0;
}

/* --- the port --------------------------------------------------------------------------------- */

/* Not every model has thoughts to encrypt. */
static const struct stream_api responses_api = {
    .name = "responses",
    .take = responses_take,
    .take_whole = responses_take_whole,
    .tell_calls = responses_tell_calls,
    .forget = responses_forget,
    .extra = "\"include\":[\"reasoning.encrypted_content\"]",
    .extra_word = "ncrypted",
};

static struct model_turn *responses_start(void *settings, const struct model_request *request,
                                          const struct model_events *events, void *user,
                                          char *ret_error)
{
    struct stream_settings *s = settings;
    struct buf body = {0};
    if (!responses_put_request(s, request, &body)) {
        snprintf(ret_error, 256, "the messages are not a JSON array");
        return NULL;
    }
    struct model_turn *t = xcalloc(sizeof *t);
    t->magic = TURN_MAGIC;
    t->stream = (struct model_stream){
        .api = &responses_api, .settings = s, .events = *events, .user = user, .request = body};
    model_stream_begin(&t->stream, request);
    return t;
}

static void responses_unpause(struct model_turn *turn)
{
    model_stream_unpause(&responses_turn(turn)->stream);
}

static void responses_free(struct model_turn *turn)
{
    if (!turn)
        return;
    struct model_turn *t = responses_turn(turn);
    model_stream_done(&t->stream);
    t->magic = 0;
    free(t);
}

const struct model_ops model_responses_ops = {
    .kind = "responses",
    .start = responses_start,
    .unpause = responses_unpause,
    .free = responses_free,
};
