/* approval -- the user's word on a tool's call, before that begins: what is asked, and what the
 * answers mean.
 *
 * Shape:    yes or no; for a call whose tool names its topic (tool.h) three options: this once, all
 *           calls of that topic in this conversation, no.  What was allowed for the conversation
 *           (allowances.h) is not asked again.
 * Thread:   loop.
 * Owns:     a question its bufs.
 */
#ifndef CORE_APPROVAL_H
#define CORE_APPROVAL_H

#include "core/tool.h"

#define APPROVAL_TOPIC_BYTES 256 /* a topic that is longer is not offered */

/* The ids of the options, a NUL after each, as struct question has them. */
#define APPROVAL_ONCE "once"
#define APPROVAL_CONVERSATION "conversation"
#define APPROVAL_REJECT "reject"
#define APPROVAL_IDS                                                             \
    ((struct str){APPROVAL_ONCE "\0" APPROVAL_CONVERSATION "\0" APPROVAL_REJECT, \
                  sizeof APPROVAL_ONCE "\0" APPROVAL_CONVERSATION "\0" APPROVAL_REJECT})

struct approval_question {
    struct buf prompt;
    struct tool_topic topic; /* its key is empty: no options */
};

/* Whether the user must be asked; is_allowed says whether a topic's key was allowed before. Call
 * approval_question_done in either case. */
bool approval_asks(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                   bool (*is_allowed)(void *task, struct str key), void *task,
                   struct approval_question *ret);
void approval_question_done(struct approval_question *q);
/* The option ids of the question; n 0 when it has none. */
struct str approval_ids(const struct approval_question *q);
/* Appends the member "options" of an input_required, if it has any. */
void approval_put_options(const struct approval_question *q, struct buf *data);

enum approved { APPROVED_NOT, APPROVED_ONCE, APPROVED_CONVERSATION };
/* An answer, as JSON: true and an expiry's null among them. */
enum approved approval_read(struct str answer);
/* For APPROVED_CONVERSATION: calls of this topic are allowed from now on, if it still has one. */
void approval_allow(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                    void (*allow)(void *task, struct str key), void *task);

#endif
