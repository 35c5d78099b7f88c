/* backup -- a copy of a data directory's database, even while a gateway writes it.
 *
 * Shape:    the copy is one moment of the store: everything that was acknowledged before the
 *           command began, and perhaps some later changes.  It is made as FILE.part, checked as
 *           doctor checks, and then renamed; an existing FILE is never touched.  A failure, or a
 *           signal that ends the program, leaves nothing; the next backup to that name takes over
 *           the remains of a killed one.  The guest key is not in it.
 * Thread:   the program's only one.
 * Errors:   the exit code: 0, or 1 with a sentence on stderr.
 */
#ifndef GATEWAY_CLI_BACKUP_H
#define GATEWAY_CLI_BACKUP_H

int backup_run(const char *data_dir, const char *file);

#endif
