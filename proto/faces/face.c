#include "proto/faces/face.h"

#include <time.h>

void face_stream_lines(struct face_stream *s, struct js_doc *doc, struct str lines,
                       const struct face_sink *to)
{
    while (lines.n > 0 && !s->is_over) {
        const char *newline = memchr(lines.p, '\n', lines.n);
        size_t n = newline ? (size_t)(newline - lines.p) : lines.n;
        struct event_parts parts;
        if (event_line_split((struct str){lines.p, n}, &parts) &&
            js_parse(doc, parts.data.p, parts.data.n, JS_OURS))
            face_stream_event(s,
                              &(struct face_event){.type = parts.event,
                                                   .seq = parts.seq,
                                                   .ts = parts.ts,
                                                   .doc = doc,
                                                   .line = {lines.p, n}},
                              to);
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

bool face_is_true(const struct face_event *e, const char *member)
{
    uint32_t at = find_member(e, member);
    return at && js_type(e->doc, at) == JS_TRUE;
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

/* FNV-1a, 64 bits. */
static uint64_t hash_on(uint64_t hash, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)p[i]) * 0x100000001b3u;
    return hash;
}

void face_said_add(struct face_said *said, struct str text)
{
    if (!text.n)
        return; /* absent text has no pointer to go on from */
    uint64_t hash = said->n ? said->hash : 0xcbf29ce484222325u;
    size_t left = said->n < HEAD_BYTES ? HEAD_BYTES - (size_t)said->n : 0;
    size_t first = text.n < left ? text.n : left;
    hash = hash_on(hash, text.p, first);
    if (first && first == left)
        said->head = hash;
    said->hash = hash_on(hash, text.p + first, text.n - first);
    said->n += text.n;
}

bool face_said_is(const struct face_said *said, struct str text)
{
    struct face_said other = {0};
    if (said->n != text.n)
        return false;
    face_said_add(&other, text);
    return text.n == 0 || other.hash == said->hash;
}

bool face_said_is_cut(const struct face_said *said, struct str text)
{
    struct face_said other = {0};
    if (text.n < HEAD_BYTES || text.n > MAX_OUTPUT || text.n >= said->n)
        return false;
    face_said_add(&other, (struct str){text.p, HEAD_BYTES});
    return other.head == said->head;
}
