/* file_lender -- the port for the files of messages: agents read them through it.
 *
 * Thread:   loop.
 * Owns:     what is lent, until it is taken back; a load, until it is done or forgotten.
 */
#ifndef CORE_FILE_LENDER_H
#define CORE_FILE_LENDER_H

#include "proto/errors.h"

struct file_load;

/* The file as base64; its memory is valid during the call.  status: negative enum store_error. */
typedef void (*lender_done)(void *user, int status, struct str base64);

struct lender {
    /* To a program: appends the parts with the path of each file, or says what is wrong in 256
     * bytes. */
    bool (*lend)(void *arg, struct str owner, struct str task_id, struct str parts, struct buf *out,
                 char *ret_error);
    void (*take_back)(void *arg, struct str task_id); /* the end of the task is committed */
    /* Reads a whole file of the owner's.  done is called once, later.  NULL: the gateway stops. */
    struct file_load *(*load)(void *arg, struct str owner, struct str sha256, int64_t size,
                              lender_done done, void *user);
    void (*forget)(struct file_load *load); /* done is not called any more */
    void *arg;
};

#endif
