#include "proto/faces/face.h"

static uint32_t find(const struct face_event *e, const char *member)
{
    return js_type(e->doc, 0) == JS_OBJECT ? js_get(e->doc, 0, member) : 0;
}

bool face_has(const struct face_event *e, const char *member)
{
    uint32_t at = find(e, member);
    return at && js_type(e->doc, at) != JS_NULL;
}

struct str face_text(const struct face_event *e, const char *member, struct buf *scratch)
{
    uint32_t at = find(e, member);
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
    uint32_t at = find(e, member);
    return at && js_type(e->doc, at) == JS_TRUE;
}

void face_copy(struct buf *out, const char *key, const struct face_event *e, const char *member,
               struct str fallback)
{
    uint32_t at = find(e, member);
    js_put_key(out, key);
    if (at)
        js_copy(e->doc, at, out);
    else
        buf_putstr(out, fallback);
}

/* FNV-1a, 64 bits. */
void face_said_add(struct face_said *said, struct str text)
{
    uint64_t hash = said->n ? said->hash : 0xcbf29ce484222325u;
    for (size_t i = 0; i < text.n; i++)
        hash = (hash ^ (unsigned char)text.p[i]) * 0x100000001b3u;
    said->hash = hash;
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
