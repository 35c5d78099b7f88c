#include "proto/js.h"

#include <math.h>
#include <stdlib.h>

#include "proto/js_scan.h"
#include "proto/limits.h"
#include "proto/str.h"

/* Design.  One loop, two steps: read_value takes a scalar or opens a container; advance takes what
 * stands between two values (closers, a comma, a key and its colon).  The stack holds the node
 * numbers of open containers, so hostile nesting costs 4 bytes a level and ends at MAX_JSON_DEPTH.
 * Our own texts may be deeper, because they wrap values that may have been at that limit.
 *
 * Invariants: a node's next is set once its text has been read; nodes may move (growth), so code
 * holds numbers, not pointers; a string node that is not plain was checked escape by escape, so
 * that js_char need not check again.
 *
 * Duplicate keys are searched when an object closes: pair by pair up to FEW_KEYS, by sorting above
 * (n log n for any keys; a hash table would need a secret).  A duplicate does not stop the reading:
 * the text is whole, and a caller that wants to answer it may read the nodes. */

#define FEW_KEYS 16
#define KEEP_NODES 8192 /* a doc that grew beyond this frees its memory before the next parse */

const char js_duplicate_key[] = "duplicate key", js_out_of_memory[] = "out of memory";
static const char unexpected_end[] = "unexpected end";

struct parser {
    struct js_doc *doc;
    const char *at, *end;
    enum js_flags flags;
    bool fresh; /* the innermost container has no child yet */
    unsigned depth;
    uint32_t duplicate; /* the first key in the text that repeats another; 0 for none */
    uint32_t open[MAX_JSON_DEPTH + MAX_JSON_WRAP];
};

static bool js_fail(struct parser *p, const char *error, const char *at)
{
    p->doc->error = error;
    p->doc->error_at = (size_t)(at - p->doc->text);
    return false;
}

static void skip_space(struct parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
}

static bool js_grow(struct parser *p)
{
    struct js_doc *doc = p->doc;
    uint32_t cap = doc->cap ? doc->cap * 2 : 64;
    size_t bytes = cap * sizeof(struct js_node);
    bool must = p->flags & JS_MUST;
    struct js_node *nodes = must ? xrealloc(doc->nodes, bytes) : try_realloc(doc->nodes, bytes);
    if (!nodes)
        return js_fail(p, js_out_of_memory, p->at);
    doc->nodes = nodes;
    doc->cap = cap;
    return true;
}

/* Adds a node for from..to as a child of the innermost container. */
static bool js_add(struct parser *p, enum js_type type, const char *from, const char *to)
{
    struct js_doc *doc = p->doc;
    if (doc->n_nodes == doc->cap && !js_grow(p))
        return false;
    if (p->depth > 0) {
        struct js_node *parent = &doc->nodes[p->open[p->depth - 1]];
        if (parent->kids < UINT16_MAX)
            parent->kids++;
    }
    uint32_t n = doc->n_nodes++;
    doc->nodes[n] = (struct js_node){
        .at = (uint32_t)(from - doc->text),
        .len = (uint32_t)(to - from),
        .next = n + 1,
        .type = (uint8_t)type,
    };
    return true;
}

/* --- duplicate keys --------------------------------------------------------------------------- */

struct key {
    const char *p;
    uint32_t len;
    uint32_t plain;
};

static struct key key_of(const struct js_doc *doc, uint32_t node)
{
    const struct js_node *n = &doc->nodes[node];
    return (struct key){doc->text + n->at, n->len, n->plain};
}

/* Orders keys by their values; for plain keys that is byte order. */
static int compare_keys(const void *one, const void *other)
{
    const struct key *a = one, *b = other;
    if (a->plain && b->plain) {
        int order = memcmp(a->p, b->p, a->len < b->len ? a->len : b->len);
        return order ? order : (a->len > b->len) - (a->len < b->len);
    }
    const char *p = a->p, *p_end = a->p + a->len, *q = b->p, *q_end = b->p + b->len;
    while (p < p_end && q < q_end) {
        uint32_t c, d;
        p = js_char(p, p_end, &c);
        q = js_char(q, q_end, &d);
        if (c != d)
            return c < d ? -1 : 1;
    }
    return (p < p_end) - (q < q_end);
}

static bool same_key(const struct key *a, const struct key *b)
{
    if (a->plain && b->plain)
        return a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
    return compare_keys(a, b) == 0;
}

static void note_duplicate(struct parser *p, const char *key)
{
    uint32_t at = (uint32_t)(key - p->doc->text);
    if (!p->duplicate || at < p->duplicate)
        p->duplicate = at;
}

static void check_few_keys(struct parser *p, uint32_t object)
{
    struct js_doc *doc = p->doc;
    struct key keys[FEW_KEYS];
    size_t n = 0;
    for (uint32_t i = js_first(doc, object); i < js_end(doc, object); i = js_next(doc, i + 1)) {
        keys[n] = key_of(doc, i);
        for (size_t k = 0; k < n; k++)
            if (same_key(&keys[k], &keys[n]))
                note_duplicate(p, keys[n].p);
        n++;
    }
}

static bool check_many_keys(struct parser *p, uint32_t object)
{
    struct js_doc *doc = p->doc;
    size_t n = 0;
    for (uint32_t i = js_first(doc, object); i < js_end(doc, object); i = js_next(doc, i + 1))
        n++;
    size_t bytes = n * sizeof(struct key);
    struct key *keys = p->flags & JS_MUST ? xalloc(bytes) : try_alloc(bytes);
    if (!keys)
        return js_fail(p, js_out_of_memory, p->at);
    n = 0;
    for (uint32_t i = js_first(doc, object); i < js_end(doc, object); i = js_next(doc, i + 1))
        keys[n++] = key_of(doc, i);
    qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 1; i < n; i++)
        if (same_key(&keys[i - 1], &keys[i]))
            note_duplicate(p, keys[i - 1].p > keys[i].p ? keys[i - 1].p : keys[i].p);
    free(keys);
    return true;
}

/* --- values ----------------------------------------------------------------------------------- */

static bool open_container(struct parser *p, enum js_type type)
{
    bool ours = p->flags & JS_MUST;
    if (p->depth == (ours ? MAX_JSON_DEPTH + MAX_JSON_WRAP : MAX_JSON_DEPTH))
        return js_fail(p, "nested too deeply", p->at);
    if (!js_add(p, type, p->at, p->at + 1))
        return false;
    p->open[p->depth++] = p->doc->n_nodes - 1;
    p->fresh = true;
    p->at++;
    return true;
}

static bool close_container(struct parser *p)
{
    uint32_t number = p->open[--p->depth];
    struct js_node *node = &p->doc->nodes[number];
    p->at++;
    p->fresh = false;
    node->len = (uint32_t)(p->at - p->doc->text) - node->at;
    node->next = p->doc->n_nodes;
    if (node->type != JS_OBJECT || node->kids <= 2)
        return true;
    if (node->kids > 2 * FEW_KEYS)
        return check_many_keys(p, number);
    check_few_keys(p, number);
    return true;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* The end of the escape at p; NULL when it is not a valid one. */
static const char *skip_escape(const char *p, const char *end)
{
    if (end - p < 2)
        return NULL;
    switch (p[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't': return p + 2;
    case 'u':
        return end - p >= 6 && is_hex(p[2]) && is_hex(p[3]) && is_hex(p[4]) && is_hex(p[5]) ? p + 6
                                                                                            : NULL;
    default: return NULL;
    }
}

static bool read_string(struct parser *p)
{
    const char *from = p->at + 1, *at = from;
    bool plain = true;
    for (;;) {
        at += clean_run(at, (size_t)(p->end - at));
        if (at == p->end)
            return js_fail(p, unexpected_end, at);
        if (*at == '"')
            break;
        if ((unsigned char)*at < 0x20)
            return js_fail(p, "control character in a string", at);
        plain = false;
        if (*at == '\\') {
            const char *behind = skip_escape(at, p->end);
            if (!behind)
                return js_fail(p, "bad escape", at);
            at = behind;
        } else {
            uint32_t broken;
            if (!(p->flags & JS_REPAIR_UTF8))
                return js_fail(p, "invalid UTF-8", at);
            at += utf8_step(at, (size_t)(p->end - at), &broken);
        }
    }
    if (!js_add(p, JS_STRING, from, at))
        return false;
    p->doc->nodes[p->doc->n_nodes - 1].plain = plain;
    p->at = at + 1;
    return true;
}

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && is_digit(*at))
        at++;
    return at;
}

/* Plain integer syntax with a magnitude above 2^53-1. */
static bool is_unsafe_integer(const char *p, size_t n)
{
    static const char limit[] = "9007199254740991";
    const size_t digits = sizeof limit - 1;
    if (n > 0 && *p == '-') {
        p++;
        n--;
    }
    for (size_t i = 0; i < n; i++)
        if (!is_digit(p[i]))
            return false;
    return n > digits || (n == digits && memcmp(p, limit, digits) > 0);
}

static bool js_read_number(struct parser *p)
{
    static const char bad_number[] = "bad number";
    const char *at = p->at, *end = p->end;
    if (*at == '-')
        at++;
    if (at == end || !is_digit(*at))
        return js_fail(p, bad_number, p->at);
    at = *at == '0' ? at + 1 : skip_digits(at, end);
    if (at < end && *at == '.') {
        const char *from = ++at;
        at = skip_digits(at, end);
        if (at == from)
            return js_fail(p, bad_number, p->at);
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        const char *from = at;
        at = skip_digits(at, end);
        if (at == from)
            return js_fail(p, bad_number, p->at);
    }
    if (!(p->flags & JS_ANY_NUMBER) && is_unsafe_integer(p->at, (size_t)(at - p->at)))
        return js_fail(p, "integer beyond 9007199254740991", p->at);
    if (!js_add(p, JS_NUMBER, p->at, at))
        return false;
    p->at = at;
    return true;
}

static bool read_word(struct parser *p, struct str word, enum js_type type)
{
    if ((size_t)(p->end - p->at) < word.n || memcmp(p->at, word.p, word.n) != 0)
        return js_fail(p, "unexpected character", p->at);
    if (!js_add(p, type, p->at, p->at + word.n))
        return false;
    p->at += word.n;
    return true;
}

static bool read_value(struct parser *p)
{
    skip_space(p);
    if (p->at == p->end)
        return js_fail(p, unexpected_end, p->at);
    switch (*p->at) {
    case '{': return open_container(p, JS_OBJECT);
    case '[': return open_container(p, JS_ARRAY);
    case '"': return read_string(p);
    case 't': return read_word(p, STR("true"), JS_TRUE);
    case 'f': return read_word(p, STR("false"), JS_FALSE);
    case 'n': return read_word(p, STR("null"), JS_NULL);
    default:
        if (*p->at == '-' || is_digit(*p->at))
            return js_read_number(p);
        return js_fail(p, "unexpected character", p->at);
    }
}

/* A key and its colon. */
static bool read_key(struct parser *p)
{
    skip_space(p);
    if (p->at == p->end)
        return js_fail(p, unexpected_end, p->at);
    if (*p->at != '"')
        return js_fail(p, "expected a key", p->at);
    if (!read_string(p))
        return false;
    skip_space(p);
    if (p->at == p->end)
        return js_fail(p, unexpected_end, p->at);
    if (*p->at != ':')
        return js_fail(p, "expected ':'", p->at);
    p->at++;
    return true;
}

/* Moves to the next value, or closes every container: then depth is 0. */
static bool advance(struct parser *p)
{
    while (p->depth > 0) {
        bool in_object = p->doc->nodes[p->open[p->depth - 1]].type == JS_OBJECT;
        skip_space(p);
        if (p->at == p->end)
            return js_fail(p, unexpected_end, p->at);
        if (*p->at == (in_object ? '}' : ']')) {
            if (!close_container(p))
                return false;
            continue;
        }
        if (!p->fresh) {
            if (*p->at != ',')
                return js_fail(p, in_object ? "expected ',' or '}'" : "expected ',' or ']'", p->at);
            p->at++;
        }
        p->fresh = false;
        return in_object ? read_key(p) : true;
    }
    return true;
}

static bool read_document(struct parser *p)
{
    do {
        if (!read_value(p) || !advance(p))
            return false;
    } while (p->depth > 0);
    skip_space(p);
    if (p->at < p->end)
        return js_fail(p, "unexpected text after the value", p->at);
    return true;
}

bool js_parse(struct js_doc *doc, const char *text, size_t len, enum js_flags flags)
{
    if (doc->cap > KEEP_NODES)
        js_done(doc);
    doc->text = text ? text : "";
    doc->n_nodes = 0;
    doc->error = NULL;
    doc->error_at = 0;

    struct parser p;
    p.doc = doc;
    p.at = doc->text;
    p.end = doc->text + len;
    p.flags = flags;
    p.fresh = false;
    p.depth = 0;
    p.duplicate = 0;
    if (len > UINT32_MAX / 2) /* offsets and node numbers are 32 bits wide */
        (void)js_fail(&p, "too long", p.at);
    else if (read_document(&p) && p.duplicate)
        (void)js_fail(&p, js_duplicate_key, doc->text + p.duplicate);
    if (doc->error && doc->error != js_duplicate_key)
        doc->n_nodes = 0;
    return !doc->error;
}

bool js_parse_lone(struct js_doc *doc, struct str text, struct str key)
{
    const size_t before = key.n + strlen("{\"\":\""), behind = strlen("\"}");
    if (text.n < before + behind || memcmp(text.p, "{\"", 2) != 0 ||
        memcmp(text.p + 2, key.p, key.n) != 0 || memcmp(text.p + 2 + key.n, "\":\"", 3) != 0 ||
        memcmp(text.p + text.n - behind, "\"}", behind) != 0)
        return false;
    const char *value = text.p + before;
    size_t n = text.n - before - behind;
    if (memchr(value, '"', n) || memchr(value, '\\', n))
        return false;
    if (doc->cap < 3) {
        doc->cap = 64;
        doc->nodes = xrealloc(doc->nodes, doc->cap * sizeof(struct js_node));
    }
    doc->text = text.p;
    doc->n_nodes = 3;
    doc->error = NULL;
    doc->error_at = 0;
    doc->nodes[0] =
        (struct js_node){.len = (uint32_t)text.n, .next = 3, .kids = 2, .type = JS_OBJECT};
    doc->nodes[1] = (struct js_node){
        .at = 2, .len = (uint32_t)key.n, .next = 2, .type = JS_STRING, .plain = true};
    doc->nodes[2] = (struct js_node){
        .at = (uint32_t)before, .len = (uint32_t)n, .next = 3, .type = JS_STRING, .plain = true};
    return true;
}

void js_done(struct js_doc *doc)
{
    free(doc->nodes);
    *doc = (struct js_doc){0};
}

uint32_t js_get(const struct js_doc *d, uint32_t object, const char *key)
{
    if (js_type(d, object) != JS_OBJECT)
        return 0;
    for (uint32_t i = js_first(d, object); i < js_end(d, object); i = js_next(d, i + 1))
        if (js_is(d, i, key))
            return i + 1;
    return 0;
}

bool js_is(const struct js_doc *d, uint32_t node, const char *text)
{
    if (js_type(d, node) != JS_STRING)
        return false;
    struct key a = key_of(d, node), b = {text, (uint32_t)strlen(text), true};
    if (a.plain)
        return same_key(&a, &b);
    const char *p = a.p, *end = a.p + a.len, *q = text, *q_end = text + b.len;
    while (p < end && q < q_end) {
        uint32_t c, d2;
        p = js_char(p, end, &c);
        q += utf8_step(q, (size_t)(q_end - q), &d2);
        if (c != d2)
            return false;
    }
    return p == end && q == q_end;
}

bool js_int(const struct js_doc *d, uint32_t node, int64_t *ret)
{
    struct str raw = js_raw(d, node);
    if (js_type(d, node) != JS_NUMBER || str_eq(raw, STR("-0")))
        return false;
    bool negative = raw.p[0] == '-';
    int64_t value = 0;
    for (size_t i = negative; i < raw.n; i++) {
        if (!is_digit(raw.p[i]))
            return false;
        int digit = raw.p[i] - '0';
        /* Accumulates below zero, because INT64_MIN has no positive counterpart. */
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, digit, &value))
            return false;
    }
    if (!negative && value == INT64_MIN)
        return false;
    *ret = negative ? value : -value;
    return true;
}

bool js_is_unsafe_integer(const struct js_doc *d, uint32_t node)
{
    struct str raw = js_raw(d, node);
    return js_type(d, node) == JS_NUMBER && is_unsafe_integer(raw.p, raw.n);
}

bool js_double(const struct js_doc *d, uint32_t node, double *ret)
{
    char brief[64];
    struct str raw = js_raw(d, node);
    if (js_type(d, node) != JS_NUMBER)
        return false;
    char *text = raw.n < sizeof brief ? brief : try_alloc(raw.n + 1);
    if (!text)
        return false;
    memcpy(text, raw.p, raw.n);
    text[raw.n] = 0;
    double value = strtod(text, NULL); /* the process stays in the C locale */
    if (text != brief)
        free(text);
    if (!isfinite(value))
        return false;
    *ret = value;
    return true;
}
