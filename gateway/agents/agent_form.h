/* agent_form -- programs that were not written for this gateway: what they print goes through a
 * form (proto/forms/form.h), and their sessions go on from turn to turn.
 *
 * Shape:    agent_form_ops is an adapter behind core/agent.h, with form_settings; the process is
 *           agent_exec's, and what agent_exec.h promises of processes holds here too.
 * Start:    the form's own arguments are added to the command, where it does not have them.  The
 *           program is given its input and no line more: there is no inbox, no call, no answer.  A
 *           cancel is SIGTERM.
 * Sessions: see program_session.h.  A program that ends without having begun a session, though it
 *           was told to go on with one, is started once more without, and told of the conversation
 *           instead (recap.h).
 * Thread:   loop.
 * Owns:     the run.  settings stay the caller's and must outlive the runs.
 */
#ifndef GATEWAY_AGENTS_AGENT_FORM_H
#define GATEWAY_AGENTS_AGENT_FORM_H

#include "gateway/agents/agent_exec.h"
#include "proto/forms/form.h"

#define FORM_MAX_LINE (32 * 1024 * 1024) /* bytes: they print images as text */
#define FORM_MAX_ARGUMENT 131071         /* bytes of an argument: the kernel's limit */

struct form_settings {
    struct exec_settings exec;
    enum agent_form form;
    bool by_argument;  /* text: the input is the last argument, not stdin */
    const char *agent; /* its name */
    const char *data;  /* the data directory */
};

extern const struct agent_ops agent_form_ops;
/* The same for programs that outlive the gateway (agent_exec.h).  What the form knows is a note. */
extern const struct agent_ops agent_form_kept_ops;

#endif
