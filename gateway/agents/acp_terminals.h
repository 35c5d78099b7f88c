/* acp_terminals -- the commands that an ACP agent runs through its client, in the folder that it
 * works in.
 *
 * Shape:    acp_terminals_port is struct acp_terminals (proto/forms/acp.h) for a struct acp_shell.
 *           Each command is a process of the registry (processes.h), waited for by its terminal: it
 *           counts towards limits.processes, has the bounds of `terminal` in the configuration, and
 *           ends with its terminal.  It has no sandbox and no input, as the agent's own commands.
 *           A command without arguments that is no plain word is one for /bin/sh.
 * Kept:     with a task_id, commands and what they have printed outlive the gateway, as those of
 *           the tool terminal do, and are found again by task and number (acp_shell_take).
 * Folder:   cwd must be the folder, or below it, links followed.
 * Limits:   ACP_TERMINALS at once.
 * Thread:   loop.
 * Owns:     terminals, until they are released or acp_shell_close, which kills what runs.
 */
#ifndef GATEWAY_AGENTS_ACP_TERMINALS_H
#define GATEWAY_AGENTS_ACP_TERMINALS_H

#include "gateway/agents/acp_files.h"
#include "gateway/processes/processes.h"
#include "gateway/processes/sandbox.h"

#define ACP_TERMINALS 32

struct acp_shell {
    struct processes *processes;
    const struct sandbox *sandbox; /* for its bounds */
    const struct acp_folder *folder;
    bool is_measured; /* the folder is the conversation's own */
    char *const *env; /* of the agent, "NAME=value" */
    const char *owner, *conversation_id, *agent;
    const char *task_id; /* that of the turn; NULL: they end with the gateway */
    void (*ended)(void *arg, unsigned number);
    void *arg;

    struct list list; /* of struct acp_terminal */
    size_t n;
    unsigned last;
    char error[256];
};

extern const struct acp_terminals acp_terminals_port; /* its arg is a struct acp_shell */

void acp_shell_close(struct acp_shell *s);
/* The gateway stops: what runs is left to the next one. */
void acp_shell_leave(struct acp_shell *s);
/* The members of an object by which the next gateway finds them. */
void acp_shell_put(const struct acp_shell *s, struct buf *out);
/* False: that is no such thing.  A command that is gone has ended by a signal. */
bool acp_shell_take(struct acp_shell *s, const struct js_doc *doc, uint32_t object) MUST_USE;
/* Calls ended for each that has. */
void acp_shell_tell(struct acp_shell *s);

#endif
