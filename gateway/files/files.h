/* files -- the files of owners: uploads, reads and the sweep, over a store of bytes.
 *
 * Shape:    all that waits for a disk is a *job* on a thread of libuv's pool; its end comes back to
 *           the loop.  The sweep removes the bytes of files that are gone, marks files gone that no
 *           task has named for a day, and at the start and once a day removes bytes that no row
 *           names.  While it looks and removes, no upload becomes a blob, and the other way round.
 * Thread:   loop.
 * Owns:     the store of bytes; jobs; uploads (upload.h).
 * Errors:   negative enum store_error; a sweep that fails is tried again later.
 */
#ifndef GATEWAY_FILES_FILES_H
#define GATEWAY_FILES_FILES_H

#include <uv.h>

#include "core/file_lender.h"
#include "core/file_store.h"
#include "core/hub.h"

#define FILE_UNNAMED_MS 86400000 /* how long a file, or a part, waits for a task that names it */
#define FILE_PIECE 65536         /* bytes that are read or written at once */

struct files;
struct upload;

struct files_stats {
    uint64_t stored, stored_bytes; /* uploads that were completed */
    uint64_t refused, cut;
    uint64_t read_bytes;
    uint64_t swept;     /* blobs */
    uint64_t failures;  /* of the store of bytes */
    uint32_t uploading; /* now */
};

/* Takes the store of bytes; dir is the data directory, where files are lent to agents; max_bytes
 * bounds a file of theirs.  The hub need not be open yet. */
struct files *files_open(uv_loop_t *loop, struct hub *hub, const char *dir, int64_t max_bytes,
                         const struct file_store_ops *ops, void *store);
/* Where conversations' folders lie, and how one is called (a digest, of at most FILE_HASH_LEN). */
void files_set_workspaces(struct files *f, const char *folder,
                          void (*name)(struct str owner, struct str conversation_id, char *ret));
void files_start(struct files *f); /* sweeps begin, when the hub is restored */
/* Nothing begins any more, and what is under way has ended; while all else still lives. */
void files_stop(struct files *f);
void files_close(struct files *f); /* after the hub; both allow NULL */
bool files_are_open(const struct files *f);
const struct files_stats *files_stats(const struct files *f);

/* Lends the files of a task's input to its agent: in a folder of the task's own, until it has
 * ended (core/file_lender.h).  A store that does not lend at once is waited for in the pool. */
bool files_lend(struct files *f, const struct lend_plan *plan, struct buf *out,
                struct lending **ret, char *ret_error) MUST_USE;
void files_lend_drop(struct lending *lending); /* done is not called any more; NULL is allowed */
void files_return(struct files *f, struct str task_id); /* the task has ended */

struct lender files_lender(struct files *f); /* all of these, for agents */

/* A hash as FILE_HASH_LEN hex digits, of the two with a NUL in between. */
void files_hash(struct str a, struct str b, char ret[FILE_HASH_LEN + 1]);

/* A read.  done is called once, from the loop, never from inside files_read: bytes is shorter than
 * n at the end of the blob only; its memory is valid during the call. */
struct file_read;
typedef void (*file_read_fn)(void *arg, int status, struct str bytes);
/* NULL, and nothing is called, when they are not open any more. */
struct file_read *files_read(struct files *f, struct str blob, int64_t at, size_t n,
                             file_read_fn done, void *arg);
/* The same of a whole file of the owner's, by the hash of its bytes: bytes is its base64. */
struct file_read *files_load(struct files *f, struct str owner, struct str sha256, int64_t size,
                             file_read_fn done, void *arg);
/* The same of an open file, which must stay open until done or files_read_close. */
struct file_read *files_read_open(struct files *f, int fd, int64_t at, size_t n, file_read_fn done,
                                  void *arg);
/* Closes *fd, later when a read of it is under way, and sets it to -1; r may be NULL. */
void files_read_close(struct file_read *r, int *fd);
void files_read_forget(struct file_read *r); /* done is not called any more; NULL is allowed */

#endif
