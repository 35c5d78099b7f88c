/* remote -- servers that speak a protocol of their own, as the lines of PROTOCOL.md section 8: one
 * form for each protocol, a row of a table in remote.c.
 *
 * Shape:    pure: what a server replies comes in; lines that the task says are appended to `said`,
 *           which the caller empties, and `request` is what to send next.  remote_begin makes the
 *           first request.  Of its reply the caller hands in each event of a stream (remote_event),
 *           or, when it is no stream, its whole text (remote_body), and then how it ended
 *           (remote_end), or that it was refused (remote_refused).  After each of these calls it
 *           looks at `said`, `request.wanted` and `state`, in this order.
 * State:    REMOTE_WORKS until the turn is over; REMOTE_ASKS when it waits for answers
 *           (remote_answer), which lead to a further request.  REMOTE_DONE and REMOTE_FAILED are
 *           final, and nothing is to be handed in any more: the protocol's end is the end, whatever
 *           its connection does.
 * Cut:      when a reply breaks off, and the protocol can be asked for the rest, `request` is that,
 *           with `again` set: the caller waits a little, and gives up after so many in a row that
 *           said nothing.  Else the turn has failed.
 * Thread:   any; one at a time.
 * Owns:     its buffers; remote_done frees them.
 * Errors:   `failure` says why a turn failed, with the server's words where it has any.
 */
#ifndef PROTO_FORMS_REMOTE_H
#define PROTO_FORMS_REMOTE_H

#include "proto/forms/say.h"
#include "proto/sse_reader.h"

#define REMOTE_QUESTIONS 32               /* that are open at once */
#define REMOTE_KEPT (256 * 1024)          /* bytes of the turn that go back with an answer */
#define REMOTE_PEER_ID 1024               /* bytes of an id of the server's */
#define REMOTE_MAX_BODY (4 * 1024 * 1024) /* bytes of a reply that is no stream */

enum remote_kind {
    REMOTE_RESPONSES, /* OpenAI's Responses */
    REMOTE_AG_UI,
    REMOTE_A2A,       /* 1.0, or 0.3 where the server knows no other */
    REMOTE_AI_SDK,    /* the AI SDK's UI message stream */
    REMOTE_LANGGRAPH, /* a LangGraph server's threads and runs */
    N_REMOTE_KINDS
};

enum remote_state { REMOTE_WORKS, REMOTE_ASKS, REMOTE_DONE, REMOTE_FAILED };

/* One turn; the spans are copied. */
struct remote_turn {
    struct str url, model;
    struct str conversation_id, task_id;
    struct str input, history; /* history: JSON array of {"role","content"}, or "" */
    struct str recap;   /* both as one text, for servers that keep the conversation themselves */
    struct str session; /* the server's id of the conversation; "": none is known */
};

struct remote_request {
    bool wanted; /* the caller clears it */
    bool is_get;
    bool again;         /* after a cut: not at once */
    bool may_repeat;    /* it may be sent twice without harm */
    struct buf url;     /* whole */
    struct buf body;    /* JSON */
    struct buf last_id; /* for the header Last-Event-ID; "": none */
};

struct remote_question {
    unsigned number;   /* our input_id is ask-NUMBER */
    struct buf about;  /* the form's: ready JSON */
    struct buf answer; /* JSON; "": open */
};

/* A call whose arguments come in pieces, or a text that may come again. */
struct remote_part {
    char *id, *name;
    struct buf text;
};
struct remote_parts {
    struct remote_part *list;
    size_t n, cap;
};

struct remote {
    const struct remote_form *form;
    enum remote_state state;
    bool new_session; /* session has changed: to be kept; the caller clears this */
    bool goes_on;     /* nothing came yet of what goes on after a restart (remote_again.h) */
    bool anew;        /* and nothing will: the turn begins anew; the caller clears this */
    struct remote_request request;
    struct buf said, failure;
    struct buf session; /* "": none */

    struct buf url, model, conversation_id, task_id, input, history, recap;
    struct say_calls calls;
    struct buf answer; /* said since the last call of a tool */
    int64_t tokens_in, tokens_out;
    bool has_usage;
    bool answer_cut; /* it is longer than an output can be */
    bool has_said;   /* any text at all */
    struct remote_question questions[REMOTE_QUESTIONS];
    size_t n_questions;
    unsigned asked, posted; /* how often */
    struct buf last_id;     /* of the stream's events */

    /* The forms'. */
    int step;              /* which reply is expected, if not that of the turn itself */
    bool is_old, is_plain; /* a2a: 0.3; it does not stream */
    bool rejoined;         /* langgraph: the stream was cut, and may lack something */
    unsigned n_items;      /* a2a: artifacts that have no id; ag-ui: messages that were kept */
    struct buf peer_id;    /* of the server's task, run or response */
    struct buf result;     /* ready JSON: of the task's result */
    struct buf kept;       /* the turn's messages or parts, which go back with an answer */
    bool kept_cut;         /* they are not all there */
    bool kept_is_all;      /* ag-ui: kept has the whole thread, in the agent's words */
    struct buf pending;    /* text that is not in kept yet */
    struct buf peer_state; /* ag-ui: the agent's state, to be given back; "": none */
    struct remote_parts parts;

    struct js_doc doc, other;
    struct buf text, more; /* scratch */
};

/* One protocol.  Each function may set request, state and so on; those that are NULL have nothing
 * to do. */
struct remote_form {
    const char *name;   /* in the configuration */
    const char *header; /* of each request; NULL: none */
    bool keeps_session;
    void (*begin)(struct remote *r);
    /* doc holds an event's data, or the reply: an object or array. */
    void (*take)(struct remote *r, struct str event);
    /* The reply has ended, and the turn has not; why: STR_NULL when it is whole.  False: that is a
     * failure. */
    bool (*end)(struct remote *r, struct str why);
    void (*answered)(struct remote *r); /* all questions are */
    /* Makes the request that cancels the turn; false: there is none. */
    bool (*cancel)(struct remote *r);
    /* The reply's status was that, no success.  True: there is another request. */
    bool (*refused)(struct remote *r, int status);
    /* After a restart of the gateway: asks for the rest of what peer_id names.  NULL: the turn is
     * posted anew. */
    void (*again)(struct remote *r);
    bool by_place;     /* that rest is what comes after last_id */
    bool takes_errors; /* an event that is named error is taken, too */
};

const struct remote_form *remote_form_of(enum remote_kind kind);

void remote_begin(struct remote *r, enum remote_kind kind, const struct remote_turn *turn);
void remote_event(struct remote *r, const struct sse_event *event);
void remote_body(struct remote *r, struct str body);
/* why: STR_NULL when it arrived whole, else a sentence. */
void remote_end(struct remote *r, struct str why);
/* Its status was no success; why: a sentence. */
void remote_refused(struct remote *r, int status, struct str why);
/* A line {"type":"input",…} of section 8. */
void remote_answer(struct remote *r, struct str line);
/* The turn is over for us.  True: request tells the server, and what it replies does not matter. */
bool remote_cancel(struct remote *r) MUST_USE;
void remote_done(struct remote *r);

/* --- for the forms ---------------------------------------------------------------------------- */

extern const struct remote_form remote_responses, remote_ag_ui, remote_a2a, remote_ai_sdk,
    remote_langgraph;

/* remote_begin, without the first request. */
void remote_open(struct remote *r, enum remote_kind kind, const struct remote_turn *turn);
/* The server knows nothing of what should go on after a restart: the turn is posted anew. */
void remote_begin_anew(struct remote *r);
void remote_fail(struct remote *r, struct str why);
/* The same in the server's words, from a node of doc (its text, or the message in it). */
void remote_complain(struct remote *r, uint32_t node);
/* The turn is over: its result, and its answer. */
void remote_finish(struct remote *r);

void remote_token(struct remote *r, struct str text);
void remote_thinking(struct remote *r, struct str text);
/* arguments: JSON as the server wrote it; what is no object becomes a member "value". */
void remote_call(struct remote *r, struct str id, struct str name, struct str arguments);
/* The same of a node of doc, 0 for none. */
void remote_call_node(struct remote *r, struct str id, struct str name, uint32_t arguments);
void remote_called(struct remote *r, struct str id, struct str output, bool is_error);
/* A member of doc's object as text: a string's value, anything else as JSON; in scratch. */
struct str remote_as_text(struct remote *r, uint32_t node, struct buf *scratch);
/* Adds to the turn's usage: an object with counts under any of their usual names. */
void remote_usage(struct remote *r, uint32_t node);
/* The event of a protocol whose events name themselves in `type`: taken as its row says; one of
 * another type by `other`, one without a type is a complaint. */
struct remote_event_row {
    const char *type;
    void (*take)(struct remote *r);
};
void remote_take_row(struct remote *r, const struct remote_event_row *rows, size_t n,
                     void (*other)(struct remote *r));
bool remote_set_id(struct buf *id, const struct js_doc *doc, uint32_t node);
void remote_set_session(struct remote *r, struct str id); /* one that cannot be kept is none */

/* Asks; about is the form's own, ready JSON.  arguments: an object of doc, or 0. */
void remote_ask_text(struct remote *r, struct str prompt, struct str about);
void remote_ask_approval(struct remote *r, struct str prompt, struct str tool, uint32_t arguments,
                         struct str about);
/* The turn waits for the answers; fails when there is no question. */
void remote_wait(struct remote *r);

/* Begins a request: url is copied, body is "". */
struct buf *remote_post(struct remote *r, struct str url);
void remote_get(struct remote *r, struct str url);

typedef void (*remote_put_message)(struct buf *out, size_t number, struct str role,
                                   struct str content);
/* A history (as in remote_turn) and the input, as items of an array. */
void remote_put_messages(struct str history, struct str input, remote_put_message put,
                         struct buf *out);
void remote_put_role_content(struct buf *out, size_t number, struct str role, struct str content);

/* The part with that id; made when there is none.  NULL: there are too many. */
struct remote_part *remote_part(struct remote_parts *parts, struct str id);
void remote_part_drop(struct remote_parts *parts, struct remote_part *part);

#endif
