/* sandbox -- how a command of an agent is confined: bubblewrap, with a work folder to write to.
 *
 * Shape:    sandbox_plan turns a command into what is executed, where, and with which environment.
 *           Inside: the system's programs and libraries read-only, a /tmp, /proc and /dev of its
 *           own, the work folder at SANDBOX_WORK, no network unless allowed, no other process to be
 *           seen, no capability.  The data directory does not exist there.
 * Folders:  each conversation of each owner has one work folder of its own, below the configured
 *           one; its name is a digest of both, so that nobody's id can reach another's.
 * Thread:   loop.  sandbox_check runs a program and waits for it: at a start only.
 * Errors:   false and a sentence.
 */
#ifndef GATEWAY_PROCESSES_SANDBOX_H
#define GATEWAY_PROCESSES_SANDBOX_H

#include "gateway/config/config.h"
#include "gateway/processes/keep_folder.h"

#define SANDBOX_WORK "/files" /* inside */
#define SANDBOX_ERROR 256

struct sandbox {
    enum sandbox_kind kind;
    bool network;
    const char *work; /* the folder of all work folders */
};

/* Whether bubblewrap is there and may make namespaces here. */
bool sandbox_check(const struct sandbox *s, char ret_error[SANDBOX_ERROR]);

/* Fills argv, cwd, workdir and sandboxed of a spec that has owner, conversation_id, command and
 * pty; makes the work folder.  workdir: as asked, NULL for none.  ret_env: for sandbox_env_done. */
bool sandbox_plan(const struct sandbox *s, const char *workdir, struct keep_spec *spec,
                  char ***ret_env, char ret_error[SANDBOX_ERROR]);
void sandbox_env_done(char **env);

#endif
