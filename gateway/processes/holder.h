/* holder -- a supervisor that keeps its program alive while there is no gateway, for the next one.
 *
 * Shape:    supervisor_spawn with a struct hold starts one; holder_watch is its life.  It has the
 *           program's pipes, spools and page (spool.h) open, and reads none of them; it listens at
 *           a socket in the folder of the kept, which is named by the task.
 *
 *             FOLDER/NAME        bound by the gateway: before the program may begin
 *             FOLDER/NAME.live   renamed by the holder: the program may have begun
 *
 *           So what is bound and refuses has never run, and what is live and refuses is gone.
 * Next:     when its control has ended, the holder accepts one connection of its own user, sends it
 *           one message with all descriptors (struct holder_hello), and has its new control.  After
 *           keep_s without one it kills its tree.  If the program was told to end, or the page says
 *           so (ends), it does so at once, and then waits the rest of that time with the report.
 * Control:  enum supervisor_command goes down; what comes up (holder_read) says only that the page
 *           has changed.  The holder stays when its tree has ended: SUPERVISOR_QUIT ends it.
 * Thread:   loop; the holder has one thread.
 * Owns:     the caller owns all descriptors that it gets.
 * Errors:   said with each function.
 */
#ifndef GATEWAY_PROCESSES_HOLDER_H
#define GATEWAY_PROCESSES_HOLDER_H

#include "gateway/processes/hold_page.h"
#include "gateway/processes/supervisor.h"
#include "gateway/processes/tree.h"

#define HOLDER_NAME 64 /* bytes of a name, its end included */

/* The folder of the kept, made when it is missing: a descriptor; -1 and errno. */
int holder_open_folder(const char *data);

/* Binds the socket; one of an earlier gateway that was never used is replaced. -1 and errno. */
int holder_bind(int folder, const char *name);

enum holder_state {
    HOLDER_NONE,      /* there is no socket */
    HOLDER_NEVER_RAN, /* its socket was never used */
    HOLDER_GONE,      /* it ran, and has ended */
    HOLDER_LIVES,
    HOLDER_UNREACHABLE /* nobody knows: there is no descriptor for a connection, say */
};
/* ret_control, if not NULL: a connection, when it lives; holder_receive comes next. */
enum holder_state holder_find(int folder, const char *name, int *ret_control);

enum holder_answer { HOLDER_WAITS, HOLDER_FOUND, HOLDER_REFUSED };
/* The holder's descriptors: ret->control is the same.  HOLDER_REFUSED: it has ended, or says what
 * this gateway does not understand. */
enum holder_answer holder_receive(int control, struct supervisor *ret);
/* It does not answer: continues it, in case somebody has stopped it. */
void holder_wake(const char *name);
/* Reads away what was said: look at the page.  False: its control has ended. */
bool holder_read(int control);
/* Removes the socket, under both of its names: the end of its task is committed. */
void holder_unlink(int folder, const char *name);
void holder_unlink_bound(int folder, const char *name); /* under the first of them alone … */
void holder_unlink_live(int folder, const char *name);  /* … or the second */
/* A holder that lives serves another task: it is found under that name.  False and errno. */
bool holder_rename_live(int folder, const char *from, const char *to);
/* The page of a new program, mapped, and its descriptor; NULL and errno. */
struct hold_page *holder_new_page(const char *digest, int *ret_fd);
void holder_unmap(struct hold_page *page);

/* --- the process ------------------------------------------------------------------------------ */

/* Its descriptors, where supervisor_spawn has put them. */
enum holder_fd {
    HOLDER_CONTROL = 3,
    HOLDER_LISTENER,
    HOLDER_FOLDER,
    HOLDER_IN,  /* the gateway's ends of the three pipes */
    HOLDER_OUT, /* … */
    HOLDER_ERR,
    HOLDER_SPOOL_OUT,
    HOLDER_SPOOL_IN,
    HOLDER_PAGE,
    HOLDER_N_FDS
};

/* Runs the command until it may end; then only the caller's exit is left. */
void holder_run(char **command, const char *name, uint32_t keep_s);

#endif
