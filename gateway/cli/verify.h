/* verify -- checks the continuity proofs in an export, or in any file of events' lines.
 *
 * Shape:    one command; reads once, and tells one line for each task.
 * Thread:   the program's only one.
 * Errors:   the exit code: 0 all proofs hold, 1 one does not, or none is there.
 */
#ifndef GATEWAY_CLI_VERIFY_H
#define GATEWAY_CLI_VERIFY_H

/* "-" is stdin. */
int verify_run(const char *path);

#endif
