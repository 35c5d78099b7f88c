/* talk -- a conversation in a model's form: OpenAI's messages, and which of them may go.
 *
 * Shape:    json is the array without its closing bracket.  A message is begun, gets its members,
 *           and is ended.  Pinned messages stay, and so does the last one; among the others,
 *           talk_shorten leaves out the oldest, a user's message with everything that answers it, a
 *           tool's result never without its call.
 * Turns:    the templates of many models refuse a talk unless one system message comes first, the
 *           user comes next, and the roles alternate.  So news that the history marks as the
 *           system's becomes the user's here, an answer at the beginning whose question is gone is
 *           left out, and between two messages of one role comes a short one of the other.
 * Thread:   any; one at a time.
 * Owns:     its buffers; talk_done frees them.
 */
#ifndef GATEWAY_AGENTS_TALK_H
#define GATEWAY_AGENTS_TALK_H

#include "proto/js.h"

enum talk_role { TALK_SYSTEM, TALK_USER, TALK_ASSISTANT, TALK_TOOL };

struct talk_message {
    size_t at; /* in json, including the comma before it */
    enum talk_role role;
    bool pinned;
};

struct talk {
    struct buf json;
    struct buf spaced; /* the same, with messages between two of one role */
    struct talk_message *messages;
    size_t n, cap;
};

void talk_init(struct talk *t);
void talk_done(struct talk *t);
void talk_begin(struct talk *t, enum talk_role role); /* {"role":"…" – open for more */
void talk_end(struct talk *t, bool pinned);
void talk_put(struct talk *t, enum talk_role role, struct str content, bool pinned);
/* content is a text, or an array of parts (proto/parts.h). */
void talk_put_parts(struct talk *t, enum talk_role role, struct str parts, bool pinned);
/* A whole message as it stands in a talk, and the newest message in that form. */
void talk_put_raw(struct talk *t, enum talk_role role, struct str message);
struct str talk_newest(const struct talk *t);
void talk_append(struct talk *to, const struct talk *from);
/* Messages of the history: an array of {"role","content"}.  False for anything else. */
bool talk_put_history(struct talk *t, struct js_doc *doc, struct str history) MUST_USE;
/* The same for a client's context, which replaces the history; before it the agent's own
 * instructions (STR_NULL for none), with all system messages in one. */
bool talk_put_context(struct talk *t, struct js_doc *doc, struct str system, struct str context)
    MUST_USE;
/* Bytes of talk_str, without the closing bracket. */
size_t talk_size(const struct talk *t);
/* Leaves out messages until talk_str has at most that many bytes, or no message is left that may
 * go; returns their number. */
size_t talk_shorten(struct talk *t, size_t max_bytes);
/* The whole array; valid until the next change. */
struct str talk_str(struct talk *t);

#endif
