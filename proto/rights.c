#include "proto/rights.h"

#include <stdlib.h>

static const struct {
    unsigned right;
    const char *word;
} words[] = {
#define X(NAME, bit, word) {bit, word},
    RIGHT_TABLE(X)
#undef X
};

bool rights_read_words(const struct js_doc *doc, uint32_t node, unsigned *ret)
{
    *ret = 0;
    if (!node || js_type(doc, node) != JS_ARRAY)
        return false;
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i)) {
        unsigned right = 0;
        for (size_t w = 0; w < countof(words); w++)
            if (js_type(doc, i) == JS_STRING && js_is(doc, i, words[w].word))
                right = words[w].right;
        if (!right)
            return false;
        *ret |= right;
    }
    return *ret != 0;
}

void rights_put_words(struct buf *out, unsigned rights)
{
    buf_putc(out, '[');
    for (size_t w = 0; w < countof(words); w++) {
        if (!(rights & words[w].right))
            continue;
        if (out->bytes[out->len - 1] != '[')
            buf_putc(out, ',');
        js_put_str(out, str_of(words[w].word));
    }
    buf_putc(out, ']');
}

/* --- reading ---------------------------------------------------------------------------------- */

struct rights_reading {
    const struct js_doc *doc;
    struct rights *to;
    struct buf block; /* over the memory behind the scopes, with room for all, so it never grows */
};

/* A text of at most max bytes, into the block. */
static bool keep_text(struct rights_reading *r, uint32_t node, size_t max, struct str *ret)
{
    size_t from = r->block.len;
    if (js_type(r->doc, node) != JS_STRING)
        return false;
    js_value(r->doc, node, &r->block);
    *ret = (struct str){r->block.bytes + from, r->block.len - from};
    return ret->n <= max;
}

static bool read_scope(struct rights_reading *r, uint32_t node)
{
    const struct js_doc *doc = r->doc;
    struct scope *s = &r->to->scopes[r->to->n];
    bool named = false;
    if (js_type(doc, node) != JS_OBJECT)
        return false;
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i + 1)) {
        bool is_prefix = js_is(doc, i, "prefix");
        if (is_prefix || js_is(doc, i, "id")) {
            if (named || !keep_text(r, i + 1, MAX_CONVERSATION_ID, &s->name))
                return false;
            named = true;
            s->is_prefix = is_prefix;
        } else if (js_is(doc, i, "task_id")) {
            if (!keep_text(r, i + 1, TASK_ID_LEN, &s->task_id) || s->task_id.n == 0)
                return false; /* an empty one would be the whole conversation */
        } else if (!js_is(doc, i, "rights") || !rights_read_words(doc, i + 1, &s->rights)) {
            return false;
        }
    }
    r->to->n++;
    return named && s->rights && (s->is_prefix ? !s->task_id.p : s->name.n > 0);
}

static bool read_claim(struct rights_reading *r, uint32_t node)
{
    const struct js_doc *doc = r->doc;
    r->to->whole = true;
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i + 1)) {
        if (js_is(doc, i, "actor")) {
            if (!keep_text(r, i + 1, MAX_ACTOR, &r->to->actor) || r->to->actor.n == 0)
                return false;
        } else if (js_is(doc, i, "conversations") && js_type(doc, i + 1) == JS_ARRAY) {
            r->to->whole = false;
            for (uint32_t s = js_first(doc, i + 1); s < js_end(doc, i + 1); s = js_next(doc, s))
                if (!read_scope(r, s))
                    return false;
        } else {
            return false;
        }
    }
    return true;
}

struct rights *rights_read(const struct js_doc *doc, uint32_t node, struct str grant_id)
{
    if (js_type(doc, node) != JS_OBJECT)
        return NULL;
    struct buf json = {0};
    js_copy(doc, node, &json);
    uint32_t list = js_get(doc, node, "conversations");
    size_t n = list && js_type(doc, list) == JS_ARRAY ? doc->nodes[list].kids : 0;
    size_t front = sizeof(struct rights) + (n <= MAX_SCOPES ? n : 0) * sizeof(struct scope);
    size_t room = 2 * json.len + grant_id.n + 1; /* a value is never longer than its text */
    struct rights *r = xcalloc(front + room);
    struct rights_reading reading = {doc, r, {(char *)r + front, 0, room}};
    r->refs = 1;
    bool is_good = n <= MAX_SCOPES && read_claim(&reading, node);
    struct buf *block = &reading.block;
    r->json = (struct str){block->bytes + block->len, json.len};
    buf_putstr(block, buf_str(&json));
    if (grant_id.p) {
        r->grant_id = (struct str){block->bytes + block->len, grant_id.n};
        buf_putstr(block, grant_id);
    }
    ASSERT(block->bytes == (char *)r + front);
    buf_done(&json);
    if (is_good)
        return r;
    free(r);
    return NULL;
}

struct rights *rights_ref(struct rights *r)
{
    if (r)
        r->refs++;
    return r;
}

void rights_unref(struct rights *r)
{
    if (r && --r->refs == 0)
        free(r);
}

bool rights_equal(const struct rights *a, const struct rights *b)
{
    return a == b || (a && b && str_eq(a->json, b->json) && str_eq(a->grant_id, b->grant_id));
}

/* --- the decision ----------------------------------------------------------------------------- */

static bool scope_holds(const struct scope *s, struct str conversation_id, struct str task_id)
{
    if (s->task_id.p && !str_eq(s->task_id, task_id))
        return false;
    if (!s->is_prefix)
        return str_eq(s->name, conversation_id);
    return s->name.n <= conversation_id.n &&
           str_eq(s->name, (struct str){conversation_id.p, s->name.n});
}

bool rights_allow(const struct rights *r, struct str conversation_id, struct str task_id,
                  unsigned need)
{
    if (rights_are_whole(r))
        return true;
    unsigned have = 0; /* of several scopes, all that they give together */
    for (size_t i = 0; i < r->n; i++)
        if (scope_holds(&r->scopes[i], conversation_id, task_id))
            have |= r->scopes[i].rights;
    return need != 0 && (have & need) == need;
}
