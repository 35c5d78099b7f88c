#include "proto/mcp/mcp_form.h"

#include <math.h>
#include <stdlib.h>

#include "proto/forms/say.h"

/* A property of the form. */
struct field {
    const struct js_doc *doc;
    uint32_t key, schema;
};

/* --- reading ---------------------------------------------------------------------------------- */

/* Control characters would let a server imitate the gateway's own words. */
static void put_plain(struct buf *out, struct str text, size_t max)
{
    text.n = utf8_cut(text, max);
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        buf_putc(out, (c < ' ' && c != '\n') || c == 0x7f ? ' ' : text.p[i]);
    }
}

static bool form_read_url(struct mcp_form *f, const struct js_doc *doc, uint32_t params)
{
    (void)say_text(doc, js_get(doc, params, "url"), &f->url);
    struct str url = buf_str(&f->url);
    bool good = url.n <= MCP_FORM_URL && ((url.n > 8 && memcmp(url.p, "https://", 8) == 0) ||
                                          (url.n > 7 && memcmp(url.p, "http://", 7) == 0));
    for (size_t i = 0; i < url.n; i++)
        good &= (unsigned char)url.p[i] > ' ' && url.p[i] != 0x7f;
    return good;
}

static bool read_fields(struct mcp_form *f, const struct js_doc *doc, uint32_t schema)
{
    uint32_t properties = say_member(doc, schema, "properties"),
             required = say_member(doc, schema, "required");
    if (required && js_type(doc, required) == JS_ARRAY)
        js_copy(doc, required, &f->required);
    else
        buf_puts(&f->required, "[]");
    if (!properties || js_type(doc, properties) != JS_OBJECT) {
        buf_puts(&f->schema, "{}");
        return true;
    }
    for (uint32_t i = js_first(doc, properties); i < js_end(doc, properties);
         i = js_next(doc, i + 1)) {
        f->n_fields++;
        if (js_type(doc, i + 1) != JS_OBJECT || f->n_fields > MCP_FORM_FIELDS)
            return false;
    }
    js_copy(doc, properties, &f->schema);
    return f->schema.len + f->required.len <= MCP_FORM_BYTES;
}

bool mcp_form_read(struct mcp_form *f, const struct js_doc *doc, uint32_t params,
                   const char **ret_why)
{
    struct buf scratch = {0};
    uint32_t schema = js_get(doc, params, "requestedSchema");
    *f = (struct mcp_form){.is_url = say_is(doc, params, "mode", "url")};
    put_plain(&f->message, say_text(doc, js_get(doc, params, "message"), &scratch),
              MCP_FORM_MESSAGE);
    buf_done(&scratch);
    *ret_why = f->is_url ? "the URL is missing, or cannot be shown" : "the form cannot be asked";
    bool good = f->is_url
                    ? form_read_url(f, doc, params)
                    : read_fields(f, doc, schema && js_type(doc, schema) == JS_OBJECT ? schema : 0);
    if (!good)
        mcp_form_done(f);
    return good;
}

bool mcp_form_is_yes_or_no(const struct mcp_form *f)
{
    return f->is_url || f->n_fields == 0;
}

void mcp_form_done(struct mcp_form *f)
{
    buf_done(&f->message);
    buf_done(&f->schema);
    buf_done(&f->required);
    buf_done(&f->url);
    *f = (struct mcp_form){0};
}

/* --- the prompt ------------------------------------------------------------------------------- */

static void form_put_text(const struct field *f, const char *member, struct buf *out)
{
    struct buf scratch = {0};
    put_plain(out, say_text(f->doc, js_get(f->doc, f->schema, member), &scratch), 1024);
    buf_done(&scratch);
}

/* The values of an enum: enum, or the consts of oneOf or anyOf.  0: it is none. */
static uint32_t choices_of(const struct js_doc *doc, uint32_t schema)
{
    static const char *const members[] = {"enum", "oneOf", "anyOf"};
    for (size_t i = 0; i < countof(members); i++) {
        uint32_t node = js_get(doc, schema, members[i]);
        if (node && js_type(doc, node) == JS_ARRAY)
            return node;
    }
    return 0;
}

static uint32_t choice_value(const struct js_doc *doc, uint32_t choice)
{
    return js_type(doc, choice) == JS_OBJECT ? js_get(doc, choice, "const") : choice;
}

static void put_choices(const struct js_doc *doc, uint32_t choices, struct buf *out)
{
    bool first = true;
    buf_puts(out, " (one of ");
    for (uint32_t i = js_first(doc, choices); i < js_end(doc, choices); i = js_next(doc, i)) {
        uint32_t value = choice_value(doc, i);
        struct buf text = {0};
        if (!value)
            continue;
        js_copy(doc, value, &text);
        buf_puts(out, first ? "" : ", ");
        put_plain(out, buf_str(&text), 256);
        buf_done(&text);
        first = false;
    }
    buf_putc(out, ')');
}

static bool is_required(const struct mcp_form *f, struct str key)
{
    struct js_doc doc = {0};
    bool found = false;
    if (!js_parse(&doc, f->required.bytes, f->required.len, JS_OURS))
        return false;
    char *text = xstrdup(key);
    for (uint32_t i = js_first(&doc, 0); i < js_end(&doc, 0) && !found; i = js_next(&doc, i))
        found = js_type(&doc, i) == JS_STRING && js_is(&doc, i, text);
    free(text);
    js_done(&doc);
    return found;
}

static void put_field(const struct mcp_form *form, const struct field *f, struct buf *out)
{
    struct buf key = {0};
    js_value(f->doc, f->key, &key);
    buf_puts(out, "\n- ");
    put_plain(out, buf_str(&key), 256);
    uint32_t choices = choices_of(f->doc, f->schema), items = js_get(f->doc, f->schema, "items"),
             other = js_get(f->doc, f->schema, "default");
    if (!choices) {
        buf_puts(out, " (");
        form_put_text(f, "type", out);
        buf_putc(out, ')');
    }
    if (items && js_type(f->doc, items) == JS_OBJECT && choices_of(f->doc, items))
        put_choices(f->doc, choices_of(f->doc, items), out);
    if (choices)
        put_choices(f->doc, choices, out);
    if (!is_required(form, buf_str(&key)))
        buf_puts(out, ", optional");
    if (other) {
        struct buf value = {0};
        js_copy(f->doc, other, &value);
        buf_puts(out, ", else ");
        put_plain(out, buf_str(&value), 256);
        buf_done(&value);
    }
    if (js_get(f->doc, f->schema, "description")) {
        buf_puts(out, ": ");
        form_put_text(f, "description", out);
    }
    buf_done(&key);
}

void mcp_form_put_prompt(const struct mcp_form *f, const char *server, struct str wrong,
                         struct buf *out)
{
    struct js_doc doc = {0};
    if (wrong.n) {
        buf_putstr(out, wrong);
        buf_putc(out, '\n');
    }
    buf_putf(out, "The MCP server %s asks: ", server);
    buf_putstr(out, buf_str(&f->message));
    if (f->is_url) {
        buf_puts(out, "\nIt wants you to open this address yourself, and to say yes when that is "
                      "done:\n");
        buf_putstr(out, buf_str(&f->url));
        return;
    }
    if (f->n_fields == 0)
        return;
    if (js_parse(&doc, f->schema.bytes, f->schema.len, JS_OURS))
        for (uint32_t i = js_first(&doc, 0); i < js_end(&doc, 0); i = js_next(&doc, i + 1))
            put_field(f, &(struct field){&doc, i, i + 1}, out);
    js_done(&doc);
    buf_puts(out, f->n_fields == 1 ? "\nAnswer with the value"
                                   : "\nAnswer with a JSON object of these fields");
    buf_puts(out, ", or \"decline\".");
}

/* --- the answer ------------------------------------------------------------------------------- */

static bool is_choice(const struct js_doc *schemas, uint32_t choices, const struct js_doc *doc,
                      uint32_t value)
{
    struct buf text = {0}, one = {0};
    bool found = false;
    js_copy(doc, value, &text);
    for (uint32_t i = js_first(schemas, choices); i < js_end(schemas, choices) && !found;
         i = js_next(schemas, i)) {
        uint32_t node = choice_value(schemas, i);
        buf_clear(&one);
        if (node)
            js_copy(schemas, node, &one);
        found = node && str_eq(buf_str(&one), buf_str(&text));
    }
    buf_done(&text);
    buf_done(&one);
    return found;
}

static bool is_in_range(const struct field *f, double value)
{
    double least, most;
    uint32_t minimum = js_get(f->doc, f->schema, "minimum"),
             maximum = js_get(f->doc, f->schema, "maximum");
    return !(minimum && js_double(f->doc, minimum, &least) && value < least) &&
           !(maximum && js_double(f->doc, maximum, &most) && value > most);
}

/* NULL, or what the value must be. */
static const char *fault_of_number(const struct field *f, const struct js_doc *doc, uint32_t value)
{
    double number;
    bool whole = say_is(f->doc, f->schema, "type", "integer");
    if (js_type(doc, value) != JS_NUMBER || !js_double(doc, value, &number) ||
        (whole && floor(number) != number))
        return whole ? "must be an integer" : "must be a number";
    return is_in_range(f, number) ? NULL : "is out of its range";
}

static const char *fault_of_list(const struct field *f, const struct js_doc *doc, uint32_t value)
{
    uint32_t items = js_get(f->doc, f->schema, "items");
    uint32_t choices = items && js_type(f->doc, items) == JS_OBJECT ? choices_of(f->doc, items) : 0;
    if (js_type(doc, value) != JS_ARRAY)
        return "must be a list";
    for (uint32_t i = js_first(doc, value); i < js_end(doc, value); i = js_next(doc, i))
        if (js_type(doc, i) != JS_STRING || (choices && !is_choice(f->doc, choices, doc, i)))
            return "must be a list of the values that are offered";
    return NULL;
}

static const char *fault_of(const struct field *f, const struct js_doc *doc, uint32_t value)
{
    uint32_t choices = choices_of(f->doc, f->schema);
    if (choices)
        return is_choice(f->doc, choices, doc, value) ? NULL : "must be one of the values offered";
    if (say_is(f->doc, f->schema, "type", "boolean"))
        return js_type(doc, value) == JS_TRUE || js_type(doc, value) == JS_FALSE
                   ? NULL
                   : "must be true or false";
    if (say_is(f->doc, f->schema, "type", "integer") || say_is(f->doc, f->schema, "type", "number"))
        return fault_of_number(f, doc, value);
    if (say_is(f->doc, f->schema, "type", "array"))
        return fault_of_list(f, doc, value);
    return js_type(doc, value) == JS_STRING ? NULL : "must be a text";
}

static void put_fault(struct buf *ret, const struct field *f, const char *why)
{
    struct buf key = {0};
    js_value(f->doc, f->key, &key);
    buf_clear(ret);
    buf_putc(ret, '"');
    put_plain(ret, buf_str(&key), 256);
    buf_putf(ret, "\" %s.", why);
    buf_done(&key);
}

/* The object that the user has written, field by field; what the form does not have is dropped. */
static bool put_object(const struct mcp_form *form, const struct js_doc *schemas,
                       const struct js_doc *doc, struct buf *ret)
{
    struct buf key = {0};
    const char *why = NULL;
    buf_puts(ret, "{\"action\":\"accept\",\"content\":{");
    for (uint32_t i = js_first(schemas, 0); i < js_end(schemas, 0) && !why;
         i = js_next(schemas, i + 1)) {
        struct field f = {schemas, i, i + 1};
        buf_clear(&key);
        js_value(schemas, i, &key);
        buf_putc(&key, 0);
        uint32_t value = js_get(doc, 0, key.bytes);
        if (!value || js_type(doc, value) == JS_NULL) {
            why = is_required(form, (struct str){key.bytes, key.len - 1}) ? "is missing" : NULL;
        } else if (!(why = fault_of(&f, doc, value))) {
            buf_puts(ret, ret->bytes[ret->len - 1] == '{' ? "" : ",");
            js_put_str(ret, (struct str){key.bytes, key.len - 1});
            buf_putc(ret, ':');
            js_copy(doc, value, ret);
        }
        if (why)
            put_fault(ret, &f, why);
    }
    buf_done(&key);
    if (!why)
        buf_puts(ret, "}}");
    return !why;
}

/* The only field's value as a text: quoted when it is one, else as it stands. */
static void put_only(const struct js_doc *schemas, struct str text, struct buf *out)
{
    struct js_doc doc = {0};
    struct buf quoted = {0}, key = {0};
    uint32_t schema = js_first(schemas, 0) + 1;
    struct field f = {schemas, schema - 1, schema};
    js_put_str(&quoted, text);
    bool fits = js_parse(&doc, quoted.bytes, quoted.len, JS_OURS) && !fault_of(&f, &doc, 0);
    if (!fits && js_parse(&doc, text.p, text.n, JS_AGENT)) {
        buf_clear(&quoted);
        js_copy(&doc, 0, &quoted);
    }
    js_value(schemas, schema - 1, &key);
    buf_putc(out, '{');
    js_put_str(out, buf_str(&key));
    buf_putc(out, ':');
    buf_putstr(out, buf_str(&quoted));
    buf_putc(out, '}');
    js_done(&doc);
    buf_done(&quoted);
    buf_done(&key);
}

static enum mcp_verdict form_take_text(const struct mcp_form *f, struct str text, struct buf *ret)
{
    struct js_doc schemas = {0}, doc = {0};
    struct buf object = {0};
    enum mcp_verdict verdict = MCP_AGAIN;
    if (!js_parse(&schemas, f->schema.bytes, f->schema.len, JS_OURS))
        return MCP_CANCEL; /* it was read before */
    bool is_object = js_parse(&doc, text.p, text.n, JS_AGENT) && js_type(&doc, 0) == JS_OBJECT;
    if (!is_object && f->n_fields == 1) {
        put_only(&schemas, text, &object);
        is_object = js_parse(&doc, object.bytes, object.len, JS_AGENT);
    }
    if (!is_object)
        buf_puts(ret, "The answer must be a JSON object.");
    else if (put_object(f, &schemas, &doc, ret))
        verdict = MCP_ACCEPT;
    js_done(&schemas);
    js_done(&doc);
    buf_done(&object);
    return verdict;
}

enum mcp_verdict mcp_form_take(const struct mcp_form *f, struct str answer, struct buf *ret)
{
    struct js_doc doc = {0};
    struct buf text = {0};
    enum mcp_verdict verdict = MCP_CANCEL;
    bool is_json = js_parse(&doc, answer.p, answer.n, JS_OURS);
    enum js_type type = is_json ? js_type(&doc, 0) : JS_NULL;
    buf_clear(ret);
    if (type == JS_STRING)
        js_value(&doc, 0, &text);
    if (type == JS_FALSE ||
        (type == JS_STRING && (text.len == 0 || str_eq(buf_str(&text), STR("decline")))))
        verdict = MCP_DECLINE;
    else if (type == JS_TRUE && mcp_form_is_yes_or_no(f))
        verdict = MCP_ACCEPT;
    else if (type == JS_STRING && !mcp_form_is_yes_or_no(f))
        verdict = form_take_text(f, buf_str(&text), ret);
    if (verdict == MCP_DECLINE)
        buf_puts(ret, "{\"action\":\"decline\"}");
    else if (verdict == MCP_CANCEL)
        buf_puts(ret, "{\"action\":\"cancel\"}");
    else if (verdict == MCP_ACCEPT && ret->len == 0)
        buf_puts(ret,
                 f->is_url ? "{\"action\":\"accept\"}" : "{\"action\":\"accept\",\"content\":{}}");
    js_done(&doc);
    buf_done(&text);
    return verdict;
}
