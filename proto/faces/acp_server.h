/* acp_server -- the Agent Client Protocol, version 1, on a WebSocket: the gateway as its agent
 * (docs/faces.md); proto/forms/acp.h is its client.
 *
 * Shape:    a frame is one message of JSON-RPC.  A session is a conversation, and a prompt a chat
 *           whose events are updates of the session; the reply to the prompt is its end.  A load
 *           tells every turn from its first event, then replies, and follows a turn that runs.  The
 *           id of a question names its task, so its answer needs nothing from earlier.
 * Thread:   any.
 * Owns:     a request is the state of its exchange, and its spans point into the exchange's memory.
 * Errors:   codes of JSON-RPC, with a sentence.
 */
#ifndef PROTO_FACES_ACP_SERVER_H
#define PROTO_FACES_ACP_SERVER_H

#include "proto/faces/socket.h"

enum acp_code {
    ACP_PARSE = -32700,
    ACP_NO_REQUEST = -32600,
    ACP_NO_METHOD = -32601,
    ACP_PARAMS = -32602,
    ACP_INTERNAL = -32603,
    ACP_UNAUTHENTICATED = -32000,
    ACP_RESOURCE = -32002, /* no such session */
};

enum acp_operation {
    ACP_NOTHING, /* a message that needs no reply and changes nothing */
    ACP_INITIALIZE,
    ACP_NEW,
    ACP_LOAD,
    ACP_RESUME, /* a load that tells only what comes */
    ACP_LIST,
    ACP_CLOSE,
    ACP_DELETE,
    ACP_PROMPT,
    ACP_CANCEL,
    ACP_ANSWER, /* the client's, to a question */
};

#define ACP_TURNS 1000 /* that a load tells, the newest */

struct acp_turn {
    char task_id[TASK_ID_LEN + 1];
    bool is_notice; /* its input is not the user's */
};

struct acp_request {
    enum acp_operation operation;
    struct str rpc_id; /* as JSON; STR_NULL: a notification, or an answer */
    struct str session;
    struct str token;        /* of `_meta`, or STR_NULL */
    struct str text;         /* ACP_PROMPT */
    struct str parts;        /* the same in parts, JSON, when one is a file; or STR_NULL */
    struct str cursor, cwd;  /* ACP_LIST; or STR_NULL */
    struct str task_id;      /* ACP_ANSWER, in the form of exchange_put_id … */
    struct str input_id;     /* … the question … */
    struct str answer;       /* … and JSON */
    bool elicits;            /* the client takes forms: ACP_INITIALIZE says it, others are told */
    uint32_t first, at;      /* turns[first, ACP_TURNS), of which `at` is being told */
    struct acp_turn turns[]; /* of ACP_LOAD and ACP_RESUME */
};

static inline bool acp_server_loads(const struct acp_request *r)
{
    return r->operation == ACP_LOAD || r->operation == ACP_RESUME;
}

/* Reads a frame into the exchange's state.  0, or an enum acp_code and why; the state is there in
 * both cases. */
int acp_server_read(struct js_doc *doc, struct str frame, struct face_exchange *x, char why[128]);

/* {"jsonrpc":"2.0","id":…,"result":{ and }} */
void acp_server_begin_result(struct buf *out, struct str rpc_id);
void acp_server_end_result(struct buf *out);
/* data is JSON, or STR_NULL. */
void acp_server_put_error(struct buf *out, struct str rpc_id, int code, struct str message,
                          struct str data);
/* Whether a stream of such a request has sent the reply. */
bool acp_server_has_replied(const struct face_stream *face);

extern const struct face_ops acp_server_ops;
extern const struct face_http_ops acp_server_http_ops;
extern const struct face_ws_ops acp_server_ws_ops;

#endif
