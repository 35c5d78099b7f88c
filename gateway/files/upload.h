/* upload -- one try to give a file: bytes come in, a row and a blob come out.
 *
 * Shape:    bytes go to the disk as they come, a piece at a time; the peer is held while more than
 *           UPLOAD_WAITING wait.  With a key, what came before a cut stays, for a day: the next try
 *           says where it goes on, and a try that is still under way is ended for it.
 *
 *             LOOK ──▶ OPEN ──▶ WRITE ──▶ KEEP ──▶ COMMIT ──▶ done
 * Thread:   loop.
 * Owns:     an upload lives on when its peer has left: what it has is written, or becomes a file.
 * Errors:   told once, by failed, in words for a client.
 */
#ifndef GATEWAY_FILES_UPLOAD_H
#define GATEWAY_FILES_UPLOAD_H

#include "gateway/files/files.h"

#define UPLOAD_WAITING (4 * FILE_PIECE)
#define UPLOADS_MOST 64 /* at a time, of all */
#define UPLOADS_OWNER 8 /* of one owner, or of all guests of an address */
#define UPLOAD_PARTS 16 /* unfinished ones of an owner */
#define MAX_UPLOAD_KEY 128

struct upload_ops {
    void (*hold)(void *arg, bool hold);    /* bytes may not come, or may again */
    void (*at)(void *arg, int64_t offset); /* the answer to a look */
    void (*done)(void *arg, const struct file_record *file, bool repeated);
    /* offset: what the part has, where that is the reason; else -1. */
    void (*failed)(void *arg, enum error e, const char *message, int64_t offset,
                   msec_t retry_after_ms);
    void (*taken)(void *arg); /* another try goes on with it: leave */
};

struct upload_plan {
    struct str owner, quota, conversation_id;
    struct str key; /* NULL for none */
    struct str name, media_type;
    int64_t offset, length; /* where it goes on; of the bytes that come now */
    bool looks;             /* only asks how far it is */
    bool anew;              /* what a cut try has left is dropped */
    const struct upload_ops *ops;
    void *arg;
};

/* Copies the plan.  Nothing of ops is called from inside. */
struct upload *upload_begin(struct files *f, const struct upload_plan *plan);
void upload_write(struct upload *u, const char *bytes, size_t n);
void upload_end(struct upload *u);   /* all bytes came */
void upload_leave(struct upload *u); /* the peer is gone; ops is not called any more */

#endif
