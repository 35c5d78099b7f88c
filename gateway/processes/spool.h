/* spool -- the bytes between a kept program and the gateway, so that a kill of the gateway finds
 * each of them in exactly one place.
 *
 * Shape:    a spool is a file in memory (memfd) beside a pipe of the program.  splice moves bytes
 *           from one to the other and the file's position with them, in one system call that no
 *           kill divides: the position is the truth.  The next gateway has the same files open and
 *           reads it there.  Places are counted in bytes since the program began.
 *
 *             stdout pipe ──splice──▶ spool_out ──▶ read from the mark on, cut behind it
 *             lines ──▶ spool_in ──splice──▶ stdin pipe
 *
 * Out:      what lies behind the committed mark is punched out; once all is committed and the
 *           position is SPOOL_REWIND or more, the file is written from its beginning again, so that
 *           a program that says little stays in the same pages.
 * In:       bytes are only ever appended, and whole pages that the program has read are punched
 *           out.  Pages that a pipe took are still the file's: writing over them would change what
 *           is yet to be read.
 * Thread:   one at a time, and one gateway at a time: the store's lock sees to that.
 * Owns:     the caller owns the descriptors; spool_out_close unmaps.
 * Errors:   said with each function.
 * Limits:   the page (hold_page.h) holds 63 lines ahead of the program.
 */
#ifndef GATEWAY_PROCESSES_SPOOL_H
#define GATEWAY_PROCESSES_SPOOL_H

#include <sys/types.h>

#include "gateway/processes/hold_page.h"
#include "proto/buf.h"

#define SPOOL_CHUNK 65536         /* bytes of one read, and of a pipe */
#define SPOOL_MAPPED (256 * 1024) /* of spool_out: read without a system call */
#define SPOOL_REWIND 65536

struct spool_out {
    struct hold_page *page;
    int pipe; /* -1: it has ended, or is given up */
    int file;
    const char *mapped; /* the first SPOOL_MAPPED bytes of the file; NULL: there was no room */
    uint64_t position;  /* all before it has left the pipe */
    uint64_t taken;     /* all before it was handed to the caller */
    uint64_t punched;   /* bytes of the file */
};

/* A new file, close-on-exec; -1 and errno. */
int spool_new(void);
/* NULL, or why this system cannot keep programs (text of static storage or of strerror). */
const char *spool_probe(void);

/* Finishes a rewind that was interrupted; reading begins at the mark.  False: the mark is no place
 * in this spool.  pipe may be -1. */
bool spool_out_open(struct spool_out *s, struct hold_page *page, int pipe, int file, uint64_t mark)
    MUST_USE;
void spool_out_close(struct spool_out *s);
/* Appends at most SPOOL_CHUNK bytes: their number; 0: the pipe has ended; -1: nothing there now
 * (EAGAIN), or errno. */
ssize_t spool_out_read(struct spool_out *s, struct buf *to);
/* All before the mark is committed. */
void spool_out_settle(struct spool_out *s, uint64_t mark);

struct spool_in {
    struct hold_page *page;
    int pipe; /* -1: closed */
    int file;
    uint64_t position; /* all before it is in the pipe */
    uint64_t punched;
};

enum spool_flush {
    SPOOL_DONE,  /* the pipe has all */
    SPOOL_WAITS, /* it is full */
    SPOOL_DEAF   /* nobody will read it */
};

/* False: the file's position cannot be read. */
bool spool_in_open(struct spool_in *s, struct hold_page *page, int pipe, int file) MUST_USE;
/* Bytes that the pipe has not taken. */
uint64_t spool_in_waiting(const struct spool_in *s);
/* Appends a line (its end included) of the inbox, or, with number 0, what is said besides.  False:
 * there is no room for now; nothing was put. */
bool spool_in_put(struct spool_in *s, uint64_t number, uint64_t said, struct str bytes) MUST_USE;
enum spool_flush spool_in_flush(struct spool_in *s);

#endif
