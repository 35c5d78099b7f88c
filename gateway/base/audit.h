/* audit -- who did what: one line of JSON for each request, in a file of its own.
 *
 *     {"ts":"2026-03-01T12:00:00.000Z","event":"chat","owner":"alice","from":"192.0.2.1",
 *      "conversation":"c-1","task":"01…","agent":"assistant","outcome":"ok"}
 *
 * Shape:    audit_write puts a line into a buffer, a thread appends it to the file.  At
 *           rotate_bytes the file becomes FILE.1, that FILE.2, up to `keep`; audit_reopen is for a
 *           logrotate that has renamed it.  An existing file is continued, a torn last line ended.
 * Thread:   audit_write and audit_stats any, the rest loop.  Nobody waits for the disk.
 * Errors:   a disk that is full or broken is tried again each second; meanwhile AUDIT_BUFFER bytes
 *           wait.  Further lines are lost and counted, and a line {"event":"lost","lines":N} stands
 *           in their place once there is room.  The log says when it begins and when it is over.
 * Never:    contents, tokens, secrets.
 */
#ifndef GATEWAY_BASE_AUDIT_H
#define GATEWAY_BASE_AUDIT_H

#include "proto/base.h"

#define AUDIT_BUFFER (1u << 20)

struct audit;

struct audit_options {
    const char *path;
    uint64_t rotate_bytes; /* 0: never by itself */
    uint32_t keep;         /* rotated files, at least one */
};

/* A NULL text is left out. */
struct audit_line {
    const char *event, *outcome;
    struct str owner, actor, from, conversation, task, agent, input, file;
};

struct audit_stats {
    uint64_t written, lost; /* lines */
};

/* NULL, and errno, when the file cannot be opened. */
struct audit *audit_open(const struct audit_options *options);
/* NULL for audit: there is none. */
void audit_write(struct audit *a, int64_t wall_ms, const struct audit_line *line);
void audit_reopen(struct audit *a);
struct audit_stats audit_stats(struct audit *a);
/* Writes what waits, with one try. */
void audit_close(struct audit *a);

#endif
