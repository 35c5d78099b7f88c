/* file_folder -- the bytes of files in a folder, beside the database (core/file_store.h).
 *
 * Shape:    DIR/files/part/GROUP/NAME is written in place; DIR/files/blob/HH/HASH is a part that
 *           was synced and renamed, and whose folder was synced after that.
 * Thread:   any.
 * Errors:   negative enum store_error; a full disk is STORE_FULL.
 */
#ifndef GATEWAY_STORE_FILE_FOLDER_H
#define GATEWAY_STORE_FILE_FOLDER_H

#include "core/file_store.h"

extern const struct file_store_ops file_folder_ops;

/* The store of a data directory, or NULL with errno. */
void *file_folder_open(const char *dir);

/* Appends the path of a blob below a data directory. */
void file_folder_put_path(struct buf *out, const char *dir, const char *blob);

#endif
