/* The state of a turn, for a gateway that goes on with it after a restart. */
#include <stdlib.h>

#include "proto/forms/acp.h"

static const struct {
    const char *key;
    size_t at; /* a bool, false when the key is missing */
} state_flags[] = {{"can_load", offsetof(struct acp, can_load)},
                   {"can_resume", offsetof(struct acp, can_resume)},
                   {"can_mcp_http", offsetof(struct acp, can_mcp_http)},
                   {"can_image", offsetof(struct acp, can_image)},
                   {"has_authenticated", offsetof(struct acp, has_authenticated)},
                   {"resumed", offsetof(struct acp, resumed)},
                   {"waits_for_files", offsetof(struct acp, waits_for_files)},
                   {"cancelled", offsetof(struct acp, cancelled)}};

static const struct {
    const char *key;
    size_t at; /* a buf, "" when the key is missing */
} state_texts[] = {{"session", offsetof(struct acp, session)},
                   {"methods", offsetof(struct acp, methods)},
                   {"held", offsetof(struct acp, held)}};

/* --- writing ---------------------------------------------------------------------------------- */

static void put_calls(const struct say_calls *calls, struct buf *out)
{
    for (size_t i = 0; i < calls->n; i++) {
        buf_puts(out, i ? ",[" : "[");
        js_put_str(out, str_of(calls->list[i].id));
        buf_putc(out, ',');
        js_put_str(out, str_of(calls->list[i].name));
        buf_putc(out, ',');
        js_put_str(out, calls->list[i].output ? str_of(calls->list[i].output) : STR(""));
        buf_putc(out, ']');
    }
}

void acp_put_state(const struct acp *a, struct buf *out)
{
    js_put_int(out, "awaits", (int64_t)a->awaits);
    js_put_int(out, "id", a->id);
    js_put_int(out, "asked", a->asked);
    for (size_t i = 0; i < countof(state_flags); i++)
        if (*(const bool *)((const char *)a + state_flags[i].at))
            js_put_bool(out, state_flags[i].key, true);
    for (size_t i = 0; i < countof(state_texts); i++) {
        const struct buf *text = (const void *)((const char *)a + state_texts[i].at);
        if (text->len)
            js_put_field(out, state_texts[i].key, buf_str(text));
    }
    js_put_raw(out, "calls", STR("["));
    put_calls(&a->calls, out);
    buf_putc(out, ']');
    js_put_raw(out, "permissions", STR("["));
    for (size_t i = 0; i < a->n_permissions; i++) {
        buf_putf(out, "%s[%u,", i ? "," : "", a->permissions[i].number);
        js_put_str(out, buf_str(&a->permissions[i].id));
        buf_putc(out, ',');
        js_put_str(out, buf_str(&a->permissions[i].options));
        buf_putc(out, ']');
    }
    buf_putc(out, ']');
    js_put_raw(out, "waits", STR("["));
    for (size_t i = 0; i < a->n_waits; i++) {
        buf_putf(out, "%s[%u,", i ? "," : "", a->waits[i].number);
        js_put_str(out, buf_str(&a->waits[i].id));
        buf_putc(out, ']');
    }
    buf_putc(out, ']');
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool take_count(const struct js_doc *doc, uint32_t node, int64_t most, int64_t *ret)
{
    return node && js_type(doc, node) == JS_NUMBER && js_int(doc, node, ret) && *ret >= 0 &&
           *ret <= most;
}

/* An array of n members, all of them texts but the first, when that is a number: their nodes. */
static bool take_row(const struct js_doc *doc, uint32_t row, size_t n, bool counts,
                     uint32_t nodes[3])
{
    if (js_type(doc, row) != JS_ARRAY || doc->nodes[row].kids != n)
        return false;
    nodes[0] = row + 1;
    for (size_t i = 1; i < n; i++)
        nodes[i] = js_next(doc, nodes[i - 1]);
    for (size_t i = 0; i < n; i++)
        if (js_type(doc, nodes[i]) != (counts && i == 0 ? JS_NUMBER : JS_STRING))
            return false;
    return true;
}

static bool take_call(struct acp *a, const struct js_doc *doc, uint32_t row)
{
    uint32_t nodes[3];
    struct buf texts[3] = {{0}, {0}, {0}};
    bool good = take_row(doc, row, 3, false, nodes);
    for (size_t i = 0; good && i < 3; i++)
        js_value(doc, nodes[i], &texts[i]);
    if (good)
        say_calls_add(&a->calls, buf_str(&texts[0]), buf_str(&texts[1]));
    if (good && texts[2].len)
        say_keep_output(&a->calls, buf_str(&texts[0]), buf_str(&texts[2]));
    for (size_t i = 0; i < 3; i++)
        buf_done(&texts[i]);
    return good;
}

/* The JSON of an id, or of options. */
static bool take_json(struct acp *a, const struct js_doc *doc, uint32_t node, struct buf *to)
{
    js_value(doc, node, to);
    return js_parse(&a->other, to->bytes, to->len, JS_AGENT);
}

static bool take_permission(struct acp *a, const struct js_doc *doc, uint32_t row)
{
    uint32_t nodes[3];
    int64_t number = 0;
    if (!take_row(doc, row, 3, true, nodes) || !take_count(doc, nodes[0], UINT32_MAX, &number))
        return false;
    struct acp_permission *p = &a->permissions[a->n_permissions++];
    *p = (struct acp_permission){.number = (unsigned)number};
    return take_json(a, doc, nodes[1], &p->id) && take_json(a, doc, nodes[2], &p->options);
}

static bool take_wait(struct acp *a, const struct js_doc *doc, uint32_t row)
{
    uint32_t nodes[3];
    int64_t number = 0;
    if (!take_row(doc, row, 2, true, nodes) || !take_count(doc, nodes[0], UINT32_MAX, &number))
        return false;
    struct acp_wait *w = &a->waits[a->n_waits++];
    *w = (struct acp_wait){.number = (unsigned)number};
    return take_json(a, doc, nodes[1], &w->id);
}

static const struct {
    const char *key;
    bool (*take)(struct acp *a, const struct js_doc *doc, uint32_t row);
    size_t most;
} state_lists[] = {{"calls", take_call, SAY_CALLS},
                   {"permissions", take_permission, ACP_PERMISSIONS},
                   {"waits", take_wait, ACP_WAITS}};

static bool take_lists(struct acp *a, const struct js_doc *doc, uint32_t object)
{
    for (size_t i = 0; i < countof(state_lists); i++) {
        uint32_t list = js_get(doc, object, state_lists[i].key);
        if (!list || js_type(doc, list) != JS_ARRAY || doc->nodes[list].kids > state_lists[i].most)
            return false;
        for (uint32_t row = list + 1; row < js_end(doc, list); row = js_next(doc, row))
            if (!state_lists[i].take(a, doc, row))
                return false;
    }
    return true;
}

static bool take_texts(struct acp *a, const struct js_doc *doc, uint32_t object)
{
    for (size_t i = 0; i < countof(state_texts); i++) {
        uint32_t node = js_get(doc, object, state_texts[i].key);
        if (node && js_type(doc, node) != JS_STRING)
            return false;
        if (node)
            js_value(doc, node, (struct buf *)(void *)((char *)a + state_texts[i].at));
    }
    return a->held.len == 0 || (js_parse(&a->other, a->held.bytes, a->held.len, JS_AGENT) &&
                                js_type(&a->other, 0) == JS_OBJECT);
}

bool acp_take_state(struct acp *a, const struct acp_options *o, const struct js_doc *doc,
                    uint32_t object)
{
    int64_t awaits = 0, id = 0, asked = 0;
    *a = (struct acp){.o = *o};
    if (js_type(doc, object) != JS_OBJECT ||
        !take_count(doc, js_get(doc, object, "awaits"), ACP_AWAITS_PROMPT, &awaits) ||
        !take_count(doc, js_get(doc, object, "id"), MAX_SAFE_INTEGER, &id) ||
        !take_count(doc, js_get(doc, object, "asked"), UINT32_MAX, &asked))
        return false;
    a->awaits = (enum acp_awaits)awaits;
    a->id = id;
    a->asked = (unsigned)asked;
    for (size_t i = 0; i < countof(state_flags); i++) {
        uint32_t node = js_get(doc, object, state_flags[i].key);
        *(bool *)((char *)a + state_flags[i].at) = node && js_type(doc, node) == JS_TRUE;
    }
    return take_texts(a, doc, object) && take_lists(a, doc, object);
}
