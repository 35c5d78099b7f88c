/* agent_programs -- checks that the programs of exec agents exist, before the first user finds out.
 *
 * Thread:   any; it asks the file system.
 */
#ifndef GATEWAY_AGENTS_AGENT_PROGRAMS_H
#define GATEWAY_AGENTS_AGENT_PROGRAMS_H

#include "gateway/config/config.h"

/* Names each program or script that is missing, its agent, and why it cannot start. */
void agent_programs_check(const struct config *config, void (*say)(const char *line));

#endif
