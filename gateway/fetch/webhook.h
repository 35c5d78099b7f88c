/* webhook -- delivers the outbox: reports each task that ends to other servers, at least once; and
 * tells the servers that tasks' owners name (proto/webhook.h), unsigned, for ten minutes.
 *
 * Shape:    for each configured hook a window of undelivered entries: at most HOOK_ITEMS entries
 *           and HOOK_BYTES; further ones wait in the store, and are read when there is room.  An
 *           entry is posted until the receiver answers 2xx, after 1 s, doubled each time, at most
 *           an hour apart, with jitter; the first try of a new process comes at once.  An entry
 *           older than give_up_s is dropped.  The id is the same at each try; order is not
 *           promised.  As in Standard Webhooks 1.0:
 *
 *             webhook-id: <id>      webhook-timestamp: <Unix s, of the try>
 *             webhook-signature: v1,base64(HMAC-SHA256(secret, "<id>.<timestamp>.<body>"))
 * Thread:   loop.
 * Owns:     its entries and fetches, the secrets (wiped when closed).
 * Errors:   failures are counted and logged, and never affect a task.  webhooks_open: a sentence.
 * Safety:   guarded fetches (fetch.h) that follow no redirect: only public addresses, and
 *           webhook_allow.
 */
#ifndef GATEWAY_FETCH_WEBHOOK_H
#define GATEWAY_FETCH_WEBHOOK_H

#include "core/hub.h"
#include "core/secrets.h"

#define HOOK_ITEMS 256
#define HOOK_BYTES (4u << 20)

struct config;
struct fetcher;
struct webhooks;

struct webhook_stats {
    uint64_t delivered, failed, given_up; /* failed: single tries */
    uint64_t pending;                     /* in the windows, now */
};

/* NULL with a sentence in ret_error; the hub need not be open yet.  hidden gets the secrets. */
struct webhooks *webhooks_open(struct hub *hub, struct fetcher *fetcher,
                               const struct config *config, struct secrets *hidden, char *ret_error,
                               size_t n) MUST_USE;
struct outbox_options webhooks_outbox(struct webhooks *w); /* for the hub */
void webhooks_start(struct webhooks *w); /* after the hub's restore; again when slots came */
/* Those slots are another process's now, and so is what waits for their owners. */
void webhooks_leave(struct webhooks *w, const struct slots *slots);
struct webhook_stats webhooks_stats(const struct webhooks *w);
void webhooks_close(struct webhooks *w); /* NULL is allowed */

/* Appends "v1,…" for one message (webhook_sign.c). */
void webhook_sign(struct str secret, struct str id, int64_t timestamp_s, struct str body,
                  struct buf *out);
/* The secret in a file: its first line, either raw, or base64 after "whsec_"; 24 to 512 bytes.
 * False with a sentence.  hidden gets what the file says. */
bool webhook_secret(const char *file, struct secrets *hidden, struct buf *ret_secret,
                    char *ret_error, size_t n) MUST_USE;

#endif
