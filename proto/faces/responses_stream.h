/* responses_stream -- the stream that makes a response's events, for the files that make them.
 *
 * Shape:    responses.c makes runs of text and the response itself, responses_items.c the items
 *           that are no text: calls of tools, approvals, files. An event is begun with the next
 *           number, gets its members, and is put.
 * Thread:   any; one at a time.
 * Owns:     the stream owns its members.
 * Errors:   none.
 */
#ifndef PROTO_FACES_RESPONSES_STREAM_H
#define PROTO_FACES_RESPONSES_STREAM_H

#include "proto/faces/responses.h"
#include "proto/faces/responses_output.h"

#define MOST_CALLS 64

enum item_kind { ITEM_NONE, ITEM_MESSAGE, ITEM_REASONING };

struct open_call {
    uint32_t index;
    char *id;
    char *call; /* `"name":…,"arguments":…,"server_label":…` */
};

struct responses_stream {
    struct face_stream face;
    char *conversation_id, *task_id, *agent, *metadata;
    int64_t created_ms;
    uint64_t n_events; /* the next sequence_number */
    uint32_t n_items;  /* the next output_index */
    bool begun, is_whole;
    const char *record; /* the exchange's: the object without events; or NULL */
    bool waits;         /* an approval was requested, and nothing followed it */
    enum item_kind run; /* the open run, */
    uint32_t index;     /* its output_index */
    struct buf text;    /* its text as JSON, without the quotes, */
    size_t text_bytes;  /* its length as text, */
    struct buf route;   /* and the members that identify it in an event */
    struct open_call calls[MOST_CALLS];
    size_t n_calls, call_bytes;
    struct responses_output output; /* finished items */
    struct face_said all, last;     /* the text of the response, and of the last run */
    const char *type;               /* of the event in out */
    struct buf out, scratch, json;
};

/* Begins an event in s->out, up to its number. */
struct buf *responses_begin_event(struct responses_stream *s, const char *type);
void responses_put_event(struct responses_stream *s, const struct face_sink *to);
/* The open run of text, if there is one, is complete. */
void responses_end_run(struct responses_stream *s, const struct face_sink *to);

void responses_tool_call(struct responses_stream *s, const struct face_event *e,
                         const struct face_sink *to);
void responses_tool_result(struct responses_stream *s, const struct face_event *e,
                           const struct face_sink *to);
void responses_input_required(struct responses_stream *s, const struct face_event *e,
                              const struct face_sink *to);
void responses_file(struct responses_stream *s, const struct face_event *e,
                    const struct face_sink *to);
/* The calls without a result end as incomplete. */
void responses_end_calls(struct responses_stream *s, const struct face_sink *to);
void responses_free_calls(struct responses_stream *s);

#endif
