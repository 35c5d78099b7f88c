/* data_dir -- a data directory as seen from beside: by doctor and backup, never by the gateway.
 *
 * Shape:    data_dir_look tells whether a gateway has the directory.  When none has, it holds a
 *           shared lock until data_dir_leave, so that none comes meanwhile (one that tries is told
 *           that the directory is in use).  Nothing in the directory is ever changed.
 * Thread:   any.
 * Owns:     the lock's descriptor, the paths.
 * Errors:   false with a sentence.
 */
#ifndef GATEWAY_STORE_DATA_DIR_H
#define GATEWAY_STORE_DATA_DIR_H

#include "proto/buf.h"

#define DATA_DIR_ERROR 256

struct data_dir {
    char *path;
    char *database; /* path/holdfast.db */
    int lock_fd;    /* -1: there is no lock file */
    bool in_use;    /* by a gateway */
    bool is_still;  /* in nobody's use, and all is in the database file: none of it in a log */
    char pid[32];   /* of the gateway that has it, or had it last; "" when nobody says */
};

bool data_dir_look(const char *path, struct data_dir *ret, char ret_error[DATA_DIR_ERROR]) MUST_USE;
void data_dir_leave(struct data_dir *d);

#endif
