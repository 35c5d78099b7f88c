/* files_private -- between the files of this room: jobs, and the sweep's state.
 *
 * Thread:   loop; a job's run is called on a thread of libuv's pool.
 */
#ifndef GATEWAY_FILES_FILES_PRIVATE_H
#define GATEWAY_FILES_FILES_PRIVATE_H

#include "core/list.h"
#include "core/tool.h"
#include "gateway/files/files.h"

/* run is called on a thread of the pool, then done on the loop. */
struct job {
    uv_work_t work;
    struct files *files;
    void (*run)(struct job *job);
    void (*done)(struct job *job);
};

struct blob_names {
    char (*at)[FILE_HASH_LEN + 1];
    size_t n, cap;
};

/* The steps of a sweep, in this order. */
enum sweep_step { SWEEP_RESTS, SWEEP_PARTS, SWEEP_GONE, SWEEP_STRAYS };

struct sweep {
    struct job job;
    struct waiter waiter;
    struct timer timer;
    enum sweep_step step;
    bool at_start, listed;
    unsigned piece; /* of the blobs that are looked at: no row may name them */
    int64_t next_strays_ms, next_expiry_ms;
    int64_t before_ms;             /* parts that nothing was written to since then are dropped */
    struct blob_names found, dead; /* in the piece; those that are to be dropped */
    size_t at;                     /* in found */
    int status;
    bool holds; /* no upload may become a blob */
};

struct files {
    uv_loop_t *loop;
    struct hub *hub;
    char *dir; /* of what is lent */
    const struct file_store_ops *ops;
    void *store;
    struct list uploads; /* of struct upload: all */
    struct list to_keep; /* of these: wait until the sweep has finished its step */
    unsigned n_keeping;  /* uploads that become blobs now */
    unsigned n_jobs;
    int64_t max_bytes; /* of one file */
    struct tool tool;  /* of programs */
    char *workspaces;  /* the parent of conversations' folders; NULL: there are none */
    void (*name_workspace)(struct str owner, struct str conversation_id, char *ret);
    bool closing;
    struct sweep sweep;
    struct files_stats stats;
};

void files_job(struct files *f, struct job *job);

/* sweep.c */
void sweep_start(struct files *f);
void sweep_stop(struct files *f);
void sweep_proceed(struct files *f); /* an upload has become a blob */
void blob_names_add(struct blob_names *names, const char *blob);

/* lend.c */
void lend_sweep(struct files *f); /* folders of tasks that are over */

/* upload.c */
void uploads_keep(struct files *f); /* the sweep holds them back no longer */
void uploads_stop(struct files *f); /* none begins any more */
void uploads_done(struct files *f);

#endif
