/* usage -- the commands of the program, their verbs and options: what its help says, and what it
 * takes.
 *
 * Shape:    tables.  `holdfast help` has a synopsis of each command, `holdfast COMMAND --help` its
 *           options as well; getopt reads by the same rows, and packaging/texts.py makes the manual
 *           page and the completion from what is printed.
 * Thread:   any; the tables are const.
 */
#ifndef GATEWAY_CLI_USAGE_H
#define GATEWAY_CLI_USAGE_H

#include <getopt.h>
#include <stdio.h>

#include "proto/base.h"

#define USAGE_OPTIONS 32 /* more than any command has, with the empty one at the end */

bool usage_has(const char *command);
/* NULL: the synopses of all commands. */
void usage_print(FILE *out, const char *command);
/* One line that says why, and where more is said: a whole help would push it off the screen.
 * Returns the exit code, 2. */
int usage_fail(const char *command, const char *why);
/* The same for a verb that the command has not (NULL: none was given), or not with such words. */
int usage_fail_verb(const char *command, const char *verb);
/* The same for a command that there is not; "": there is none. */
int usage_unknown(const char *command);
/* That command's options; their letters are those of the table in usage.c. */
void usage_options(const char *command, struct option ret[USAGE_OPTIONS]);
/* The next option as its letter, with optarg and optind as of getopt; -1 after the last; '?' for
 * one that is not the command's, with a sentence in ret_why. */
int usage_next(const char *command, int argc, char **argv, char ret_why[160]);

#endif
