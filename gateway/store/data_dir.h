/* data_dir -- a data directory: its access rights, and how doctor and backup inspect it from
 * outside.
 *
 * Shape:    data_dir_look finds out whether a gateway has the directory.  When none has, it shares
 *           the locks until data_dir_leave, so that none starts meanwhile (one that tries is told
 *           that the directory is in use).  SQLite may have the database open only in between.
 *           Nothing in the directory is ever changed.  data_dir_narrow is the gateway's, at its
 *           start.
 * Thread:   any.
 * Owns:     the locks, the paths.
 * Errors:   false with a sentence.
 */
#ifndef GATEWAY_STORE_DATA_DIR_H
#define GATEWAY_STORE_DATA_DIR_H

#include "gateway/store/store_lock.h"

#define DATA_DIR_ERROR STORE_ERROR_TEXT

struct data_dir {
    char *path;
    char *database; /* path/holdfast.db */
    struct store_lock held;
    bool in_use;   /* by a gateway */
    bool is_still; /* nobody uses it, and everything is in the database file: there is no log */
    char pid[32];  /* of the gateway that has it, or had it last; "" when unknown */
};

bool data_dir_look(const char *path, struct data_dir *ret, char ret_error[DATA_DIR_ERROR]) MUST_USE;
void data_dir_leave(struct data_dir *d);

#define DATA_DIR_OTHERS 077 /* mode bits that only the owner may have */

/* Closes a directory of ours to others, and logs that.  False: it is somebody else's, or holds more
 * than a store. */
bool data_dir_narrow(const char *path, char ret_error[DATA_DIR_ERROR]) MUST_USE;

#endif
