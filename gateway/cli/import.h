/* import -- the commands that bring a store from SQLite to PostgreSQL, and back.
 *
 * Shape:    one command each; a sentence on stdout for what was done, or what is wrong.
 * Thread:   the program's only one.
 * Errors:   the exit code: 0 all of it is there, and was compared; 1 nothing has changed.
 */
#ifndef GATEWAY_CLI_IMPORT_H
#define GATEWAY_CLI_IMPORT_H

#include <stdbool.h>

/* From the data directory to the server of that file or, with back, to a new data directory. */
int import_run(const char *url_file, const char *dir, bool back);

#endif
