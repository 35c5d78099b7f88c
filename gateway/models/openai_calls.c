#include "gateway/models/openai_calls.h"

#include <stdlib.h>

#include "gateway/models/json_end.h"
#include "gateway/models/openai_chunk.h"
#include "gateway/models/openai_more.h"

struct openai_call {
    int64_t index; /* -1: it has none */
    size_t place;  /* in the list that began it */
    struct buf id, name, arguments;
    size_t first_n, last_at; /* of the arguments: the first piece's bytes, the last one's begin */
    struct openai_more more, function_more;
};

struct piece {
    int64_t index; /* -1: it has none */
    size_t place, of;
    struct str id, name, arguments;
    uint32_t node, function; /* of the chunk; function 0: it has none */
};

/* --- a piece ---------------------------------------------------------------------------------- */

/* A member's text; for an object, which some servers send, its JSON. */
static struct str calls_read_text(const struct js_doc *doc, uint32_t object, const char *name,
                                  struct buf *to)
{
    uint32_t node = js_get(doc, object, name);
    buf_clear(to);
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, to);
    else if (node && js_type(doc, node) == JS_OBJECT)
        js_copy(doc, node, to);
    return buf_str(to);
}

static void read_piece(struct openai_calls *c, const struct js_doc *doc, uint32_t node,
                       struct piece *ret)
{
    uint32_t index = js_get(doc, node, "index"), function = js_get(doc, node, "function");
    ret->node = node;
    ret->function = function && js_type(doc, function) == JS_OBJECT ? function : 0;
    if (!index || js_type(doc, index) != JS_NUMBER || !js_int(doc, index, &ret->index) ||
        ret->index < 0)
        ret->index = -1;
    ret->id = calls_read_text(doc, node, "id", &c->id);
    ret->name = ret->arguments = STR("");
    if (ret->function) {
        ret->name = calls_read_text(doc, function, "name", &c->name);
        ret->arguments = calls_read_text(doc, function, "arguments", &c->arguments);
    }
}

static bool is_object(struct openai_calls *c, struct str text)
{
    return text.n && text.p[text.n - 1] == '}' && js_parse(&c->doc, text.p, text.n, JS_AGENT) &&
           js_type(&c->doc, 0) == JS_OBJECT;
}

/* --- finding its call ------------------------------------------------------------------------- */

/* An object that was already whole cannot continue with another one. */
static bool are_two_objects(struct openai_calls *c, struct str before, struct str piece)
{
    return !str_eq(before, piece) && is_object(c, piece) && is_object(c, before);
}

/* A second call under the first one's index, or id. */
static bool begins_another(struct openai_calls *c, const struct openai_call *call,
                           const struct piece *p)
{
    if (call->name.len && p->name.n == 0)
        return are_two_objects(c, buf_str(&call->arguments), p->arguments);
    if (call->name.len == 0)
        return false;
    if (call->id.len && p->id.n) {
        if (!str_eq(p->id, buf_str(&call->id)))
            return true;
        if (p->index >= 0)
            return false;
    }
    bool other = !str_eq(p->name, buf_str(&call->name));
    if (other && p->index < 0)
        return true;
    if (!other && (p->arguments.n == 0 || str_eq(p->arguments, buf_str(&call->arguments))))
        return false;
    return is_object(c, buf_str(&call->arguments));
}

/* False for a call without a name yet: only attachments to it have arrived. */
static bool has_begun(const struct openai_call *call)
{
    return call->index >= 0 || call->id.len || call->name.len || call->arguments.len;
}

static bool piece_is_of(const struct openai_calls *c, const struct openai_call *call,
                        const struct piece *p)
{
    if (!has_begun(call))
        return true;
    if (p->index >= 0)
        return call->index == p->index;
    if (p->id.n)
        return str_eq(p->id, buf_str(&call->id));
    return p->of > 1 ? call->place == p->place : call == &c->list[c->n - 1];
}

/* A piece with only attachments to a call, and that call's id. */
static struct openai_call *find_by_id(struct openai_calls *c, const struct piece *p)
{
    if (p->id.n == 0 || p->name.n || p->arguments.n)
        return NULL;
    for (size_t i = c->n; i-- > 0;)
        if (str_eq(p->id, buf_str(&c->list[i].id)))
            return &c->list[i];
    return NULL;
}

/* The call that it continues; NULL: it begins another one, which has before's name unless it has
 * its own. */
static struct openai_call *calls_find(struct openai_calls *c, const struct piece *p,
                                      size_t *ret_before)
{
    struct openai_call *named = find_by_id(c, p);
    *ret_before = c->n;
    if (named)
        return named;
    for (size_t i = c->n; i-- > 0;) {
        if (!piece_is_of(c, &c->list[i], p))
            continue;
        if (!begins_another(c, &c->list[i], p))
            return &c->list[i];
        *ret_before = i;
        return NULL;
    }
    return NULL;
}

/* before: a call whose name it has until its own arrives; n for none. */
static struct openai_call *calls_begin(struct openai_calls *c, const struct piece *p, size_t before)
{
    if (c->n == OPENAI_CALLS)
        return NULL;
    c->list = xrealloc(c->list, (c->n + 1) * sizeof *c->list);
    struct openai_call *call = &c->list[c->n];
    *call = (struct openai_call){.index = p->index, .place = p->place};
    if (before < c->n && p->name.n == 0)
        buf_putstr(&call->name, buf_str(&c->list[before].name));
    c->n++;
    return call;
}

/* --- putting together ------------------------------------------------------------------------- */

static const char *const call_members[] = {"index", "id", "type", "function", NULL};
static const char *const function_members[] = {"name", "arguments", NULL};

static void calls_add(struct openai_call *call, const struct js_doc *doc, const struct piece *p)
{
    if (call->index < 0)
        call->index = p->index;
    if (call->id.len == 0) /* some servers repeat it */
        buf_putstr(&call->id, p->id);
    if (call->name.len == 0)
        buf_putstr(&call->name, p->name);
    openai_more_take(&call->more, doc, p->node, call_members);
    if (p->function)
        openai_more_take(&call->function_more, doc, p->function, function_members);
    if (p->arguments.n == 0)
        return;
    call->last_at = call->arguments.len;
    buf_putstr(&call->arguments, p->arguments);
    if (call->first_n == 0)
        call->first_n = p->arguments.n;
}

static size_t more_bytes(const struct openai_call *call)
{
    return call->more.bytes + call->function_more.bytes;
}

const char *openai_calls_take(struct openai_calls *c, const struct js_doc *doc, uint32_t pieces)
{
    struct piece p = {0};
    for (uint32_t i = js_first(doc, pieces); i < js_end(doc, pieces); i = js_next(doc, i))
        p.of++;
    for (uint32_t i = js_first(doc, pieces); i < js_end(doc, pieces); i = js_next(doc, i)) {
        if (js_type(doc, i) != JS_OBJECT)
            continue;
        read_piece(c, doc, i, &p);
        size_t before;
        struct openai_call *call = calls_find(c, &p, &before);
        if (!call)
            call = calls_begin(c, &p, before);
        if (!call)
            return "a turn calls more than 128 tools";
        c->bytes += p.id.n + p.name.n + p.arguments.n - more_bytes(call);
        calls_add(call, doc, &p);
        c->bytes += more_bytes(call);
        if (c->bytes > OPENAI_CALLS_BYTES)
            return "the calls of a turn exceed 4 MiB";
        p.place++;
    }
    return NULL;
}

/* The joined pieces.  If each piece repeated everything so far, that is not JSON, but the last
 * piece is. */
static struct str arguments_of(struct openai_calls *c, const struct openai_call *call)
{
    struct str all = buf_str(&call->arguments);
    if (call->last_at == 0 || is_object(c, all))
        return all;
    struct str last = {all.p + call->last_at, all.n - call->last_at};
    bool repeats = last.n >= call->first_n && memcmp(last.p, all.p, call->first_n) == 0;
    return repeats && is_object(c, last) ? last : all;
}

/* --- several calls in one text ---------------------------------------------------------------- */

/* The object at the text's beginning, after white space; n 0: there is no whole one. */
static struct str first_object(struct openai_calls *c, struct str text)
{
    struct json_end end = {0};
    while (text.n && (unsigned char)text.p[0] <= ' ')
        text = (struct str){text.p + 1, text.n - 1};
    text.n = text.n && text.p[0] == '{' ? json_end_find(&end, text) : 0;
    return is_object(c, text) ? text : (struct str){text.p, 0};
}

static bool is_row_of_objects(struct openai_calls *c, struct str text)
{
    size_t n = 0;
    while (!openai_is_blank(text)) {
        struct str object = first_object(c, text);
        if (object.n == 0)
            return false;
        text = (struct str){object.p + object.n, text.n - (size_t)(object.p - text.p) - object.n};
        n++;
    }
    return n > 1;
}

/* The calls in a text that is a row of objects.  A repeated one is the same call. */
static void part(struct openai_calls *c, size_t at)
{
    struct buf all = c->list[at].arguments;
    struct str text = buf_str(&all), last = STR("");
    struct openai_call *call = &c->list[at];
    call->arguments = (struct buf){0};
    call->last_at = 0;
    for (struct str object; call && (object = first_object(c, text)).n; last = object) {
        text = (struct str){object.p + object.n, text.n - (size_t)(object.p - text.p) - object.n};
        if (str_eq(object, last))
            continue;
        if (last.n)
            call = calls_begin(c, &(struct piece){.index = -1}, at);
        if (call)
            buf_putstr(&call->arguments, object);
    }
    buf_done(&all);
}

void openai_calls_part(struct openai_calls *c)
{
    for (size_t i = 0, n = c->n; i < n; i++)
        if (!is_object(c, buf_str(&c->list[i].arguments)) &&
            is_row_of_objects(c, buf_str(&c->list[i].arguments)))
            part(c, i);
}

bool openai_calls_get(struct openai_calls *c, size_t i, struct model_call *ret)
{
    const struct openai_call *call = &c->list[i];
    buf_clear(&c->more);
    buf_clear(&c->function_more);
    openai_more_put(&call->more, &c->more);
    openai_more_put(&call->function_more, &c->function_more);
    *ret = (struct model_call){.id = buf_str(&call->id),
                               .name = buf_str(&call->name),
                               .arguments = arguments_of(c, call),
                               .more = buf_str(&c->more),
                               .function_more = buf_str(&c->function_more)};
    return ret->id.n || ret->name.n || ret->arguments.n;
}

void openai_calls_done(struct openai_calls *c)
{
    for (size_t i = 0; i < c->n; i++) {
        buf_done(&c->list[i].id);
        buf_done(&c->list[i].name);
        buf_done(&c->list[i].arguments);
        openai_more_done(&c->list[i].more);
        openai_more_done(&c->list[i].function_more);
    }
    free(c->list);
    buf_done(&c->id);
    buf_done(&c->name);
    buf_done(&c->arguments);
    buf_done(&c->more);
    buf_done(&c->function_more);
    js_done(&c->doc);
    *c = (struct openai_calls){0};
}
