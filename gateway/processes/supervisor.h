/* supervisor -- the small process between the gateway and a program that it runs.
 *
 * Shape:    supervisor_spawn starts "holdfast supervise … -- COMMAND…" on the gateway's side;
 *           supervisor_main is that process.  Between them is one socket, the control: commands go
 *           down it, one report comes up, and its end (the gateway died, even by kill -9) means
 *           SUPERVISOR_KILL, unless the program is kept (holder.h).  The gateway never signals a
 *           pid that could be somebody else's.
 * Promise:  the program runs in its own session with descriptors 0, 1, 2 and nothing else, and with
 *           the limit of descriptors that the gateway was started with (FILES).  Once the
 *           supervisor has exited, no process of the program's tree is left, including
 *           grandchildren in their own sessions.  It exits by itself when the tree has ended.
 * Thread:   loop.  The supervisor has one thread.
 * Owns:     the caller owns the descriptors of struct supervisor and the zombie (waitid).
 * Errors:   false, and a sentence that names the program.
 * Why:      PR_SET_PDEATHSIG reaches only the direct child, a process group only those that stay in
 *           it, and uv_spawn forks the whole gateway (tens of ms at 2 GB).  posix_spawn does not.
 */
#ifndef GATEWAY_PROCESSES_SUPERVISOR_H
#define GATEWAY_PROCESSES_SUPERVISOR_H

#include <sys/types.h>

#include "proto/buf.h"

#define SUPERVISOR_ERROR 256 /* bytes of a ret_error */

struct hold_page; /* hold_page.h */

/* All that a program needs to outlive the gateway (holder.h). */
struct hold {
    int folder;       /* a descriptor */
    const char *name; /* without a slash */
    int listener;     /* from holder_bind; stays the caller's */
    uint32_t keep_s;
    const char *digest; /* of what is started: HOLD_DIGEST */
};

struct supervisor_spec {
    char **command;   /* argv, NULL-terminated; the program is searched in the new PATH */
    char **env;       /* "KEY=value", NULL-terminated, besides PATH, HOME and LANG; NULL for none */
    const char *cwd;  /* NULL: the gateway's */
    const char *self; /* the holdfast binary; NULL: /proc/self/exe */
    const struct hold *hold; /* NULL: the program ends with its control */
};

/* The gateway's ends: non-blocking, close-on-exec. */
struct supervisor {
    pid_t pid;
    int pidfd;               /* readable when the supervisor has exited; then waitid(P_PIDFD) */
    int control;             /* readable when there is a report */
    int stdio[3];            /* [0] to write its stdin; [1], [2] to read its stdout and stderr */
    int spool_out, spool_in; /* of a kept program: spool.h */
    struct hold_page *page;  /* the same, mapped; NULL: it is not kept */
};

enum supervisor_command {
    SUPERVISOR_TERM = 'T',      /* SIGTERM to the program's process group */
    SUPERVISOR_KILL = 'K',      /* SIGKILL to its whole tree, then exit, unless it is a holder */
    SUPERVISOR_END_STDIN = 'E', /* to a holder: it closes its copy */
    SUPERVISOR_QUIT = 'Q',      /* to a holder: SIGKILL to the whole tree, then exit */
};

/* Sent once: when the direct child has ended, or could not be executed. */
struct supervisor_report {
    int error;  /* errno of exec; 0 when it ran */
    int status; /* as waitpid returns it */
};

/* Takes about 0.3 ms, whatever the gateway's size.  A program that is missing or may not be
 * executed is an error at once; errors that only exec finds come in the report. */
bool supervisor_spawn(const struct supervisor_spec *spec, struct supervisor *ret, char *ret_error)
    MUST_USE;
/* Whether it could start now; otherwise false and why. */
bool supervisor_check(const struct supervisor_spec *spec, char *ret_error) MUST_USE;
/* Never blocks, and never fails in a way that matters: a supervisor that is gone has done all of
 * it. */
void supervisor_send(int control, enum supervisor_command command);
/* A program may stop its supervisor, by accident or not: call this after a command, and after the
 * end of its control. */
void supervisor_wake(int pidfd);
/* False when there is none (yet). */
bool supervisor_read_report(int control, struct supervisor_report *ret) MUST_USE;
/* Closes and unmaps all of it; a program that is not kept ends of it. */
void supervisor_close(struct supervisor *s);
/* Appends how its program ended; true, without text: it succeeded. */
bool supervisor_put_end(const struct supervisor_report *report, const char *program,
                        struct buf *out);

/* The process itself: argv is {"holdfast", "supervise", FILES, KEEP_S, NAME, "--", COMMAND…}; NAME
 * is "" for a program that is not kept.  Returns the exit status if supervisor_spawn did not start
 * it; otherwise it exits. */
int supervisor_main(int argc, char **argv);

#endif
