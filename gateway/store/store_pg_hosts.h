/* store_pg_hosts -- the servers that a connection's URL names, one by one.
 *
 * Shape:    libpq tries those of a list in turn, but goes on to the next one only when a connection
 *           fails, and has no time-out of its own for a caller that does not block: behind a
 *           machine that is gone and refuses nothing, a standby would never be reached.  So each is
 *           tried by itself, with time of its own.
 * Thread:   any.
 * Owns:     the texts, until pg_hosts_done.
 * Errors:   none: a URL that cannot be taken apart (lists of different lengths, more than
 *           PG_HOSTS_MAX) is one host, with nothing of its own, and libpq says what is wrong.
 * Standard: PostgreSQL's manual, 34.1.1.3 (Specifying Multiple Hosts).
 */
#ifndef GATEWAY_STORE_STORE_PG_HOSTS_H
#define GATEWAY_STORE_STORE_PG_HOSTS_H

#include "proto/base.h"

#define PG_HOSTS_MAX 16

/* Replaces what the URL has; NULL: does not. */
struct pg_host {
    char *host, *hostaddr, *port;
};

struct pg_hosts {
    size_t n; /* 1 or more */
    struct pg_host all[PG_HOSTS_MAX];
};

void pg_hosts_read(struct pg_hosts *hosts, const char *url);
void pg_hosts_done(struct pg_hosts *hosts);

#endif
