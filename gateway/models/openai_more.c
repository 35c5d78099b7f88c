#include "gateway/models/openai_more.h"

#include <stdlib.h>

/* An object of a joined array: its text, which comes in pieces, and its other members. */
struct part {
    const char *text_name; /* "text"; NULL: it has none */
    struct buf text;
    struct openai_more more;
};

struct openai_member {
    char *name;
    struct buf json;    /* its value; unused for a joined array */
    struct part *parts; /* NULL: not a joined array */
    size_t n_parts;
};

static void free_member(struct openai_member *member)
{
    for (size_t i = 0; i < member->n_parts; i++) {
        buf_done(&member->parts[i].text);
        openai_more_done(&member->parts[i].more);
    }
    free(member->parts);
    free(member->name);
    buf_done(&member->json);
}

void openai_more_done(struct openai_more *m)
{
    for (size_t i = 0; i < m->n; i++)
        free_member(&m->list[i]);
    free(m->list);
    *m = (struct openai_more){0};
}

static void check_limit(struct openai_more *m)
{
    if (m->bytes <= OPENAI_MORE_BYTES)
        return;
    openai_more_done(m);
    m->is_over = true;
}

static struct openai_member *get(struct openai_more *m, struct str name)
{
    for (size_t i = 0; i < m->n; i++)
        if (str_eq(str_of(m->list[i].name), name))
            return &m->list[i];
    m->list = xrealloc(m->list, (m->n + 1) * sizeof *m->list);
    m->list[m->n] = (struct openai_member){.name = xstrdup(name)};
    m->bytes += name.n;
    return &m->list[m->n++];
}

void openai_more_set(struct openai_more *m, struct str name, const struct js_doc *doc,
                     uint32_t value)
{
    if (m->is_over || js_type(doc, value) == JS_NULL)
        return;
    struct openai_member *member = get(m, name);
    m->bytes -= member->json.len;
    buf_clear(&member->json);
    js_copy(doc, value, &member->json);
    m->bytes += member->json.len;
    check_limit(m);
}

static bool is_known(const struct js_doc *doc, uint32_t name, const char *const *known)
{
    for (; *known; known++)
        if (js_is(doc, name, *known))
            return true;
    return false;
}

void openai_more_take(struct openai_more *m, const struct js_doc *doc, uint32_t object,
                      const char *const *known)
{
    struct buf name = {0};
    for (uint32_t i = js_first(doc, object); i < js_end(doc, object); i = js_next(doc, i + 1)) {
        if (is_known(doc, i, known))
            continue;
        buf_clear(&name);
        js_value(doc, i, &name);
        openai_more_set(m, buf_str(&name), doc, i + 1);
    }
    buf_done(&name);
}

/* --- arrays whose objects come in pieces ------------------------------------------------------ */

/* The member that comes in pieces; NULL: there is none. */
static const char *text_name(const struct js_doc *doc, uint32_t object)
{
    static const char *const names[] = {"text", "summary", "thinking"};
    for (size_t i = 0; i < countof(names); i++) {
        uint32_t node = js_get(doc, object, names[i]);
        if (node && js_type(doc, node) == JS_STRING)
            return names[i];
    }
    return NULL;
}

static struct str kept(const struct openai_more *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->list[i].name, name) == 0)
            return buf_str(&m->list[i].json);
    return STR("");
}

static bool is_same(const struct openai_more *m, const struct js_doc *doc, uint32_t object,
                    const char *name)
{
    struct buf json = {0};
    uint32_t node = js_get(doc, object, name);
    if (node && js_type(doc, node) != JS_NULL)
        js_copy(doc, node, &json);
    bool same = str_eq(json.len ? buf_str(&json) : STR(""), kept(m, name));
    buf_done(&json);
    return same;
}

/* A further piece of the last object, which its signature has not closed; or that signature. */
static bool goes_on(const struct part *last, const struct js_doc *doc, uint32_t object)
{
    const char *name = text_name(doc, object);
    if (!last->text_name)
        return false;
    bool is_same_text = name && strcmp(name, last->text_name) == 0;
    bool signs = !name && js_get(doc, object, "signature");
    return (is_same_text || signs) && kept(&last->more, "signature").n <= 2 &&
           is_same(&last->more, doc, object, "type") && is_same(&last->more, doc, object, "index");
}

static struct part *add_part(struct openai_member *member, const char *text_name)
{
    member->parts = xrealloc(member->parts, (member->n_parts + 1) * sizeof *member->parts);
    member->parts[member->n_parts] = (struct part){.text_name = text_name};
    return &member->parts[member->n_parts++];
}

static void join(struct openai_member *member, const struct js_doc *doc, uint32_t object)
{
    struct part *part = member->n_parts ? &member->parts[member->n_parts - 1] : NULL;
    if (!part || !goes_on(part, doc, object))
        part = add_part(member, text_name(doc, object));
    uint32_t text = part->text_name ? js_get(doc, object, part->text_name) : 0;
    if (text)
        js_value(doc, text, &part->text);
    openai_more_take(&part->more, doc, object, (const char *[]){part->text_name, NULL});
}

void openai_more_join(struct openai_more *m, const char *name, const struct js_doc *doc,
                      uint32_t array)
{
    for (uint32_t i = js_first(doc, array); i < js_end(doc, array); i = js_next(doc, i)) {
        if (m->is_over || js_type(doc, i) != JS_OBJECT)
            continue;
        join(get(m, str_of(name)), doc, i);
        m->bytes += js_raw(doc, i).n; /* at least what is kept of it */
        check_limit(m);
    }
}

/* --- going back ------------------------------------------------------------------------------- */

static void put_parts(const struct openai_member *member, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < member->n_parts; i++) {
        const struct part *part = &member->parts[i];
        buf_puts(out, i ? ",{" : "{");
        openai_more_put(&part->more, out);
        if (part->text_name)
            js_put_field(out, part->text_name, buf_str(&part->text));
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

void openai_more_put(const struct openai_more *m, struct buf *out)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct openai_member *member = &m->list[i];
        if (out->len && out->bytes[out->len - 1] != '{')
            buf_putc(out, ',');
        js_put_str(out, str_of(member->name));
        buf_putc(out, ':');
        if (member->parts)
            put_parts(member, out);
        else
            buf_putstr(out, buf_str(&member->json));
    }
}
