/* backup -- a copy of a data directory's database, also while a gateway writes it.
 *
 * Shape:    the copy is one moment of the store: all that was acknowledged before the command
 *           began, and perhaps some of what came later.  It is made as FILE.part, checked as doctor
 *           checks, and then gets its name; an existing FILE is never touched.  A failure, or a
 *           signal that ends the program, leaves nothing; what a kill left is taken over by the
 *           next backup to that name.  The guest key is not in it.
 * Thread:   the program's only one.
 * Errors:   the exit code: 0, or 1 with a sentence on stderr.
 */
#ifndef GATEWAY_CLI_BACKUP_H
#define GATEWAY_CLI_BACKUP_H

int backup_run(const char *data_dir, const char *file);

#endif
