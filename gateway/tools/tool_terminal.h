/* tool_terminal -- the tools that run an agent's commands: terminal starts them, process manages
 * those in the background.
 *
 * Shape:    terminal_open makes the two struct tool, and the registry of started commands; struct
 *           terminal stays the caller's and must outlive them.  Outputs are JSON objects.
 * Safety:   commands run in a sandbox (sandbox.h).  Each command needs the user's approval (struct
 *           tool's asks), except a plain call of a program that the configuration lists: one
 *           without anything that a shell would interpret.  Writing to a process needs approval in
 *           the same way, except to programs approved for input: input may make a program run
 *           anything (ed, a shell).  The user may allow a program for the conversation, in calls as
 *           plain as these.  A program (an exec agent) may not use terminal_refused.
 * Limits:   below.  A command that is waited for ends with its call, and is killed when the task no
 *           longer waits.
 * Thread:   loop.
 * Owns:     a job, until stop.
 */
#ifndef GATEWAY_TOOLS_TOOL_TERMINAL_H
#define GATEWAY_TOOLS_TOOL_TERMINAL_H

#include "core/tool.h"
#include "gateway/config/config.h"
#include "gateway/processes/processes.h"
#include "gateway/processes/sandbox.h"

#define TERMINAL_COMMAND_BYTES 16384
#define TERMINAL_TIMEOUT_S 180     /* when the call names none */
#define TERMINAL_MAX_TIMEOUT_S 600 /* of a command that is waited for */
#define TERMINAL_OUTPUT_CHARS 50000
#define TERMINAL_PATTERNS 16
#define PROCESS_PREVIEW_CHARS 1000
#define PROCESS_LIST_CHARS 200
#define PROCESS_LOG_LINES 200
#define PROCESS_WAIT_S 180
#define PROCESS_TAIL_CHARS 2000
#define PROCESS_WRITE_BYTES 32768

struct terminal {
    struct processes *processes;
    struct hub *hub;
    struct sandbox sandbox;
    char **approved, **approved_input; /* programs; "*": all; NULL-terminated, or NULL */
    struct tool terminal, process;
};

/* Arguments of terminal that a program may not use, followed by a NULL. */
extern const char *const terminal_refused[];

/* The configuration, the loop and the hub (which need not be open yet) must outlive it. */
void terminal_open(struct terminal *t, const struct config *config, uv_loop_t *loop,
                   struct hub *hub);
/* As configured, not prepared. */
struct sandbox terminal_sandbox(const struct config *config);
void terminal_close(struct terminal *t);

/* Between tool_terminal.c and tool_process.c. */
void tool_process_init(struct terminal *t);
/* Whether it is a plain call of one of the programs, or all are listed ("*"). */
bool terminal_is_approved(const struct terminal *t, const char *command);
bool terminal_input_is_approved(const struct terminal *t, const char *command);
/* The topic of a plain call: its program, if that has no path, where the agent may have written it,
 * and does not run what it is given. */
bool terminal_topic(const char *command, const char *key, const char *name, struct tool_topic *ret);

#endif
