/* ai_sdk -- the UI message stream of Vercel's AI SDK, version 7 (docs/faces.md).
 *
 * Shape:    requests: the body that DefaultChatTransport posts, and the frames of
 *           WebSocketChatTransport, read into one struct. Events: a face_stream that makes the
 *           chunks of one assistant message, whose id is the task's. Framing (`data:` lines, or
 *           frames with a sequence) is the carrier's.
 * Thread:   any.
 * Owns:     a request owns one buffer that its spans point into; ai_sdk_request_done frees it, also
 *           after a failure.
 * Errors:   ai_sdk_read says false and names what is wrong.
 */
#ifndef PROTO_FACES_AI_SDK_H
#define PROTO_FACES_AI_SDK_H

#include "proto/faces/socket.h"

enum ai_sdk_kind {
    AI_SDK_SEND,   /* the last message of the chat is the user's: ask */
    AI_SDK_ANSWER, /* the last message answers a question of the task: respond, then go on */
    AI_SDK_RESUME, /* replay the chat's last task, if it is still live */
    AI_SDK_ABORT,  /* cancel the task of request_id */
};

struct ai_sdk_request {
    enum ai_sdk_kind kind;
    struct str request_id; /* frames alone: 1 to 128 bytes */
    struct str chat_id;    /* the conversation; not checked here */
    struct str text;       /* AI_SDK_SEND: its text parts, joined by newlines */
    struct str parts;      /* the same in parts, JSON, when one is a file; or STR_NULL */
    bool edits; /* AI_SDK_SEND: under the answer task_id; without it, beside the first message */
    bool regenerates; /* AI_SDK_SEND: another answer; without task_id to the newest question */
    struct str request_key; /* AI_SDK_SEND: of chat, message id and text; STR_NULL without the id */
    struct str agent;       /* `model` of the body, or STR_NULL */
    struct str authorization; /* frames alone: headers.authorization, or STR_NULL */
    struct str task_id;       /* AI_SDK_ANSWER, regenerates: the id of the assistant's message */
    struct str input_id;      /* AI_SDK_ANSWER: the question */
    struct str answer;        /* AI_SDK_ANSWER: JSON, true, false or a string */
    struct buf memory;        /* what the spans point into */
};

/* Reads the body of a POST (is_frame false) or a frame of the WebSocket transport. On failure why
 * has a sentence, and request_id is filled when it could be read. Unknown members are ignored. */
bool ai_sdk_read(struct js_doc *doc, struct str json, bool is_frame, struct ai_sdk_request *ret,
                 char why[128]) MUST_USE;
void ai_sdk_request_done(struct ai_sdk_request *r);

/* The same as requests of our own: the chat, and the answer after which the stream continues. */
void ai_sdk_put_chat(struct face_exchange *x, const struct ai_sdk_request *r);
void ai_sdk_put_answer(struct face_exchange *x, const struct ai_sdk_request *r);

/* HTTP has `POST …/chat` and `GET …/chat/{id}/stream`; a frame on a WebSocket is either of them. */
enum ai_sdk_operation {
    AI_SDK_POST_CHAT,
    AI_SDK_GET_STREAM,
    AI_SDK_FRAME,
    AI_SDK_RESUME_FRAME,
    AI_SDK_REGENERATE /* of either way, while the newest turn is looked up */
};

extern const struct face_ops ai_sdk_ops;
extern const struct face_http_ops ai_sdk_http_ops;
extern const struct face_ws_ops ai_sdk_ws_ops;

#endif
