/* form -- what a program prints, as the lines of PROTOCOL.md section 8: one form for each family of
 * programs that were not written for this gateway.
 *
 * Shape:    pure: bytes in, lines out.  form_take is given what the program prints (a line without
 *           its newline, or, for form_is_bytes, bytes as they come), form_end comes after the last
 *           of it.  Both append lines, each with its newline.  What a form does not know is a
 *           custom event; a line that is no JSON object is passed over.
 * State:    form_put_state writes all that a form knows between two lines, for one that goes on in
 *           its place (form_take_state, after form_open); so does the form text between two
 *           characters, which needs none.
 * Thread:   any; one at a time.
 * Owns:     its buffers; form_done frees them.
 * Errors:   after form_end, form_failure says why the program's turn is no answer; "" when it is
 *           one.  What a program says of its own failure comes first.
 */
#ifndef PROTO_FORMS_FORM_H
#define PROTO_FORMS_FORM_H

#include "proto/forms/say.h"

enum agent_form {
    AGENT_FORM_HOLDFAST, /* the lines of section 8 themselves: no form is opened */
    AGENT_FORM_TEXT,     /* the answer */
    AGENT_FORM_CLAUDE,   /* claude -p --output-format stream-json --include-partial-messages */
    AGENT_FORM_CODEX,    /* codex exec --json */
    /* Servers: no form is opened for them, see remote.h. */
    AGENT_FORM_OPENAI, /* chat completions */
    AGENT_FORM_RESPONSES,
    AGENT_FORM_AG_UI,
    AGENT_FORM_A2A,
    AGENT_FORM_AI_SDK,
    AGENT_FORM_LANGGRAPH
};

#define FORM_SESSION 128 /* bytes of a session's id */

struct form {
    enum agent_form kind;
    bool streams;                    /* claude: the message that it is in comes in pieces */
    bool has_ended;                  /* it has said that its turn is over */
    int64_t tokens_in, tokens_out;   /* claude: of the messages until now … */
    int64_t message_in, message_out; /* … and of the one that it is in */
    struct js_doc doc;
    struct say_calls calls;
    struct buf text, other; /* scratch; text form: the beginning of a character */
    struct buf answer;      /* codex: its last message */
    struct buf failure;
    struct buf last_error; /* codex: that may have been got over */
    struct buf session;    /* by which it can go on later; "" for none */
};

void form_open(struct form *f, enum agent_form kind);
bool form_is_bytes(enum agent_form kind);
void form_take(struct form *f, struct str piece, struct buf *out);
void form_end(struct form *f, struct buf *out);
static inline struct str form_failure(const struct form *f)
{
    return buf_str(&f->failure);
}
void form_done(struct form *f);

/* Members of an object, without its braces. */
void form_put_state(const struct form *f, struct buf *out);
/* False: the object is no such thing, and only form_done is left. */
bool form_take_state(struct form *f, const struct js_doc *doc, uint32_t object) MUST_USE;

/* Whether that can be the id of a session: letters, digits, '-', '_' and '.', and no option. */
bool form_is_session(struct str id);

/* Between form.c and the forms: doc holds a JSON object. */
void form_claude(struct form *f, struct buf *out);
void form_codex(struct form *f, struct buf *out);
void form_set_session(struct form *f, struct str id);

#endif
