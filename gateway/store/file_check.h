/* file_check -- whether the bytes of all files are there as they were written; and their copy.
 *
 * Shape:    dir is a data directory, or that of a copy: files/blob below it.  Both read the
 *           database as store_check does.
 * Thread:   any.
 * Errors:   faults get a sentence each; the copy fails with a negative enum store_error and one.
 */
#ifndef GATEWAY_STORE_FILE_CHECK_H
#define GATEWAY_STORE_FILE_CHECK_H

#include "gateway/store/store_check.h"

/* full: reads and hashes all of them. */
void file_check(const char *database, bool is_still, const char *dir, bool full,
                struct store_check *ret);

/* Copies into the folder `to`, which must not exist, what the copied database names; it is not made
 * when that is nothing.  What was removed from dir since the copy was made is taken out of it. */
int file_copy(const char *copied_database, const char *dir, const char *to, int64_t *ret_n,
              struct buf *ret_error) MUST_USE;

/* Removes such a folder. */
void file_copy_remove(const char *to);

#endif
