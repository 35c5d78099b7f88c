/* chat_path -- a path as it is typed, dropped or pasted into a talk, and what Tab makes of it.
 *
 * Thread:   any; the file system is looked at.
 * Owns:     nothing; the caller frees what is returned.
 */
#ifndef GATEWAY_CLI_CHAT_PATH_H
#define GATEWAY_CLI_CHAT_PATH_H

#include "proto/base.h"

/* The path that is meant: ~/ is the home; one in quotes, or with backslashes as in a shell, is read
 * so where there is nothing of the name as it stands. */
char *chat_path_read(const char *typed);
/* Calls add for each path that the begun one may become, by name: typed as before, and a slash
 * behind a folder.  Hidden files only where a dot is typed; none whose name no terminal shows. */
void chat_path_complete(struct str begun, void (*add)(void *arg, struct str path), void *arg);
/* A name that somebody else has chosen, as a file of that name may be made here: its last segment,
 * not hidden, without control characters. */
char *chat_path_safe_name(const char *name);

#endif
