#include "proto/mcp/mcp_tool.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/forms/say.h"
#include "proto/str.h"

#define HASH_BYTES 9 /* "_" and eight digits */

static uint64_t hash_of(struct str text)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < text.n; i++)
        hash = (hash ^ (unsigned char)text.p[i]) * 1099511628211u;
    return hash;
}

/* --- one tool --------------------------------------------------------------------------------- */

/* A description without characters that nobody sees, and that turn a line around. */
static char *read_description(const struct js_doc *doc, uint32_t node, struct buf *scratch)
{
    struct str text = say_text(doc, node, scratch);
    struct buf out = {0};
    text.n = utf8_cut(text, MCP_DESCRIPTION_BYTES);
    for (size_t i = 0; i < text.n;) {
        uint32_t c;
        size_t n = utf8_step(text.p + i, text.n - i, &c);
        bool is_hidden = (c < ' ' && c != '\n' && c != '\t') || (c >= 0x7f && c <= 0x9f) ||
                         (c >= 0x200b && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) ||
                         (c >= 0x2060 && c <= 0x2069) || (c >= 0xe0000 && c <= 0xe007f);
        if (!is_hidden)
            buf_put(&out, text.p + i, n);
        i += n;
    }
    if (!out.bytes)
        buf_puts(&out, "");
    return buf_take(&out);
}

static char *read_schema(const struct js_doc *doc, uint32_t schema)
{
    struct buf out = {0};
    js_copy(doc, schema, &out);
    if (!js_get(doc, schema, "properties")) {
        out.len--;
        js_put_raw(&out, "properties", STR("{}"));
        buf_putc(&out, '}');
    }
    return buf_take(&out);
}

/* RFC 9110 section 5.6.2: a token. */
static bool is_token(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] <= ' ' || text.p[i] >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", text.p[i]))
            return false;
    return text.n > 0 && text.n <= MCP_NAME_BYTES;
}

/* An argument that is a header as well.  NULL, or what is wrong. */
static const char *read_header(const struct js_doc *doc, uint32_t key, uint32_t property,
                               struct mcp_tool *t, struct buf *scratch)
{
    uint32_t header = js_get(doc, property, "x-mcp-header");
    if (!header)
        return NULL;
    struct str name = say_text(doc, header, scratch);
    if (!is_token(name))
        return "x-mcp-header is not the name of a header";
    if (!say_is(doc, property, "type", "string") && !say_is(doc, property, "type", "integer") &&
        !say_is(doc, property, "type", "boolean"))
        return "x-mcp-header stands on an argument that is no text, integer or boolean";
    for (size_t i = 0; i < t->n_headers; i++)
        if (str_of(t->headers[i].header).n == name.n &&
            str_begins_nocase(name, str_of(t->headers[i].header)))
            return "x-mcp-header names one header twice";
    if (t->n_headers == MCP_HEADERS)
        return "too many arguments with x-mcp-header";
    struct mcp_header *to = &t->headers[t->n_headers++];
    to->header = xstrdup(name);
    to->argument = xstrdup(say_text(doc, key, scratch));
    return NULL;
}

static const char *read_headers(const struct js_doc *doc, uint32_t schema, struct mcp_tool *t,
                                struct buf *scratch)
{
    uint32_t properties = js_get(doc, schema, "properties");
    if (!properties || js_type(doc, properties) != JS_OBJECT)
        return NULL;
    for (uint32_t i = js_first(doc, properties); i < js_end(doc, properties);
         i = js_next(doc, i + 1)) {
        const char *why =
            js_type(doc, i + 1) == JS_OBJECT ? read_header(doc, i, i + 1, t, scratch) : NULL;
        if (why)
            return why;
    }
    return NULL;
}

static enum mcp_task_support read_tasks(const struct js_doc *doc, uint32_t node)
{
    uint32_t execution = js_get(doc, node, "execution");
    if (!execution || js_type(doc, execution) != JS_OBJECT)
        return MCP_TASKS_FORBIDDEN;
    if (say_is(doc, execution, "taskSupport", "required"))
        return MCP_TASKS_REQUIRED;
    return say_is(doc, execution, "taskSupport", "optional") ? MCP_TASKS_OPTIONAL
                                                             : MCP_TASKS_FORBIDDEN;
}

/* NULL, or why it is left out. */
static const char *read_tool(const struct js_doc *doc, uint32_t node, struct mcp_tool *t,
                             struct buf *scratch)
{
    uint32_t schema = js_get(doc, node, "inputSchema"), hints = js_get(doc, node, "annotations");
    if (!schema || js_type(doc, schema) != JS_OBJECT || !say_is(doc, schema, "type", "object"))
        return "its inputSchema is no schema of an object";
    t->parameters = read_schema(doc, schema);
    if (strlen(t->parameters) > MCP_SCHEMA_BYTES)
        return "its inputSchema exceeds 32 KiB";
    t->description = read_description(doc, js_get(doc, node, "description"), scratch);
    if (hints && js_type(doc, hints) == JS_OBJECT) {
        uint32_t hint = js_get(doc, hints, "readOnlyHint");
        t->is_read_only = hint && js_type(doc, hint) == JS_TRUE;
    }
    t->tasks = read_tasks(doc, node);
    buf_clear(scratch);
    js_copy(doc, node, scratch);
    t->digest = hash_of(buf_str(scratch));
    return read_headers(doc, schema, t, scratch);
}

void mcp_tool_done(struct mcp_tool *tool)
{
    free(tool->name);
    free(tool->alias);
    free(tool->description);
    free(tool->parameters);
    for (size_t i = 0; i < tool->n_headers; i++) {
        free(tool->headers[i].argument);
        free(tool->headers[i].header);
    }
    *tool = (struct mcp_tool){0};
}

/* --- pages ------------------------------------------------------------------------------------ */

static bool has_name(const struct mcp_catalog *c, struct str name)
{
    for (size_t i = 0; i < c->n; i++)
        if (str_eq(str_of(c->list[i].name), name))
            return true;
    return false;
}

static const char *add_tool(struct mcp_catalog *c, const struct js_doc *doc, uint32_t node,
                            struct mcp_tool *t)
{
    if (c->n == MCP_TOOLS)
        return "the server has more than 512 tools";
    if (has_name(c, str_of(t->name)))
        return "another one has the same name";
    const char *why = read_tool(doc, node, t, &c->scratch);
    if (why)
        return why;
    size_t bytes = strlen(t->parameters) + strlen(t->description);
    if (c->bytes + bytes > MCP_LIST_BYTES)
        return "the server's schemas and descriptions exceed 1 MiB";
    c->bytes += bytes;
    return NULL;
}

static void take_tool(struct mcp_catalog *c, const struct js_doc *doc, uint32_t node)
{
    struct mcp_tool t = {0};
    const char *why = "it has no name";
    if (js_type(doc, node) != JS_OBJECT)
        return;
    struct str name = say_text(doc, js_get(doc, node, "name"), &c->scratch);
    if (name.n && name.n <= MCP_NAME_BYTES && !memchr(name.p, 0, name.n)) {
        t.name = xstrdup(name);
        why = add_tool(c, doc, node, &t);
    }
    if (why) {
        if (c->left_out)
            c->left_out(c->arg, str_of(t.name ? t.name : ""), why);
        mcp_tool_done(&t);
        return;
    }
    c->list = xrealloc(c->list, (c->n + 1) * sizeof *c->list);
    c->list[c->n++] = t;
}

/* Whether the list goes on, to a page that it has not led to before. */
static bool follow_cursor(struct mcp_catalog *c, const struct js_doc *doc, uint32_t result)
{
    uint32_t next = js_get(doc, result, "nextCursor");
    if (!next || js_type(doc, next) != JS_STRING || c->pages == MCP_PAGES)
        return false;
    buf_clear(&c->cursor);
    js_copy(doc, next, &c->cursor);
    uint64_t hash = hash_of(buf_str(&c->cursor));
    for (unsigned i = 0; i + 1 < c->pages; i++)
        if (c->cursors[i] == hash)
            return false;
    c->cursors[c->pages - 1] = hash;
    return true;
}

enum mcp_page mcp_catalog_add(struct mcp_catalog *c, const struct js_doc *doc, uint32_t result)
{
    uint32_t tools = js_get(doc, result, "tools");
    if (!tools || js_type(doc, tools) != JS_ARRAY)
        return MCP_PAGE_BAD;
    c->pages++;
    for (uint32_t i = js_first(doc, tools); i < js_end(doc, tools); i = js_next(doc, i))
        take_tool(c, doc, i);
    return follow_cursor(c, doc, result) ? MCP_PAGE_MORE : MCP_PAGE_LAST;
}

/* --- aliases ---------------------------------------------------------------------------------- */

static void put_alias(struct buf *out, const char *server, const char *name)
{
    buf_clear(out);
    buf_putf(out, "%s__", server);
    for (const char *p = name; *p; p++) {
        bool good = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || is_digit(*p) ||
                    *p == '_' || *p == '-';
        buf_putc(out, good ? *p : '_');
    }
}

static void put_hashed(struct mcp_tool *t, struct buf *scratch)
{
    struct buf alias = {0};
    size_t n =
        scratch->len < MCP_ALIAS_BYTES - HASH_BYTES ? scratch->len : MCP_ALIAS_BYTES - HASH_BYTES;
    buf_putf(&alias, "%.*s_%08x", (int)n, scratch->bytes,
             (unsigned)(hash_of(str_of(t->name)) >> 32));
    free(t->alias);
    t->alias = buf_take(&alias);
}

static bool shares_alias(const struct mcp_catalog *c, size_t at)
{
    for (size_t i = 0; i < c->n; i++)
        if (i != at && strcmp(c->list[i].alias, c->list[at].alias) == 0)
            return true;
    return false;
}

void mcp_catalog_close(struct mcp_catalog *c, const char *server)
{
    bool *hash = xcalloc(c->n + 1);
    for (size_t i = 0; i < c->n; i++) {
        put_alias(&c->scratch, server, c->list[i].name);
        c->list[i].alias = xstrdup(buf_str(&c->scratch));
    }
    for (size_t i = 0; i < c->n; i++)
        hash[i] = strlen(c->list[i].alias) > MCP_ALIAS_BYTES || shares_alias(c, i);
    for (size_t i = 0; i < c->n; i++) {
        if (!hash[i])
            continue;
        put_alias(&c->scratch, server, c->list[i].name);
        put_hashed(&c->list[i], &c->scratch);
    }
    free(hash);
    for (size_t i = 0; i < c->n; i++) { /* two names with one hash */
        if (!shares_alias(c, i))
            continue;
        if (c->left_out)
            c->left_out(c->arg, str_of(c->list[i].name), "its name cannot be told from another's");
        mcp_tool_done(&c->list[i]);
        c->list[i] = c->list[--c->n];
        i--;
    }
}

void mcp_catalog_done(struct mcp_catalog *c)
{
    for (size_t i = 0; i < c->n; i++)
        mcp_tool_done(&c->list[i]);
    free(c->list);
    c->list = NULL;
    c->n = c->bytes = c->pages = 0;
    buf_done(&c->cursor);
    buf_done(&c->scratch);
}
