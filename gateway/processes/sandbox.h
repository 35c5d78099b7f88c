/* sandbox -- how a command of an agent is confined: bubblewrap, with a writable work folder.
 *
 * Shape:    sandbox_plan turns a command into the program to execute, its directory and
 *           environment.  Inside: the system's programs and libraries read-only; its own /tmp,
 *           /proc and /dev; the work folder at SANDBOX_WORK; no network unless allowed; no other
 *           process visible; no capability.  A network is one of its own (pasta), which does not
 *           reach the host's loopback, unless host_loopback shares the host's.  The data directory
 *           does not exist there.  The kernel's files in /proc are read-only, even for a gateway
 *           that runs as root.
 * Folders:  each conversation of each owner has its own work folder, below the configured one; its
 *           name is a digest of both, so that no id can reach another one's.
 * Bounds:   bounds.h; and the size of /tmp and /dev/shm.  Nothing else in it is writable.
 * Thread:   loop.  sandbox_prepare runs a program and waits for it: at a start only.
 * Errors:   false and a sentence.
 */
#ifndef GATEWAY_PROCESSES_SANDBOX_H
#define GATEWAY_PROCESSES_SANDBOX_H

#include <limits.h>

#include "gateway/config/config.h"
#include "gateway/processes/keep_folder.h"

#define SANDBOX_WORK "/files" /* inside */
#define SANDBOX_ERROR 256

struct sandbox {
    enum sandbox_kind kind;
    bool network;          /* its own, by pasta */
    bool host_loopback;    /* with network: the host's, including services on its loopback */
    const char *work;      /* the parent of all work folders */
    char *const *paths;    /* for sandbox_wrap: PATH, or PATH:ro; a NULL ends them; NULL: none */
    struct bounds bounds;  /* bounds.folder 0: a tenth of the disk */
    uint64_t tmp;          /* bytes of /tmp, and of /dev/shm; 0: half of the memory each */
    char cgroup[PATH_MAX]; /* "": not available; set by sandbox_prepare */
};

/* At a start, if there will be commands: checks that bubblewrap exists and may create namespaces
 * here, pasta where it is needed; and finds a cgroup. */
bool sandbox_prepare(struct sandbox *s, char ret_error[SANDBOX_ERROR]);
/* Appends lines that say which bounds apply to that process's commands. */
void sandbox_put_bounds(const struct sandbox *s, pid_t gateway, struct buf *out);

/* Fills argv, cwd, workdir and sandboxed of a spec that has owner, conversation_id, command and
 * pty; creates the work folder. workdir: as requested, NULL for none.  ret_env: for
 * sandbox_env_done. */
bool sandbox_plan(const struct sandbox *s, const char *workdir, struct keep_spec *spec,
                  char ***ret_env, char ret_error[SANDBOX_ERROR]);
void sandbox_env_done(char **env);
/* The bounds alone, of a spec that has argv and cwd, and folder where that is to be measured. */
void sandbox_plan_bounds(const struct sandbox *s, struct keep_spec *spec);

/* Appends the argv of a program that is no command of a conversation: it has no work folder, but
 * sees s->paths, where they are outside.  cwd: inside; NULL for /tmp. */
void sandbox_wrap(const struct sandbox *s, const char *cwd, char *const *command,
                  struct keep_texts *argv);
/* Whether that works here.  Runs a program and waits for it: at a start only. */
bool sandbox_works(const struct sandbox *s, char ret_error[SANDBOX_ERROR]);

#define SANDBOX_NAME 33 /* bytes: 32 hexadecimal digits and a NUL */

/* The first half of SHA-256 of both, a NUL between them: a name that nobody's id can reach. */
void sandbox_name(struct str owner, struct str conversation_id, char ret[SANDBOX_NAME]);
/* The work folder of that conversation below base, made when it is missing: an absolute path, to
 * be freed.  NULL and a sentence when it cannot be made. */
char *sandbox_make_work(const char *base, struct str owner, struct str conversation_id,
                        char ret_error[SANDBOX_ERROR]);

#endif
