/* mcp_message -- messages of the Model Context Protocol (JSON-RPC 2.0), as its client reads and
 * writes them.
 *
 * Shape:    pure.  A message is a node of a parsed text, the root or a member of a batch; what is
 *           written is one text without a newline.
 * Eras:     a modern server (2026-07-28) has no handshake, and learns of its client from the _meta
 *           of each request; a legacy server (2025-11-25 and older) learns it from initialize.
 * Ids:      of our requests, integers from 1 on.  A server's own requests have a space of their
 *           own: their ids are kept as JSON, unread.
 * Thread:   any.
 * Source:   modelcontextprotocol.io, revisions 2026-07-28 and 2025-11-25.
 */
#ifndef PROTO_MCP_MCP_MESSAGE_H
#define PROTO_MCP_MCP_MESSAGE_H

#include "proto/js.h"
#include "proto/trace.h"

#define MCP_MODERN_VERSION "2026-07-28"
#define MCP_LEGACY_VERSION "2025-11-25"
#define MCP_META "io.modelcontextprotocol/" /* the prefix of its own names in _meta */

enum mcp_era { MCP_MODERN, MCP_LEGACY };

enum mcp_kind {
    MCP_JUNK, /* no message at all */
    MCP_RESULT,
    MCP_ERROR,
    MCP_REQUEST,
    MCP_NOTIFICATION
};

/* Codes of errors that a client acts upon. */
#define MCP_NO_METHOD (-32601)
#define MCP_HEADER_MISMATCH (-32020)
#define MCP_NO_CAPABILITY (-32021)
#define MCP_NO_VERSION (-32022)

struct mcp_message {
    enum mcp_kind kind;
    int64_t id;              /* RESULT, ERROR: of our request; 0: none that we can have sent */
    uint32_t own_id;         /* REQUEST: the node of its id */
    uint32_t method, params; /* nodes; params 0: none, or no object */
    uint32_t result;         /* RESULT: a node, an object */
    int64_t code;            /* ERROR; 0: it says none */
    uint32_t text, data;     /* ERROR: nodes, 0: none */
};

/* Never fails: what is no message is MCP_JUNK. */
void mcp_message_read(const struct js_doc *doc, uint32_t node, struct mcp_message *ret);
/* Whether a list of texts has that one. */
bool mcp_list_has(const struct js_doc *doc, uint32_t list, const char *text);
/* Whether we speak that version by a handshake. */
bool mcp_is_legacy_version(const struct js_doc *doc, uint32_t node);

struct mcp_request_form {
    int64_t id;
    enum mcp_era era;
    const char *version; /* the gateway's */
    const char *method;
    struct str params;                 /* members, without braces; "" for none */
    bool wants_progress;               /* its token is the id */
    const struct trace_context *trace; /* in its _meta; NULL: none */
};
void mcp_put_request(struct buf *out, const struct mcp_request_form *form);
void mcp_put_initialize(struct buf *out, int64_t id, const char *version);
void mcp_put_notification(struct buf *out, const char *method, struct str params);
/* To a server's own request; its id and the result are JSON. */
void mcp_put_answer(struct buf *out, struct str own_id, struct str result);
void mcp_put_refusal(struct buf *out, struct str own_id, int code, const char *why);

/* The value of a header from a text (Mcp-Name, Mcp-Param-*): as it is when a header can carry it,
 * else =?base64?…?=. */
void mcp_put_header_value(struct buf *out, struct str value);

#endif
