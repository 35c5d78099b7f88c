/* Any text as what an MCP server may send: messages, lists of tools, results, tasks, questions.
 * Whatever it is, texts for a model are UTF-8 within their bounds, names are names, and what goes
 * back to the server is JSON. */
#include "proto/mcp/mcp_content.h"
#include "proto/mcp/mcp_form.h"
#include "proto/mcp/mcp_tool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct js_doc doc, other;

static void check_json(struct str text)
{
    bool good = js_parse(&other, text.p, text.n, JS_OURS);
    ASSERT(good);
}

static void check_tools(uint32_t result)
{
    struct mcp_catalog c = {0};
    enum mcp_page page = mcp_catalog_add(&c, &doc, result);
    if (page == MCP_PAGE_MORE) {
        check_json(buf_str(&c.cursor));
        (void)mcp_catalog_add(&c, &doc, result);
    }
    mcp_catalog_close(&c, "server");
    ASSERT(c.n <= MCP_TOOLS && c.bytes <= MCP_LIST_BYTES);
    for (size_t i = 0; i < c.n; i++) {
        const struct mcp_tool *t = &c.list[i];
        ASSERT(strlen(t->alias) <= MCP_ALIAS_BYTES);
        ASSERT(
            strspn(t->alias, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
            strlen(t->alias));
        ASSERT(utf8_valid(str_of(t->description)));
        check_json(str_of(t->parameters));
        for (size_t j = 0; j < i; j++)
            ASSERT(strcmp(t->alias, c.list[j].alias) != 0);
    }
    mcp_catalog_done(&c);
}

static void check_result(uint32_t result)
{
    struct mcp_task task;
    struct buf text = {0};
    (void)mcp_outcome_of(&doc, result);
    mcp_task_read(&doc, result, &task);
    (void)!mcp_content_put(&doc, result, &text);
    mcp_output_cut(&text);
    ASSERT(text.len <= MCP_OUTPUT + 64 && utf8_valid(buf_str(&text)));
    buf_done(&text);
}

static void check_question(uint32_t params, struct str answer)
{
    struct mcp_form form;
    struct buf text = {0}, quoted = {0};
    const char *why;
    if (!mcp_form_read(&form, &doc, params, &why))
        return;
    mcp_form_put_prompt(&form, "server", STR("wrong"), &text);
    ASSERT(utf8_valid(buf_str(&text)));
    js_put_str(&quoted, answer);
    if (mcp_form_take(&form, buf_str(&quoted), &text) != MCP_AGAIN)
        check_json(buf_str(&text));
    (void)mcp_form_take(&form, STR("true"), &text);
    (void)mcp_form_take(&form, STR("null"), &text);
    buf_done(&text);
    buf_done(&quoted);
    mcp_form_done(&form);
}

static void check_message(uint32_t node, struct str answer)
{
    struct mcp_message m;
    struct buf id = {0}, text = {0};
    mcp_message_read(&doc, node, &m);
    if (m.kind == MCP_RESULT) {
        check_tools(m.result);
        check_result(m.result);
    }
    if (m.kind == MCP_REQUEST) {
        js_copy(&doc, m.own_id, &id);
        mcp_put_answer(&text, buf_str(&id), STR("{}"));
        check_json(buf_str(&text));
    }
    if (m.params)
        check_question(m.params, answer);
    buf_done(&id);
    buf_done(&text);
}

/* The first line is the message, the second one the user's answer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *end = size ? memchr(text, '\n', size) : NULL;
    size_t n = end ? (size_t)(end - text) : size;
    struct str answer = {end ? end + 1 : "", end ? size - n - 1 : 0};
    struct buf header = {0};
    mcp_put_header_value(&header, answer);
    for (size_t i = 0; i < header.len; i++)
        ASSERT(header.bytes[i] >= ' ' && header.bytes[i] <= '~');
    buf_done(&header);
    if (!js_parse(&doc, text, n, JS_AGENT))
        return 0;
    if (js_type(&doc, 0) != JS_ARRAY)
        check_message(0, answer);
    else
        for (uint32_t i = js_first(&doc, 0); i < js_end(&doc, 0); i = js_next(&doc, i))
            check_message(i, answer);
    return 0;
}
