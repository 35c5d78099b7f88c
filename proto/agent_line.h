/* agent_line -- what an agent prints: one JSON object per line (PROTOCOL.md section 8).
 *
 * Shape:    agent_line_decode reads a line, checks it against the tables of events and calls, and
 *           hands out spans into the decoder's own buffers, valid until its next call.
 * Thread:   any; one decoder at a time.
 * Errors:   false, and error says in one sentence what is wrong and names the event, call or field.
 */
#ifndef PROTO_AGENT_LINE_H
#define PROTO_AGENT_LINE_H

#include "proto/event.h"

enum agent_line_kind {
    LINE_EMPTY,
    LINE_EVENT,
    LINE_RESULT,
    LINE_TITLE,
    LINE_TOOL,
    LINE_SPAWN,
    LINE_SEND,
    LINE_CANCEL,
    LINE_FILE
};

struct agent_line {
    enum agent_line_kind kind;
    /* LINE_EVENT */
    enum event_type event;
    struct str
        data; /* compact JSON object, as the event's line carries it; LINE_RESULT: the result */
    struct str text;       /* decoded: text (token, thinking), output (final_answer), title */
    struct str tool;       /* tool_call, tool_result: its name */
    bool nameless;         /* tool_result: data has no name; the call with call_id has it */
    double progress;       /* progress */
    struct str input_id;   /* input_required */
    bool approval;         /* input_required: kind is approval */
    struct str option_ids; /* input_required: of its options, a NUL after each; n 0: none */
    int64_t timeout_s;     /* input_required; -1: no timeout */
    struct str call_id;    /* tool_call, tool_result, and calls */
    /* calls */
    struct str name;                      /* the tool's; LINE_SPAWN: the task's, NULL for none */
    struct str arguments;                 /* LINE_TOOL: compact JSON object */
    struct str agent, input, description; /* LINE_SPAWN; agent NULL for the default */
    struct str task_id, content;          /* LINE_SEND, LINE_CANCEL */
    bool tree;
    struct str path, media_type; /* LINE_FILE; with name */
    char error[256];
    bool over_limit; /* something is too long (TASK_LIMIT), as opposed to malformed */
};

struct agent_line_decoder {
    struct js_doc doc;
    struct buf arena; /* decoded strings */
    struct buf json;  /* data or arguments, copied */
};

/* An empty line (white space only) is LINE_EMPTY. Unknown members and a byte order mark before the
 * line are ignored. */
bool agent_line_decode(struct agent_line_decoder *d, struct str text, struct agent_line *ret)
    MUST_USE;
void agent_line_done(struct agent_line_decoder *d);

#endif
