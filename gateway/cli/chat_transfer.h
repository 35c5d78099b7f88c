/* chat_transfer -- one file of a conversation over HTTP: sent in as many tries as it takes, or
 * saved.
 *
 * Shape:    a transfer works on a thread of libuv's pool and reports once, on the loop.  Its tries
 *           have a key, so a sent file that is cut goes on where the gateway says, and so does a
 *           saved one.
 * Thread:   the loop's, but for the work itself, which touches nothing but its transfer.
 * Owns:     copies of everything; the caller frees it with chat_transfer_free, in on_done or later.
 * Errors:   chat_transfer_open: a sentence, when there is no such file, or one that may not be
 *           written over.  on_done: the transfer's error, a sentence too.
 */
#ifndef GATEWAY_CLI_CHAT_TRANSFER_H
#define GATEWAY_CLI_CHAT_TRANSFER_H

#include "gateway/cli/chat_link.h"

struct chat_transfer;

struct chat_transfer_order {
    const struct chat_url *url;
    const char *token; /* NULL: none */
    const char *conversation;
    const char *file_id; /* it is saved; NULL: it is sent */
    const char *path;    /* on this machine */
};

typedef void (*chat_transfer_fn)(void *arg, struct chat_transfer *t);

/* Opens the file that is sent, or makes the one that is saved: another one is not written over.
 * NULL with a sentence in ret_why, which the caller frees. */
struct chat_transfer *chat_transfer_open(const struct chat_transfer_order *order, char **ret_why);
void chat_transfer_start(struct chat_transfer *t, uv_loop_t *loop, chat_transfer_fn on_done,
                         void *arg);
/* It ends soon; what was saved of a file is removed. */
void chat_transfer_stop(struct chat_transfer *t);

/* In on_done: NULL when it is there. */
const char *chat_transfer_error(const struct chat_transfer *t);
bool chat_transfer_was_stopped(const struct chat_transfer *t);
struct str chat_transfer_answer(const struct chat_transfer *t); /* of a sent one: the part, JSON */
int64_t chat_transfer_size(const struct chat_transfer *t);
const char *chat_transfer_name(const struct chat_transfer *t); /* the last segment of its path */

void chat_transfer_free(struct chat_transfer *t); /* not while it works; NULL is allowed */

#endif
