/* outbox -- reports to other servers about tasks that end.
 *
 * Shape:    the batch that ends a task stores one entry for each hook: promise 3 for receivers that
 *           are not connected.  The rim delivers an entry after its commit, with as many attempts
 *           as it takes, and calls outbox_take when it is done with it.
 *
 *             {"type":"task.completed","timestamp":1764280000000,
 *              "data":{"owner":"…","task":{summary}}}
 * Thread:   loop.
 * Owns:     nothing.
 */
#ifndef CORE_OUTBOX_H
#define CORE_OUTBOX_H

#include "proto/record.h"

struct hub;
struct op;

/* Names of receivers that no configuration can have: a task's own webhooks while the task is live,
 * which nobody delivers, and what is to be delivered to them (task_hook.c, proto/webhook.h). */
#define OUTBOX_HELD "\x01held"
#define OUTBOX_OF_TASKS "\x01tasks"

struct outbox_options {
    const char *const *hooks;
    size_t n_hooks;
    void (*posted)(void *arg, const struct outbox_record *entry); /* called after the commit */
    void *arg;
};

void outbox_stage(struct hub *h, const struct task_record *task); /* as it ends */
void outbox_take(struct hub *h, int64_t key);
/* The slot of the owner whom an entry's body names, at the top or in its data; 0 if it names none,
 * as one that is held for a task. */
unsigned outbox_slot(struct str body);
/* Stages one entry. */
void outbox_put(struct hub *h, struct str owner, struct str hook, struct str body);
/* {"type":…,"timestamp":…,"data":…}, and the task's trace if it has one. */
void outbox_put_message(const struct hub *h, struct buf *out, const char *type, int64_t at,
                        const struct task_record *task);
const char *outbox_type(const struct task_record *task); /* of a task that has ended */

#endif
