/* mcp -- the Model Context Protocol over streamable HTTP, 2025-11-25 and 2026-07-28: agents as
 * tools (docs/faces.md).
 *
 * Shape:    a POST is one message of JSON-RPC. A call of a tool is a task, and its answer a stream:
 *           progress, questions as elicitation, and the result. The gateway keeps no state of a
 *           client. In 2025-11-25 its session's id is the conversation, and tells whether the
 *           client accepts questions; the id of an event names its call, so that a GET with
 *           Last-Event-ID can continue. In 2026-07-28 ("modern") each request says what its client
 *           can do, a question ends the answer, and the client asks again with its responses.
 * Thread:   any.
 * Owns:     a request is the state of its exchange, and its spans point into the exchange's memory.
 * Errors:   codes of JSON-RPC, with a sentence.
 */
#ifndef PROTO_FACES_MCP_H
#define PROTO_FACES_MCP_H

#include "proto/faces/exchange.h"

enum mcp_operation {
    MCP_POST,   /* a route's, like the next two: the message chooses one of the others */
    MCP_RESUME, /* GET: with Last-Event-ID the rest of a call */
    MCP_DELETE,
    MCP_INITIALIZE,
    MCP_PING,
    MCP_DISCOVER, /* modern, like the next two */
    MCP_LISTEN,   /* a stream of one task's states */
    MCP_TASK_UPDATE,
    MCP_TOOLS,
    MCP_CALL,      /* its stream ends in the result */
    MCP_CALL_TASK, /* answered by the task at once */
    MCP_TASK_GET,
    MCP_TASK_RESULT, /* like MCP_CALL, for an existing task */
    MCP_TASK_CANCEL, /* answered by the task when it has ended */
    MCP_TASK_LIST,
    MCP_CANCELLED,    /* the notification */
    MCP_NOTIFICATION, /* any other */
    MCP_ANSWER,       /* the client's, to a question */
};

/* A stream needs this from its request; the id of an event has it too. */
struct mcp_call {
    struct str rpc_id; /* as JSON */
    struct str token;  /* JSON of the progress token, or STR_NULL: no progress wanted */
    bool elicits;      /* the client accepts questions */
    bool is_task;      /* the task existed before: messages name it */
    struct str base;   /* the gateway's address */
    uint64_t files;    /* seq of the first file that was told before; 0: of none */
};

struct mcp_request {
    enum mcp_operation operation;
    struct mcp_call call;
    struct str session; /* the conversation; or STR_NULL */
    struct str version; /* MCP_INITIALIZE: the client's */
    struct str tool, message;
    struct str task_id;    /* in the form of exchange_put_id; or the cursor of a list */
    struct str request_id; /* MCP_CANCELLED: JSON of the request's id */
    struct str input_id;   /* MCP_ANSWER … */
    struct str answer;     /* … JSON; STR_NULL: no answer */
    uint64_t after;        /* MCP_RESUME, and a call's state: seq of the last event it has */
    /* modern */
    bool is_modern;
    bool has_capabilities, takes_tasks; /* the client's; the extension of tasks */
    struct str method, name;            /* what the headers must repeat; STR_NULL: no name */
    struct str state;                   /* MCP_CALL: requestState, or STR_NULL */
    struct str responses;               /* JSON object of inputResponses, or STR_NULL */
};

/* Reads the message of a POST into the exchange's state. 0, or a code of JSON-RPC and why. */
int mcp_read(struct face_exchange *x, const struct face_input *in, char why[128]);
/* A call's state is the id of its task, `_` and a number of an event, into task_id and after; and
 * where files were given before it `_` and the number of the first one. */
bool mcp_read_state(struct mcp_request *r);
/* The nth response of a modern request, to a question: false when there are no more.  Spans point
 * into doc's text and memory; input_id is "" when the key is none of ours. */
bool mcp_response(const struct mcp_request *r, struct js_doc *doc, uint32_t n, struct buf *memory,
                  struct str *ret_input_id, struct str *ret_answer);
/* Reads a Last-Event-ID into the exchange's state. */
bool mcp_read_event_id(struct face_exchange *x, struct str id, struct str base);
void mcp_put_event_id(struct buf *out, const struct face_stream *face, struct face_place at);

/* The envelope around a result: {"jsonrpc":"2.0","id":…,"result": and } */
void mcp_begin_result(struct buf *out, struct str rpc_id);
void mcp_end_result(struct buf *out);
/* A task from one of our replies in MCP's form, without its braces. */
void mcp_put_task(struct buf *out, const struct js_doc *doc, uint32_t task, bool is_modern);
/* The result of a call, without its braces, from an object with `output`, `result` and `error`: a
 * terminal event's data, or the task's record.  links: content items of files. */
void mcp_put_outcome(struct buf *out, const struct js_doc *doc, uint32_t object, bool failed,
                     struct str links);
/* Appends the event's file to such links; beyond MAX_OUTPUT of them no more. */
void mcp_put_link(struct buf *links, struct str base, struct str conversation_id,
                  const struct face_event *e);
/* A question's form: the params of elicitation/create, without their end. */
void mcp_put_form(struct buf *out, const struct face_event *e, bool approves);
/* {"jsonrpc":"2.0","method":"notifications/progress",…} */
void mcp_put_progress(struct buf *out, struct str token, const struct face_event *e,
                      struct str message);

/* --- replies ---------------------------------------------------------------------------------- */

struct buf *mcp_begin_reply(struct face_exchange *x); /* up to "result":{, and for the modern … */
enum face_next mcp_end_reply(struct face_exchange *x);
enum face_next mcp_fail(struct face_exchange *x, int code, int status, const char *message);
/* data: JSON. */
enum face_next mcp_fail_with(struct face_exchange *x, int code, int status, const char *message,
                             struct str data);
enum face_next mcp_fail_line(struct face_exchange *x, enum error e, struct str line,
                             struct js_doc *doc);
enum face_next mcp_call_tool(struct face_exchange *x); /* a chat */
enum face_next mcp_put_tools(struct face_exchange *x, const struct face_input *in);
/* Asks about the request's task, or replies that there is none. */
enum face_next mcp_about_task(struct face_exchange *x, enum verb verb);
/* Follows it after that event. */
enum face_next mcp_follow(struct face_exchange *x, uint64_t after);
/* Follows a call of which the client has the events up to `after`: from the first file on. */
enum face_next mcp_follow_call(struct face_exchange *x);

/* --- modern ----------------------------------------------------------------------------------- */

/* The rest of a POST; code and why are mcp_read's. */
enum face_next mcp_modern_begin(struct face_exchange *x, const struct face_input *in, int code,
                                const char *why);
/* The first message of a subscription: which task it tells, if any. */
void mcp_put_acknowledged(struct buf *out, const struct mcp_request *r);
struct face_stream *mcp_modern_make(const struct face_task *task);

#define MCP_META "io.modelcontextprotocol/"
#define MCP_MODERN "2026-07-28"
#define MCP_TASKS MCP_META "tasks"
#define MCP_CONVERSATION "holdfast/conversation" /* in _meta of a modern call */
#define MCP_RELATED_TASK "io.modelcontextprotocol/related-task"

extern const struct face_ops mcp_ops, mcp_modern_stream_ops;
extern const struct face_http_ops mcp_post_ops, mcp_get_ops, mcp_modern_ops;

#endif
