/* mcp_tool -- the tools that a server of the Model Context Protocol lists, page by page.
 *
 * Shape:    pure.  A catalog takes the pages of tools/list; mcp_catalog_close gives each tool the
 *           alias that a model knows it by: SERVER__TOOL, with what a model's API refuses in a name
 *           as "_".  One that is too long, or that another tool has too, ends in eight digits of a
 *           hash of the true name, so that an alias depends on no order.
 * Schemas:  go to the model as they are, except that an object without "properties" gets an empty
 *           one, because some models' APIs refuse its absence.
 * Left out: a tool without a name or an object as its schema, a second one of the same name, and
 *           what exceeds the limits below; `left_out` is told of each.
 * Thread:   any; one at a time.
 * Owns:     its tools' texts, until mcp_catalog_done.
 */
#ifndef PROTO_MCP_MCP_TOOL_H
#define PROTO_MCP_MCP_TOOL_H

#include "proto/mcp/mcp_message.h"

#define MCP_PAGES 64
#define MCP_TOOLS 512
#define MCP_LIST_BYTES (1024 * 1024) /* of a server's schemas and descriptions */
#define MCP_SCHEMA_BYTES (32 * 1024)
#define MCP_DESCRIPTION_BYTES 4096 /* a longer one is cut */
#define MCP_NAME_BYTES 256
#define MCP_ALIAS_BYTES 64 /* what models' APIs take */
#define MCP_SERVER_BYTES 24
#define MCP_HEADERS 16 /* arguments of one tool that are headers as well */

enum mcp_task_support { MCP_TASKS_FORBIDDEN, MCP_TASKS_OPTIONAL, MCP_TASKS_REQUIRED };

/* An argument that is sent as a header of HTTP as well (x-mcp-header). */
struct mcp_header {
    char *argument, *header;
};

struct mcp_tool {
    char *name, *alias;
    char *description; /* "" for none */
    char *parameters;  /* JSON Schema */
    bool is_read_only; /* it says so */
    enum mcp_task_support tasks;
    uint64_t digest; /* of all that it says */
    struct mcp_header headers[MCP_HEADERS];
    size_t n_headers;
};

struct mcp_catalog {
    void (*left_out)(void *arg, struct str name, const char *why);
    void *arg;
    struct mcp_tool *list;
    size_t n;
    size_t bytes;
    unsigned pages;
    struct buf cursor;           /* of the next page, as JSON */
    uint64_t cursors[MCP_PAGES]; /* hashes of those that were followed */
    struct buf scratch;
};

enum mcp_page { MCP_PAGE_LAST, MCP_PAGE_MORE, MCP_PAGE_BAD };

/* The result of one tools/list.  MCP_PAGE_MORE: `cursor` leads to the next.  A list that leads back
 * to a page, or has too many, ends. */
enum mcp_page mcp_catalog_add(struct mcp_catalog *c, const struct js_doc *doc, uint32_t result);
void mcp_catalog_close(struct mcp_catalog *c, const char *server);
void mcp_catalog_done(struct mcp_catalog *c);
void mcp_tool_done(struct mcp_tool *tool);

#endif
