/* talk -- a conversation as a model is given it: OpenAI's messages, and which of them may go.
 *
 * Shape:    json is the array but for its closing bracket.  A message is begun, gets its members,
 *           and is ended.  What was pinned stays, and what came last; of the rest, talk_shorten
 *           leaves out the oldest, a user's message with all that answers it, a tool's result never
 *           without its call.
 * Turns:    the templates of many models refuse a talk in which one system message does not come
 *           first, the user does not come next, or a role speaks twice in a row.  So the news that
 *           the history tells as the system's is the user's here, an answer whose question is gone
 *           is left out at the beginning, and between two messages of one role stands a short one
 *           of the other.
 * Thread:   any; one at a time.
 * Owns:     its buffers; talk_done frees them.
 */
#ifndef GATEWAY_AGENTS_TALK_H
#define GATEWAY_AGENTS_TALK_H

#include "proto/js.h"

enum talk_role { TALK_SYSTEM, TALK_USER, TALK_ASSISTANT, TALK_TOOL };

struct talk_message {
    size_t at; /* in json, the comma before it included */
    enum talk_role role;
    bool pinned;
};

struct talk {
    struct buf json;
    struct buf spaced; /* the same with what stands between two messages of one role */
    struct talk_message *messages;
    size_t n, cap;
};

void talk_init(struct talk *t);
void talk_done(struct talk *t);
void talk_begin(struct talk *t, enum talk_role role); /* {"role":"…" – open for more */
void talk_end(struct talk *t, bool pinned);
void talk_put(struct talk *t, enum talk_role role, struct str content, bool pinned);
/* Messages of the history: an array of {"role","content"}.  False when it is none. */
bool talk_put_history(struct talk *t, struct js_doc *doc, struct str history) MUST_USE;
/* The same of what a client brought in the history's place, and first of all the agent's own
 * instructions (STR_NULL for none), with all of role system in one message. */
bool talk_put_context(struct talk *t, struct js_doc *doc, struct str system, struct str context)
    MUST_USE;
/* Bytes of talk_str, but for the closing bracket. */
size_t talk_size(const struct talk *t);
/* Leaves out messages until talk_str has at most so many bytes, or none is left that may go: how
 * many. */
size_t talk_shorten(struct talk *t, size_t max_bytes);
/* The whole array; good until the next change. */
struct str talk_str(struct talk *t);

#endif
