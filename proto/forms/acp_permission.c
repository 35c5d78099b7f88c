/* Permissions that an ACP agent asks for: approvals of the task, and the answers back. */
#include "proto/forms/acp.h"

#include <stdio.h>

/* --- asking ----------------------------------------------------------------------------------- */

/* Whether the task's approval can have it: an id that is not too long, and no NUL in it. */
static bool is_usable(struct str id)
{
    return id.n > 0 && id.n <= MAX_INPUT_ID && !memchr(id.p, 0, id.n);
}

static void put_options(struct acp *a, uint32_t options, struct buf *out)
{
    const struct js_doc *doc = &a->doc;
    size_t n = 0;
    buf_putc(out, '[');
    for (uint32_t i = options + 1; options && i < js_end(doc, options); i = js_next(doc, i)) {
        struct str id = say_text(doc, js_get(doc, i, "optionId"), &a->text);
        if (n == MAX_OPTIONS || !is_usable(id))
            continue;
        buf_puts(out, n++ ? ",{" : "{");
        js_put_field(out, "id", id);
        struct str name = say_text(doc, js_get(doc, i, "name"), &a->text);
        js_put_field(out, "name", js_fit(name, SAY_NAME));
        struct str kind = say_text(doc, js_get(doc, i, "kind"), &a->text);
        js_put_field(out, "kind", js_fit(kind, SAY_NAME));
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

static void ask(struct acp *a, unsigned number, uint32_t call, uint32_t options)
{
    const struct js_doc *doc = &a->doc;
    struct buf listed = {0}, name = {0};
    char input_id[32];
    snprintf(input_id, sizeof input_id, "permission-%u", number);
    put_options(a, options, &listed);
    struct str known =
        say_name(&a->calls, say_text(doc, say_member(doc, call, "toolCallId"), &a->text));
    struct str title = say_text(doc, say_member(doc, call, "title"), &a->text);
    buf_putstr(&name, title.n ? title : known);
    uint32_t arguments = say_member(doc, call, "rawInput");
    bool has_arguments = arguments && js_type(doc, arguments) == JS_OBJECT;
    say_approval(&a->said,
                 &(struct say_approval){
                     str_of(input_id),
                     name.len ? buf_str(&name) : STR("The agent asks for a permission."),
                     buf_str(&name), doc, has_arguments ? arguments : call, buf_str(&listed)});
    buf_done(&listed);
    buf_done(&name);
}

static void put_outcome(struct str option_id, struct buf *out)
{
    js_put_raw(out, "result", STR("{\"outcome\":{"));
    js_put_field(out, "outcome", option_id.p ? STR("selected") : STR("cancelled"));
    if (option_id.p)
        js_put_field(out, "optionId", option_id);
    buf_puts(out, "}}}\n");
}

void acp_permission(struct acp *a, uint32_t id, uint32_t params)
{
    const struct js_doc *doc = &a->doc;
    uint32_t options = js_get(doc, params, "options");
    if (options && js_type(doc, options) != JS_ARRAY)
        options = 0;
    if (a->awaits != ACP_AWAITS_PROMPT || a->cancelled || a->n_permissions == ACP_PERMISSIONS) {
        acp_put_id(a, id);
        put_outcome(STR_NULL, &a->out);
        return;
    }
    struct acp_permission *p = &a->permissions[a->n_permissions++];
    *p = (struct acp_permission){.number = ++a->asked};
    js_copy(doc, id, &p->id);
    if (options)
        js_copy(doc, options, &p->options);
    else
        buf_puts(&p->options, "[]");
    acp_tell_held(a, js_get(doc, params, "toolCall"));
    ask(a, p->number, js_get(doc, params, "toolCall"), options);
}

/* --- answering -------------------------------------------------------------------------------- */

static void permission_drop(struct acp *a, size_t at)
{
    buf_done(&a->permissions[at].id);
    buf_done(&a->permissions[at].options);
    a->n_permissions--;
    memmove(&a->permissions[at], &a->permissions[at + 1],
            (a->n_permissions - at) * sizeof a->permissions[0]);
}

/* option_id STR_NULL: it was cancelled. */
static void put_settled(const struct acp_permission *p, struct str option_id, struct buf *out)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\"");
    js_put_raw(out, "id", buf_str(&p->id));
    put_outcome(option_id, out);
}

void acp_cancel_permissions(struct acp *a)
{
    while (a->n_permissions) {
        put_settled(&a->permissions[0], STR_NULL, &a->out);
        permission_drop(a, 0);
    }
}

/* The id of the first option of that kind. */
static struct str find_kind(const struct js_doc *doc, const char *kind, struct buf *scratch)
{
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i))
        if (say_is(doc, i, "kind", kind) && js_get(doc, i, "optionId"))
            return say_text(doc, js_get(doc, i, "optionId"), scratch);
    return STR_NULL;
}

/* true never allows for ever: who means that answers with the option's id.  With nothing that fits
 * it was cancelled, which allows nothing. */
static struct str choose(const struct js_doc *options, bool allows, struct buf *scratch)
{
    if (allows)
        return find_kind(options, "allow_once", scratch);
    struct str once = find_kind(options, "reject_once", scratch);
    return once.p ? once : find_kind(options, "reject_always", scratch);
}

/* The permission that the line in doc answers; n_permissions: none that is open. */
static size_t find_asked(const struct acp *a)
{
    char input_id[32];
    size_t at = 0;
    uint32_t id = js_get(&a->doc, 0, "input_id");
    for (; at < a->n_permissions; at++) {
        snprintf(input_id, sizeof input_id, "permission-%u", a->permissions[at].number);
        if (id && js_is(&a->doc, id, input_id))
            break;
    }
    return at;
}

bool acp_put_answer(struct acp *a, struct str line, struct buf *out, unsigned *ret_number)
{
    struct js_doc *doc = &a->doc, *options = &a->other;
    if (!js_parse(doc, line.p, line.n, JS_AGENT))
        return false;
    size_t at = find_asked(a);
    uint32_t answer = js_get(doc, 0, "answer");
    if (at == a->n_permissions || !answer)
        return false;
    struct str json = buf_str(&a->permissions[at].options), chosen = STR_NULL;
    enum js_type type = js_type(doc, answer);
    if (type == JS_STRING)
        chosen = say_text(doc, answer, &a->text);
    else if ((type == JS_TRUE || type == JS_FALSE) && js_parse(options, json.p, json.n, JS_OURS))
        chosen = choose(options, type == JS_TRUE, &a->text);
    put_settled(&a->permissions[at], chosen, out);
    *ret_number = a->permissions[at].number;
    return true;
}

void acp_answered(struct acp *a, unsigned number)
{
    for (size_t at = 0; at < a->n_permissions; at++)
        if (a->permissions[at].number == number)
            permission_drop(a, at);
}

void acp_answer(struct acp *a, struct str line)
{
    unsigned number;
    if (acp_put_answer(a, line, &a->out, &number))
        acp_answered(a, number);
}
