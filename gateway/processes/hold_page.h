/* hold_page -- what a gateway and the next one must know of a kept program, besides its bytes: the
 * page that they and its holder have mapped (spool.h, holder.h).
 *
 * Shape:    in memory that outlives the gateway.  The layout of each version is frozen: a gateway
 *           finds pages that an older one has made.  The holder writes the report, the gateway all
 *           else.
 * Atomic:   a kill finds each of the counters below as it was, or as it is; what must change
 *           together hangs on one of them.
 * Thread:   the writers' own.
 * Errors:   hold_page_is_sound says false for a page that is damaged, or of a version that this
 *           gateway does not know.
 */
#ifndef GATEWAY_PROCESSES_HOLD_PAGE_H
#define GATEWAY_PROCESSES_HOLD_PAGE_H

#include "proto/base.h"

#define HOLD_PAGE_BYTES 8192
#define HOLD_MAGIC 0x686f6c64u
#define HOLD_VERSION 1
#define HOLD_LINES 64 /* one less may lie ahead of what the program's pipe has taken */
#define HOLD_TAIL 4096
#define HOLD_DIGEST 33 /* a string */

/* All that stdin was given so far, up to and with one piece of it. */
struct hold_line {
    uint64_t number; /* the newest line of the inbox in it; 0: none yet */
    uint64_t end;    /* bytes */
    uint64_t said;   /* enum hold_said */
};

enum hold_said {
    HOLD_SAID_RUN = 1,    /* what its stdin begins with */
    HOLD_SAID_CANCEL = 2, /* that it is asked to stop */
};

struct hold_page {
    uint32_t magic, version;
    char digest[HOLD_DIGEST]; /* of the configuration that started it */
    char unused[7];
    uint64_t out_base; /* bytes that left the pipe before the spool's position was 0 */
    uint64_t out_next; /* the base after the rewind that is under way; otherwise the same */
    uint64_t n_lines;  /* ever put: the counter on which a line hangs */
    /* The newest, line i at i % HOLD_LINES; but the place of the next one may be half written. */
    struct hold_line lines[HOLD_LINES];
    uint32_t in_ended; /* nothing is given to stdin any more */
    uint32_t reported; /* the program has ended: */
    int32_t error;     /* the errno of exec; 0 when it ran */
    int32_t status;    /* as waitpid returns it */
    uint32_t gone;     /* and nothing of its tree is left */
    uint32_t tail_bytes;
    char tail[HOLD_TAIL]; /* the last of stderr */
    /* A program may serve one task after the other; zeros for the first of them. */
    uint64_t from_out;  /* output before it was for earlier tasks, as were … */
    uint64_t from_line; /* … lines up to that number */
    uint32_t ends;      /* it does not wait for a gateway: it is idle, or is to stop */
};

/* Makes a page of zeros into a new one. */
void hold_page_init(struct hold_page *page, const char *digest);
/* in_bytes: the size of the spool for stdin; in_position: bytes of it that the pipe has taken. */
bool hold_page_is_sound(const struct hold_page *page, uint64_t in_bytes, uint64_t in_position);

/* The newest line: all zeros when there is none. */
struct hold_line hold_page_newest(const struct hold_page *page);
/* Whether the pipe has taken all of the line of that number. */
bool hold_page_has_told(const struct hold_page *page, uint64_t number, uint64_t in_position);
/* The newest line that the pipe has taken whole; 0: none that is known. */
uint64_t hold_page_told(const struct hold_page *page, uint64_t in_position);
/* Whether one more line has a place: the one that it drives out was taken by the pipe. */
bool hold_page_has_room(const struct hold_page *page, uint64_t in_position);
/* The bytes are in the spool. */
void hold_page_put(struct hold_page *page, const struct hold_line *line);
void hold_page_report(struct hold_page *page, int error, int status);
void hold_page_set(uint32_t *flag);
void hold_page_clear(uint32_t *flag);
bool hold_page_is_set(const uint32_t *flag);

#endif
