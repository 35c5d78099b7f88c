/* chat_question -- the open questions of a task, as a terminal asks them: one after another.
 *
 * Shape:    a question is text of one line or more: what is asked, what is to be approved as it is,
 *           and the choices with their numbers.  Characters that turn a text around stand there as
 *           codes: a command may not look like another one.
 * Thread:   the program's only one.
 * Owns:     copies of everything.
 * Errors:   choices that are malformed are left out: an agent may send anything.
 */
#ifndef GATEWAY_CLI_CHAT_QUESTION_H
#define GATEWAY_CLI_CHAT_QUESTION_H

#include "proto/js.h"

#define CHAT_CHOICES 32 /* PROTOCOL.md section 5 */

struct chat_question {
    char *id, *text;
    bool is_approval; /* yes or no answers it */
    bool is_sent;     /* an answer is on its way, and the event that closes it is not here yet */
    size_t n_choices;
    struct {
        char *id, *name;
    } choices[CHAT_CHOICES];
};

/* The oldest first, which is the one that is asked. */
struct chat_questions {
    struct chat_question *all;
    size_t n;
};

/* Takes the data of an input_required.  True: it is to be asked now. */
bool chat_question_add(struct chat_questions *q, const struct js_doc *doc, uint32_t data);
/* The one that is asked has an answer on its way; the next one is asked. */
void chat_question_sent(struct chat_questions *q);
/* The oldest answer on its way does not arrive: its question is asked again, or is over.  False:
 * there is none. */
bool chat_question_refused(struct chat_questions *q, bool again);
/* It is answered, or waits no longer.  True: it was the one that was asked. */
bool chat_question_close(struct chat_questions *q, struct str id);
/* The one that is asked; NULL for none. */
const struct chat_question *chat_question_asked(const struct chat_questions *q);
/* Appends the member "answer" to a request: a choice by its number or its name, a yes, or text. */
void chat_question_put_answer(const struct chat_question *its, struct str typed,
                              struct buf *request);
/* The prompt of the line in which it is answered. */
#define CHAT_QUESTION_PROMPT 32
void chat_question_prompt(const struct chat_question *its, char ret[CHAT_QUESTION_PROMPT]);
void chat_question_clear(struct chat_questions *q);

#endif
