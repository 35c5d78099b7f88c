/* mcp -- the Model Context Protocol 2025-11-25 over streamable HTTP: agents as tools
 * (docs/faces.md).
 *
 * Shape:    a POST is one message of JSON-RPC. A call of a tool is a task, and its answer a stream:
 *           progress, questions as elicitation, and the result. Nothing of a client is kept: its
 *           session's id is the conversation, and says whether the client takes questions; the id
 *           of an event says which call it is of, so that a GET with Last-Event-ID goes on.
 * Thread:   any.
 * Owns:     a request is the state of its exchange, and its spans point into the exchange's memory.
 * Errors:   codes of JSON-RPC, with a sentence.
 */
#ifndef PROTO_FACES_MCP_H
#define PROTO_FACES_MCP_H

#include "proto/faces/exchange.h"

enum mcp_operation {
    MCP_POST,   /* a route's, like the next two: the message says which of the others */
    MCP_RESUME, /* GET: with Last-Event-ID the rest of a call */
    MCP_DELETE,
    MCP_INITIALIZE,
    MCP_PING,
    MCP_TOOLS,
    MCP_CALL,      /* its stream ends in the result */
    MCP_CALL_TASK, /* answered by the task at once */
    MCP_TASK_GET,
    MCP_TASK_RESULT, /* as MCP_CALL, of a task that there is */
    MCP_TASK_CANCEL, /* answered by the task when it has ended */
    MCP_TASK_LIST,
    MCP_CANCELLED,    /* the notification */
    MCP_NOTIFICATION, /* any other */
    MCP_ANSWER,       /* the client's, to a question */
};

/* A stream must know this of its request; the id of an event has it too. */
struct mcp_call {
    struct str rpc_id; /* as JSON */
    struct str token;  /* JSON of the progress token, or STR_NULL: it wants no progress */
    bool elicits;      /* the client takes questions */
    bool is_task;      /* the task was there before: messages name it */
};

struct mcp_request {
    enum mcp_operation operation;
    struct mcp_call call;
    struct str session; /* or STR_NULL */
    struct str version; /* MCP_INITIALIZE: the client's */
    struct str tool, message;
    struct str task_id;    /* in the form of exchange_put_id; or the cursor of a list */
    struct str request_id; /* MCP_CANCELLED: JSON of the request's id */
    struct str input_id;   /* MCP_ANSWER … */
    struct str answer;     /* … JSON; STR_NULL: none is given */
    uint64_t after;        /* MCP_RESUME: seq of the last event that the client has */
};

/* Reads the message of a POST into the exchange's state. 0, or a code of JSON-RPC and why. */
int mcp_read(struct face_exchange *x, const struct face_input *in, char why[128]);
/* Reads a Last-Event-ID into the exchange's state. */
bool mcp_read_event_id(struct face_exchange *x, struct str id);
void mcp_put_event_id(struct buf *out, const struct face_stream *s, struct face_place at);

/* The envelope around a result: {"jsonrpc":"2.0","id":…,"result": and } */
void mcp_begin_result(struct buf *out, struct str rpc_id);
void mcp_end_result(struct buf *out);
/* A task of a reply of ours as MCP's, without its braces. */
void mcp_put_task(struct buf *out, const struct js_doc *doc, uint32_t task);

#define MCP_RELATED_TASK "io.modelcontextprotocol/related-task"

extern const struct face_ops mcp_ops;
extern const struct face_http_ops mcp_post_ops, mcp_get_ops;

#endif
