/* openai -- OpenAI's Chat Completions, and its list of models (docs/faces.md).
 *
 * Shape:    requests: the body of a `POST /v1/chat/completions`, read into one struct. Events: a
 *           face_stream that makes the chunks of one completion, or one completion as a whole. A
 *           chunk's member `holdfast` has what does not fit elsewhere.
 * Thread:   any.
 * Owns:     a request owns its buffers; openai_request_done frees them, also after a failure.
 * Errors:   openai_read says false and fills a fault, in the form of OpenAI's errors.
 */
#ifndef PROTO_FACES_OPENAI_H
#define PROTO_FACES_OPENAI_H

#include "proto/faces/exchange.h"

struct openai_request {
    struct buf message;      /* the text of the user's last message */
    struct buf parts;        /* the same in parts, JSON, when one is a file; or empty */
    struct buf context;      /* JSON array: the other messages, in the form of `chat` */
    struct buf agent;        /* `model`; empty: the default one */
    struct buf conversation; /* `conversation`, an extension; empty: none was named */
    struct buf metadata;     /* JSON object, or empty */
    bool stream, wants_usage;
};

struct openai_fault {
    int status;
    char message[256];
    char param[64]; /* the member at fault; "" for none */
    const char *code;
};

/* Reads a body. Members without effect here (temperature and the like) are ignored; one that a
 * client would rely on, and that is not supported, is a fault. */
bool openai_read(struct js_doc *doc, struct str json, struct openai_request *ret,
                 struct openai_fault *fault) MUST_USE;
void openai_request_done(struct openai_request *r);

/* {"error":{"message","type","param","code"}}; its type follows from the status. */
void openai_put_error(struct buf *out, int status, struct str message, struct str param,
                      struct str code);
/* The same for an error that the gateway itself detects. */
void openai_put_gateway_error(struct buf *out, enum error e, const char *message);

/* The options of a completion: the state of its exchange. */
struct openai_options {
    bool is_whole, wants_usage;
};

enum openai_operation { OPENAI_CHAT, OPENAI_MODELS, OPENAI_MODEL };

extern const struct face_ops openai_ops;
extern const struct face_http_ops openai_http_ops;

#endif
