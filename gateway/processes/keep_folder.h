/* keep_folder -- the folder of one command: its keeper writes it, the gateway reads it.
 *
 * Shape:    DATA/processes/ID/ holds
 *             spec     JSON, by the gateway before the keeper starts: what runs, for whom
 *             lock     locked (flock) as long as the keeper lives
 *             input    a FIFO to the keeper: frames, see keep_frame
 *             closed   exists, and is empty, when nothing can be written to the command any more
 *             output   a ring of the last KEEP_RING bytes that the command has written
 *             status   JSON, replaced as a whole: who runs it, and how it has ended
 *             watch    what was told about the lines that are watched for (process_watch.c)
 *           It holds everything that a restarted gateway must know, and nothing else does.
 * Thread:   any.  Calls read or write at most KEEP_RING bytes of local files, and never wait.
 * Owns:     a spec owns its strings (keep_spec_done).
 * Errors:   false; a missing or damaged file counts as absent.
 */
#ifndef GATEWAY_PROCESSES_KEEP_FOLDER_H
#define GATEWAY_PROCESSES_KEEP_FOLDER_H

#include <sys/types.h>

#include "gateway/processes/bounds.h"
#include "proto/buf.h"

#define KEEP_CHUNK 65536  /* bytes of one read by the keeper */
#define KEEP_CHARS 200000 /* of output that are kept, in characters */
#define KEEP_RING \
    (4 * KEEP_CHARS + KEEP_CHUNK) /* bytes; the oldest chunk may be half overwritten */
#define KEEP_FRAME 4096           /* bytes of a frame, its head included: writing them is atomic */
#define KEEP_ID_LEN 17            /* "proc_" and 12 hexadecimal digits */

struct keep_texts {
    char **list; /* NULL-terminated, when n > 0 */
    size_t n;
};

struct keep_spec {
    char *owner, *conversation_id, *task_id, *agent; /* the starter's */
    char *call;             /* of that task, which it answers (core/tool.h); NULL: unknown */
    char *command;          /* as requested */
    struct keep_texts argv; /* what is executed */
    char *cwd;              /* NULL: the keeper's own */
    char *workdir;          /* as reported: inside the sandbox */
    bool sandboxed;         /* argv is bubblewrap's */
    bool background;        /* otherwise a tool call waits for it, and it ends with that call */
    bool pty;
    bool notify_on_complete; /* false when the file does not say */
    struct keep_texts watch_patterns;
    int64_t started_at; /* Unix ms */
    int64_t timeout_ms; /* 0: none */
    struct bounds bounds;
    char *folder;  /* of the conversation, in the keeper's view; NULL: not measured */
    char *cgroup;  /* where the keeper creates one; NULL: not available */
    int64_t files; /* the command's soft limit of descriptors; 0: the keeper's own */
};

enum keep_state {
    KEEP_RUNNING,
    KEEP_EXITED,
    KEEP_KILLED,    /* asked to end */
    KEEP_TIMED_OUT, /* timeout_ms was over */
    KEEP_FAILED,    /* could not start */
    KEEP_LOST,      /* its keeper is gone, and did not say how it ended */
};
const char *keep_state_name(enum keep_state state);

struct keep_status {
    enum keep_state state;
    pid_t keeper, pid;                /* 0: unknown */
    uint64_t keeper_ticks, pid_ticks; /* their starts (tree.h); 0: unknown */
    bool has_exit_code;
    int exit_code;    /* negative: the signal that ended it; -15 when it was asked to end */
    int64_t ended_at; /* Unix ms; 0 while it runs */
    char error[128];  /* for KEEP_FAILED; for KEEP_KILLED: the bound that it exceeded */
};

bool keep_spec_write(int folder, const struct keep_spec *spec) MUST_USE;
bool keep_spec_read(int folder, struct keep_spec *ret) MUST_USE;
bool keep_has_spec(int folder); /* readable or not */
void keep_spec_done(struct keep_spec *spec);
void keep_texts_done(struct keep_texts *texts);

bool keep_status_write(int folder, const struct keep_status *status) MUST_USE;
bool keep_status_read(int folder, struct keep_status *ret) MUST_USE;
bool keep_has_status(int folder); /* readable or not */

/* The state that a folder tells of its command.  The lock is asked first: once it is free, nobody
 * writes the status any more, so what is read then is the last word. */
enum keep_sight {
    KEEP_NEVER_BEGAN, /* no status, and no keeper: a keeper runs nothing before its first status */
    KEEP_YOUNG,       /* a keeper, and no status yet */
    KEEP_LIVES,       /* a keeper, and its status */
    KEEP_ENDED,       /* its status says how */
    KEEP_VANISHED,    /* its status says that it runs, and there is no keeper */
};
/* The status is all zero where there is none. */
enum keep_sight keep_look(int folder, struct keep_status *ret) MUST_USE;

/* The ring.  The keeper puts; total is the number of bytes ever put, and a place is a position in
 * that count. */
int keep_ring_open(int folder, bool writes); /* a descriptor, -1 */
bool keep_ring_put(int ring, uint64_t *total, const char *bytes, size_t n) MUST_USE;
uint64_t keep_ring_total(int ring);

/* A read has appended the bytes from first to end. */
struct keep_span {
    uint64_t first, end;
};
/* Appends at most max bytes from that place on, correctly even while the keeper writes. first >
 * from: the bytes between were overwritten.  Reading on from end misses nothing. */
struct keep_span keep_ring_read(int ring, uint64_t from, size_t max, struct buf *out);

/* Frames of the FIFO: one byte of kind, two of length (low one first), the bytes. */
enum keep_frame { KEEP_WRITE = 'W', KEEP_CLOSE = 'C', KEEP_KILL = 'K' };
/* Whether somebody holds the lock: then its keeper lives.  True when that cannot be found out. */
bool keep_is_locked(int folder);
void keep_put_closed(int folder);
bool keep_has_closed(int folder);
/* Removes the folder and everything that it may hold. */
void keep_remove(int processes, const char *id);

#endif
