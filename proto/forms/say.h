/* say -- the lines of PROTOCOL.md section 8, made of what other programs say.
 *
 * Shape:    each function appends whole lines, each with its newline; whatever it is given, they
 *           are lines that an agent may say: UTF-8, no deeper and no longer than the task takes.
 *           What is too long is cut, and says so.
 * Thread:   any.
 * Owns:     struct say_calls owns its texts; say_calls_done frees them.
 */
#ifndef PROTO_FORMS_SAY_H
#define PROTO_FORMS_SAY_H

#include "proto/js.h"
#include "proto/limits.h"

#define SAY_TEXT 65536                     /* bytes of a token or a thought; more become several */
#define SAY_BYTES (MAX_EVENT_LINE - 65536) /* of an output or payload, as JSON */
#define SAY_NAME 256                       /* bytes of a name or an id */
#define SAY_CALLS 256                      /* calls that are open at once; older ones are over */

/* Calls of tools that have begun and not ended: a result names its tool, which only the call
 * said. */
struct say_calls {
    struct {
        char *id, *name;
        char *output; /* NULL: none is known yet */
    } list[SAY_CALLS];
    size_t n;
};

/* One that begins. */
struct say_tool {
    struct str id, name;
    const struct js_doc *doc;
    uint32_t arguments; /* a node of doc; 0: none */
    const char *member; /* what is no object becomes this member of one */
};

/* A question whether it may. */
struct say_approval {
    struct str input_id, prompt, tool; /* tool "": none */
    const struct js_doc *doc;
    uint32_t arguments; /* an object of doc; 0: none */
    struct str options; /* ready JSON: the array; "": none */
};

void say_token(struct buf *out, struct str text);
void say_thinking(struct buf *out, struct str text);
void say_call(struct buf *out, struct say_calls *calls, const struct say_tool *tool);
bool say_is_open(const struct say_calls *calls, struct str id);
/* The name of an open call's tool; "" when it is not open. */
struct str say_name(const struct say_calls *calls, struct str id);
/* Keeps the output for say_called, in case that has none. */
void say_keep_output(struct say_calls *calls, struct str id, struct str output);
/* Ends the call.  One that never began is named "tool". */
void say_called(struct buf *out, struct say_calls *calls, struct str id, struct str output,
                bool is_error);
void say_approval(struct buf *out, const struct say_approval *asked);
void say_question(struct buf *out, struct str input_id, struct str prompt);
/* done of all. */
void say_progress(struct buf *out, size_t done, size_t all, struct str note);
void say_custom(struct buf *out, struct str event_type, const struct js_doc *doc, uint32_t payload);
/* An answer that is too long for one is left out: the tokens are the output then. */
void say_final_answer(struct buf *out, struct str text);
void say_result(struct buf *out, struct str object); /* ready JSON */
void say_calls_done(struct say_calls *calls);

/* The open calls as JSON, [["id","name"],…], and back, into calls that are zeroed.  False: that is
 * no such thing. */
void say_calls_add(struct say_calls *calls, struct str id, struct str name); /* told before */
void say_calls_put(const struct say_calls *calls, struct buf *out);
bool say_calls_take(struct say_calls *calls, const struct js_doc *doc, uint32_t list);

/* Reading: a member of an object; 0 when there is none, also when object is 0. */
uint32_t say_member(const struct js_doc *doc, uint32_t object, const char *key);
/* Whether the member is a string with that value. */
bool say_is(const struct js_doc *doc, uint32_t object, const char *key, const char *value);
/* The value of a string in scratch, which is cleared first; "" for anything else. */
struct str say_text(const struct js_doc *doc, uint32_t node, struct buf *scratch);

#endif
