/* doctor -- checks a data directory and says in plain sentences what is wrong with it.
 *
 * Shape:    one command; only reads, with or without a gateway on the directory.
 * Thread:   the program's only one.
 * Errors:   the exit code: 0 sound, 1 something is wrong.
 */
#ifndef GATEWAY_CLI_DOCTOR_H
#define GATEWAY_CLI_DOCTOR_H

#include <sys/types.h>

#include "proto/buf.h"

/* full: reads every page and every event, which takes long with a large store.  put_bounds appends
 * lines about the bounds on the commands of that gateway, or of one with this process's
 * environment. */
int doctor_run(const char *data_dir, bool full,
               void (*put_bounds)(const void *arg, pid_t gateway, struct buf *out),
               const void *arg);

/* The same for a store on PostgreSQL: its server, and what is on it. */
int doctor_run_postgres(const char *url_file, bool replicated, bool full);

#endif
