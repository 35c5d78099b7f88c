/* workspace -- what an agent has left in the folder of its conversation: looked at, never changed.
 *
 * Shape:    a path is opened beneath the folder, through no link of any kind (openat2(2),
 *           RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS).  A folder is listed; a file is open then, and
 *           read by files_read_open.  The folder's name is a digest of owner and conversation, so
 *           nobody reaches another one's.
 * Thread:   loop; the disk waits in the pool.
 * Owns:     a look, until it is done or forgotten.
 * Errors:   STORE_NOT_FOUND for whatever is not there, not within, or neither file nor folder.
 */
#ifndef GATEWAY_FILES_WORKSPACE_H
#define GATEWAY_FILES_WORKSPACE_H

#include "gateway/files/files.h"

#define WORKSPACE_ENTRIES 1000 /* of a listing */

/* One file or folder.  fd is the caller's from then on. */
struct workspace_found {
    int fd;          /* of a file; -1: a folder */
    int64_t size;    /* of a file */
    char etag[48];   /* of a file: it changes with its time and size */
    struct str json; /* of a folder: its entries, an array, by name */
    bool more;       /* there are more than WORKSPACE_ENTRIES */
};

struct workspace_look;
typedef void (*workspace_fn)(void *arg, int status, const struct workspace_found *found);
/* path: "" for the folder itself.  done is called once, later.  NULL: nothing begins any more. */
struct workspace_look *workspace_look(struct files *f, struct str owner, struct str conversation_id,
                                      struct str path, workspace_fn done, void *arg);
void workspace_forget(struct workspace_look *look); /* done is not called; NULL is allowed */

#endif
