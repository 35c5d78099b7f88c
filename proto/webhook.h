/* webhook -- another server that a task's owner wants to be told (PROTOCOL.md section 5).
 *
 * Shape:    {"url":…,"headers":{…},"form":…}: checked once, kept as compact JSON, and taken apart
 *           again when a message goes out.
 * Thread:   any.
 * Owns:     nothing, but for what webhook_target_read fills.
 */
#ifndef PROTO_WEBHOOK_H
#define PROTO_WEBHOOK_H

#include "proto/buf.h"
#include "proto/js.h"

#define MAX_WEBHOOK_URL 2048       /* bytes */
#define MAX_WEBHOOK_ID 128         /* bytes */
#define MAX_WEBHOOK_HEADERS 8      /* of one webhook */
#define MAX_WEBHOOK_HEADER_NAME 64 /* bytes */
#define MAX_WEBHOOK_HEADER 1024    /* bytes of a value */

/* Appends url, headers and form as compact JSON, no longer than the text of the node; ret_id is the
 * node of its "webhook_id", 0 for none. False: something of it is not as it must be. */
bool webhook_read(const struct js_doc *doc, uint32_t node, struct buf *out, uint32_t *ret_id)
    MUST_USE;

/* A message for such a server: {"owner":…,"webhook":{…},"message":{…}}. */
void webhook_put_message(struct buf *out, struct str owner, struct str webhook, struct str message);

struct webhook_target {
    char *url;
    bool a2a;                               /* the form: the message is that of A2A, else our own */
    char *headers[MAX_WEBHOOK_HEADERS + 1]; /* "Name: value", then NULL */
    struct buf message;                     /* our own */
};

/* False for what webhook_put_message has not written. */
bool webhook_target_read(struct js_doc *doc, struct str entry, struct webhook_target *ret) MUST_USE;
void webhook_target_done(struct webhook_target *target);

#endif
