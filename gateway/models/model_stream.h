/* model_stream -- one reply of a model's server as a stream of JSON objects with a type: the part
 * that the APIs of responses and anthropic have in common.
 *
 * Shape:    an API hands in its stream_api and the request, and gets each event, parsed in doc.  It
 *           collects the output's items as they came; at the end they are read once more for their
 *           calls, and go back with the results of these (model_talk.h).  A reply in one piece is
 *           understood too.
 * Empty:    a reply without a call, a thought or a word is requested again, as one of the retries.
 * Extra:    members of the request that not every model takes: when the server's refusal names
 *           them, the request is sent again without, and so are later ones.
 * Thread:   loop.
 * Owns:     the stream, its buffers and its connection, until model_stream_done. settings stay the
 *           caller's and must outlive the turns, which only write without_extra.
 * Errors:   those of fetch.h, and: what the API fails with; a stream that ends before its last
 *           event; a reply in another form; thoughts alone; replies that stay empty.  Earlier
 *           pieces were already sent, and remain.
 */
#ifndef GATEWAY_MODELS_MODEL_STREAM_H
#define GATEWAY_MODELS_MODEL_STREAM_H

#include "gateway/fetch/fetch.h"
#include "gateway/fetch/stream_form.h"
#include "gateway/models/openai_answer.h"

#define STREAM_REPLY_BYTES (4 * 1024 * 1024) /* of an event, and of a reply in one piece */
#define STREAM_MOST_ITEMS 4096               /* of an output: each may move all others */

/* A model behind a server with one of these APIs. */
struct stream_settings {
    struct fetcher *fetcher;
    struct fetch_options options;
    const char *url;            /* …/responses, …/messages */
    const char *model;          /* the model's name there */
    const char *think_tag;      /* around thoughts in texts (think_tags.h); NULL: none */
    const char *effort;         /* how much it thinks, a word of its server; NULL: its default */
    uint32_t max_tokens;        /* of an answer; 0: as the API has it */
    uint32_t thinking_tokens;   /* anthropic: a budget instead of an effort; 0: none */
    const char *const *headers; /* "Name: value", Content-Type too; followed by a NULL */
    bool without_extra;         /* its server has refused the extra members */
};

struct model_stream;

struct stream_api {
    const char *name;                                      /* model_talk.h */
    void (*take)(struct model_stream *s, struct str type); /* an event, in s->doc */
    void (*take_whole)(struct model_stream *s);            /* a reply in one piece, in s->doc */
    size_t (*tell_calls)(struct model_stream *s);          /* of all items, an array in s->doc */
    void (*forget)(struct model_stream *s);                /* the reply: it is sent again */
    const char *extra, *extra_word; /* members without braces; what a refusal of them contains */
};

struct model_stream {
    /* Set before model_stream_begin, the rest being zero. */
    const struct stream_api *api;
    struct stream_settings *settings;
    struct model_events events;
    void *user;
    struct buf request; /* until its head comes: the body, without extra and its end */
    struct fetch *fetch;
    struct fetch *refused; /* the previous one; NULL: there was none */
    struct sse_reader sse;
    struct js_doc doc;
    struct buf whole; /* a reply in one piece, or its beginning */
    enum stream_form form;
    bool says_events, begun; /* begun: an event came */
    bool may_be_empty, starts_over, done;
    struct trace_copy trace;
    struct openai_answer answer;
    struct buf items;                /* of the output, as they came, a comma behind each */
    struct buf places;               /* of items: a struct item_place each */
    struct model_usage usage, spent; /* of this reply, of earlier ones */
    bool has_usage;
};

/* s->request has what the API makes of asked, an open object. */
void model_stream_begin(struct model_stream *s, const struct model_request *asked);
void model_stream_unpause(struct model_stream *s);
void model_stream_done(struct model_stream *s);

/* For the API: a string of doc as a piece of the answer; 0 for none. */
void model_stream_piece(struct model_stream *s, enum model_piece kind, uint32_t node);
/* An item of the output: index is its place there, which may be before others that came earlier. */
void model_stream_item(struct model_stream *s, size_t index, struct str json);
#define ITEM_LAST SIZE_MAX /* behind all others */
/* A count of an object of doc; 0 for none. */
int64_t model_stream_count(const struct model_stream *s, uint32_t object, const char *name);
/* An object's member of that type; 0 for none. */
uint32_t model_stream_find(const struct model_stream *s, uint32_t object, const char *name,
                           enum js_type type);
/* The answer is whole. */
void model_stream_finish(struct model_stream *s);
/* "the server said: …", by an object of doc with the server's error. */
void model_stream_complain(struct model_stream *s, uint32_t object);
void model_stream_fail(struct model_stream *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
