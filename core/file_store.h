/* file_store -- the port for the bytes of files; their rows are in the store (core/store.h).
 *
 * Shape:    an upload is a *part*, "GROUP/NAME", that grows at its end, over any number of
 *           connections and restarts; it is kept as a *blob*, whose name is a hash of its bytes and
 *           its owner.  A blob never changes, and keeping it again changes nothing.  A part's group
 *           is its owner's, so that what is unfinished can be counted.
 * Thread:   any, several at once; never two on one part.  All of them block.
 * Errors:   negative enum store_error.
 */
#ifndef CORE_FILE_STORE_H
#define CORE_FILE_STORE_H

#include "core/store.h"

#define FILE_BLOB_PIECES 256   /* blobs are listed in so many pieces, by their first two digits */
#define FILE_PART_ONCE "once-" /* begins the name of a part that nobody can go on with */

struct file_parts {
    uint32_t n;
    int64_t bytes;
};

struct file_store_ops {
    const char *name;
    int64_t (*part_size)(void *store, const char *part); /* 0 when there is none */
    /* slot: the owner's (core/slot.h); a store of several nodes takes bytes from its home alone. */
    int (*part_write)(void *store, unsigned slot, const char *part, int64_t at, struct str bytes);
    /* Up to n bytes; fewer at the end only.  Returns their number. */
    int64_t (*part_read)(void *store, const char *part, int64_t at, void *to, size_t n);
    /* The part, or nothing when there is none, is the blob from now on: when this returns, it is on
     * disk with its name. */
    int (*part_keep)(void *store, unsigned slot, const char *part, const char *blob);
    int (*part_drop)(void *store, const char *part); /* STORE_OK when there is none, too */
    int (*parts_of)(void *store, const char *group, struct file_parts *ret);
    /* Drops parts that nothing was written to since that time (Unix ms); at a start those that
     * nobody can go on with, too.  This and the list are of the slots whose home is here. */
    int (*parts_sweep)(void *store, int64_t before_ms, bool starts);
    int64_t (*blob_read)(void *store, const char *blob, int64_t at, void *to, size_t n);
    bool lends_at_once; /* waits for nothing but a folder */
    /* Makes it readable at a path that does not exist, for its reader alone to read. */
    int (*blob_lend)(void *store, const char *blob, const char *path);
    int (*blob_drop)(void *store, const char *blob); /* STORE_OK when there is none, too */
    int (*blobs_list)(void *store, unsigned piece, void (*found)(void *arg, const char *blob),
                      void *arg);
    void (*close)(void *store);
};

#endif
