#include "gateway/models/openai_calls.h"

#include <stdlib.h>

struct openai_call {
    int64_t index; /* -1: it has none */
    size_t place;  /* in the list that began it */
    struct buf id, name, arguments;
    size_t first_n, last_at; /* of the arguments: the first piece's bytes, the last one's begin */
};

struct piece {
    int64_t index; /* -1: it has none */
    size_t place, of;
    struct str id, name, arguments;
};

/* ------------------------------------------------------------------ a piece */

/* A member's text; of an object, which there are servers to give, the JSON. */
static struct str read_text(const struct js_doc *doc, uint32_t object, const char *name,
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
    if (!index || js_type(doc, index) != JS_NUMBER || !js_int(doc, index, &ret->index) ||
        ret->index < 0)
        ret->index = -1;
    ret->id = read_text(doc, node, "id", &c->id);
    ret->name = ret->arguments = STR("");
    if (function && js_type(doc, function) == JS_OBJECT) {
        ret->name = read_text(doc, function, "name", &c->name);
        ret->arguments = read_text(doc, function, "arguments", &c->arguments);
    }
}

static bool is_object(struct openai_calls *c, struct str text)
{
    return text.n && text.p[text.n - 1] == '}' && js_parse(&c->doc, text.p, text.n, JS_AGENT) &&
           js_type(&c->doc, 0) == JS_OBJECT;
}

/* ------------------------------------------------------------------ whose it is */

/* A second call under the first one's index, or id. */
static bool begins_another(struct openai_calls *c, const struct openai_call *call,
                           const struct piece *p)
{
    if (call->name.len == 0 || p->name.n == 0)
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

static bool is_of(const struct openai_calls *c, const struct openai_call *call,
                  const struct piece *p)
{
    if (p->index >= 0)
        return call->index == p->index;
    if (p->id.n)
        return str_eq(p->id, buf_str(&call->id));
    return p->of > 1 ? call->place == p->place : call == &c->list[c->n - 1];
}

static struct openai_call *find(struct openai_calls *c, const struct piece *p)
{
    for (size_t i = c->n; i-- > 0;)
        if (is_of(c, &c->list[i], p))
            return begins_another(c, &c->list[i], p) ? NULL : &c->list[i];
    return NULL;
}

static struct openai_call *begin(struct openai_calls *c, const struct piece *p)
{
    if (c->n == OPENAI_CALLS)
        return NULL;
    c->list = xrealloc(c->list, (c->n + 1) * sizeof *c->list);
    c->list[c->n] = (struct openai_call){.index = p->index, .place = p->place};
    return &c->list[c->n++];
}

/* ------------------------------------------------------------------ putting together */

static void add(struct openai_call *call, const struct piece *p)
{
    if (call->id.len == 0) /* there are servers that repeat it */
        buf_putstr(&call->id, p->id);
    if (call->name.len == 0)
        buf_putstr(&call->name, p->name);
    if (p->arguments.n == 0)
        return;
    call->last_at = call->arguments.len;
    buf_putstr(&call->arguments, p->arguments);
    if (call->first_n == 0)
        call->first_n = p->arguments.n;
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
        c->bytes += p.id.n + p.name.n + p.arguments.n;
        if (c->bytes > OPENAI_CALLS_BYTES)
            return "the calls of a turn pass 4 MiB";
        struct openai_call *call = find(c, &p);
        if (!call)
            call = begin(c, &p);
        if (!call)
            return "a turn calls more than 128 tools";
        add(call, &p);
        p.place++;
    }
    return NULL;
}

/* The pieces joined.  Where each said all so far again, that is no JSON, but the last piece is. */
static struct str arguments_of(struct openai_calls *c, const struct openai_call *call)
{
    struct str all = buf_str(&call->arguments);
    if (call->last_at == 0 || is_object(c, all))
        return all;
    struct str last = {all.p + call->last_at, all.n - call->last_at};
    bool repeats = last.n >= call->first_n && memcmp(last.p, all.p, call->first_n) == 0;
    return repeats && is_object(c, last) ? last : all;
}

bool openai_calls_get(struct openai_calls *c, size_t i, struct model_call *ret)
{
    const struct openai_call *call = &c->list[i];
    *ret = (struct model_call){buf_str(&call->id), buf_str(&call->name), arguments_of(c, call)};
    return ret->id.n || ret->name.n || ret->arguments.n;
}

void openai_calls_done(struct openai_calls *c)
{
    for (size_t i = 0; i < c->n; i++) {
        buf_done(&c->list[i].id);
        buf_done(&c->list[i].name);
        buf_done(&c->list[i].arguments);
    }
    free(c->list);
    buf_done(&c->id);
    buf_done(&c->name);
    buf_done(&c->arguments);
    js_done(&c->doc);
    *c = (struct openai_calls){0};
}
