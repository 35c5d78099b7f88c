#include "proto/faces/face.h"

#include <stdlib.h>
#include <time.h>

/* --- what restarts have withdrawn ------------------------------------------------------------- */

static void read_withdrawn(struct face_withdrawn *w, struct str retracted)
{
    struct js_doc doc = {0};
    bool good = js_parse(&doc, retracted.p, retracted.n, JS_OURS) && js_type(&doc, 0) == JS_ARRAY;
    for (uint32_t i = good ? js_first(&doc, 0) : 0;
         good && w->n < FACE_WITHDRAWN && i < js_end(&doc, 0); i = js_next(&doc, i)) {
        int64_t after = 0, before = 0;
        if (js_type(&doc, i) != JS_ARRAY || doc.nodes[i].kids != 2 ||
            !js_int(&doc, i + 1, &after) || !js_int(&doc, i + 2, &before))
            continue;
        w->ranges[w->n][0] = (uint64_t)after;
        w->ranges[w->n++][1] = (uint64_t)before;
    }
    js_done(&doc);
}

static bool has_place(const struct face_withdrawn *w, uint64_t place)
{
    for (size_t i = 0; i < w->n; i++)
        if (place > w->ranges[i][0] && place < w->ranges[i][1])
            return true;
    return false;
}

struct face_stream *face_stream_make(const struct face_ops *ops, const struct face_task *task)
{
    struct face_stream *s = ops->make(task);
    if (task->retracted.p) {
        s->withdrawn = xcalloc(sizeof *s->withdrawn);
        read_withdrawn(s->withdrawn, task->retracted);
    }
    return s;
}

void face_stream_free(struct face_stream *s)
{
    if (!s)
        return;
    free(s->withdrawn);
    s->ops->free(s);
}

bool face_withdraws_text(const struct face_stream *s, const struct face_event *e)
{
    return s->withdrawn && (e->type == EVENT_TOKEN || e->type == EVENT_THINKING) &&
           has_place(s->withdrawn, e->seq);
}

bool face_takes_back(const struct face_stream *s, const struct face_event *e, uint64_t *ret_after)
{
    uint32_t at = js_type(e->doc, 0) == JS_OBJECT ? js_get(e->doc, 0, "retracts") : 0;
    int64_t after = 0;
    if (!at || !js_int(e->doc, at, &after) || after < 0 || (uint64_t)after + 1 >= e->seq)
        return false;
    *ret_after = (uint64_t)after;
    return s->ops->tells_withdrawn || !s->withdrawn || !has_place(s->withdrawn, e->seq - 1);
}

bool face_is_withdrawn(struct str retracted, uint64_t place)
{
    struct face_withdrawn w = {0};
    if (retracted.p)
        read_withdrawn(&w, retracted);
    return has_place(&w, place);
}

/* --- streams ---------------------------------------------------------------------------------- */

void face_stream_line(struct face_stream *s, struct js_doc *doc, struct str line,
                      const struct face_sink *to)
{
    struct event_parts parts;
    if (!event_line_split(line, &parts) || !(js_parse_lone(doc, parts.data, STR("text")) ||
                                             js_parse(doc, parts.data.p, parts.data.n, JS_OURS)))
        return;
    const struct face_event e = {
        .type = parts.event, .seq = parts.seq, .ts = parts.ts, .doc = doc, .line = line};
    face_stream_event(s, &e, to);
}

void face_stream_lines(struct face_stream *s, struct js_doc *doc, struct str lines,
                       const struct face_sink *to)
{
    while (lines.n > 0 && !s->is_over) {
        const char *newline = memchr(lines.p, '\n', lines.n);
        size_t n = newline ? (size_t)(newline - lines.p) : lines.n;
        face_stream_line(s, doc, (struct str){lines.p, n}, to);
        n += newline ? 1 : 0;
        lines.p += n;
        lines.n -= n;
    }
}

static uint32_t find_member(const struct face_event *e, const char *member)
{
    return js_type(e->doc, 0) == JS_OBJECT ? js_get(e->doc, 0, member) : 0;
}

bool face_has(const struct face_event *e, const char *member)
{
    uint32_t at = find_member(e, member);
    return at && js_type(e->doc, at) != JS_NULL;
}

bool face_asks_yes_or_no(const struct face_event *e)
{
    struct buf scratch = {0};
    struct str kind = face_text(e, "kind", &scratch);
    bool yes_or_no = str_eq(kind, STR("approval")) || str_eq(kind, STR("budget"));
    buf_done(&scratch);
    return yes_or_no;
}

struct str face_text(const struct face_event *e, const char *member, struct buf *scratch)
{
    uint32_t at = find_member(e, member);
    if (!at || js_type(e->doc, at) != JS_STRING)
        return STR_NULL;
    if (e->doc->nodes[at].plain)
        return js_raw(e->doc, at);
    buf_clear(scratch);
    js_value(e->doc, at, scratch);
    return buf_str(scratch);
}

struct str face_text_and_json(const struct face_event *e, const char *member, struct buf *scratch,
                              struct buf *quoted, struct str *ret_json)
{
    struct str text = face_text(e, member, scratch);
    bool is_plain = text.p && text.p != scratch->bytes;
    *ret_json = is_plain ? (struct str){text.p - 1, text.n + 2} /* as it stands in the line */
                         : face_json(e, member, quoted);
    return text;
}

bool face_is_true(const struct face_event *e, const char *member)
{
    uint32_t at = find_member(e, member);
    return at && js_type(e->doc, at) == JS_TRUE;
}

struct str face_json(const struct face_event *e, const char *member, struct buf *scratch)
{
    uint32_t at = find_member(e, member);
    if (!at)
        return STR_NULL;
    if (js_type(e->doc, at) == JS_STRING && e->doc->nodes[at].plain) {
        struct str raw = js_raw(e->doc, at);
        return (struct str){raw.p - 1, raw.n + 2}; /* with its quotes */
    }
    buf_clear(scratch);
    js_copy(e->doc, at, scratch);
    return buf_str(scratch);
}

void face_copy(struct buf *out, const char *key, const struct face_event *e, const char *member,
               struct str fallback)
{
    uint32_t at = find_member(e, member);
    js_put_key(out, key);
    if (at)
        js_copy(e->doc, at, out);
    else
        buf_putstr(out, fallback);
}

void face_put_file_url(struct buf *out, const char *key, struct str base,
                       struct str conversation_id, const struct face_event *e)
{
    struct buf id = {0}, url = {0};
    buf_putstr(&url, base);
    buf_putf(&url, "/v1/conversations/%.*s/files/", (int)conversation_id.n, conversation_id.p);
    buf_putstr(&url, face_text(e, "file_id", &id));
    js_put_field(out, key, buf_str(&url));
    buf_done(&url);
    buf_done(&id);
}

void face_put_time(struct buf *out, const char *key, int64_t ms)
{
    char text[40];
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    if (ms <= 0 || !gmtime_r(&seconds, &tm) || !strftime(text, sizeof text, "%FT%T", &tm))
        return;
    js_put_key(out, key);
    buf_putf(out, "\"%s.%03dZ\"", text, (int)(ms % 1000));
}

#define HEAD_BYTES (MAX_OUTPUT - 3) /* a character has four bytes at most */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

/* Fingerprints do not outlive the program, so the order of bytes is the machine's. */
static uint64_t word_at(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static uint64_t said_value(const struct face_said *said)
{
    uint64_t hash = said->n;
    for (size_t i = 0; i < countof(said->lanes); i++)
        hash = mix(mix(hash, said->lanes[i]), word_at(said->rest + 8 * i));
    return hash;
}

/* The lanes do not wait for each other, so the processor works on all of them at once. */
static void said_take_blocks(struct face_said *said, const char *p, size_t n)
{
    uint64_t *lanes = said->lanes, a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3];
    for (; n > 0; n--, p += sizeof said->rest) {
        a = mix(a, word_at(p));
        b = mix(b, word_at(p + 8));
        c = mix(c, word_at(p + 16));
        d = mix(d, word_at(p + 24));
    }
    lanes[0] = a, lanes[1] = b, lanes[2] = c, lanes[3] = d;
}

/* A block at a time; the rest waits, so the pieces' ends do not matter. */
static void said_take(struct face_said *said, const char *p, size_t n)
{
    const size_t block = sizeof said->rest;
    size_t had = said->n % block, left = block - had;
    said->n += n;
    if (had && n >= left) {
        memcpy(said->rest + had, p, left);
        said_take_blocks(said, said->rest, 1);
        memset(said->rest, 0, block);
        p += left;
        n -= left;
        had = 0;
    }
    said_take_blocks(said, p, n / block);
    memcpy(said->rest + had, p + n / block * block, n % block);
}

void face_said_add(struct face_said *said, struct str text)
{
    if (!text.n)
        return; /* absent text has no pointer to go on from */
    size_t left = said->n < HEAD_BYTES ? HEAD_BYTES - (size_t)said->n : 0;
    size_t first = text.n < left ? text.n : left;
    said_take(said, text.p, first);
    if (first && first == left)
        said->head = said_value(said);
    said_take(said, text.p + first, text.n - first);
}

bool face_said_is(const struct face_said *said, struct str text)
{
    struct face_said other = {0};
    if (said->n != text.n)
        return false;
    face_said_add(&other, text);
    return said_value(&other) == said_value(said);
}

bool face_said_is_cut(const struct face_said *said, struct str text)
{
    struct face_said other = {0};
    if (text.n < HEAD_BYTES || text.n > MAX_OUTPUT || text.n >= said->n)
        return false;
    face_said_add(&other, (struct str){text.p, HEAD_BYTES});
    return other.head == said->head;
}
