/* store_pg -- the store on a PostgreSQL server: one database (or schema) for one cluster.
 *
 * Shape:    a backend (core/store.h).  A batch is one transaction in one pipelined flush, whose
 *           first statement is the fence: the node's row (its incarnation, and the number of its
 *           last batch) must be as we left it.  So a batch is applied once, however often it is
 *           sent, and a process that another has replaced commits nothing.  While a commit's
 *           outcome is not known (STORE_UNKNOWN), the next call asks for it, by a write that
 *           commits.
 * Thread:   as store_sqlite's: commit, start, idle and close: the writer; query: any, each with its
 *           own reader.
 * Owns:     connections, and what is known of the journal's unsealed lines.
 * Errors:   enum store_error; store_pg_last_error has the server's message of the last one.
 */
#ifndef GATEWAY_STORE_STORE_PG_H
#define GATEWAY_STORE_STORE_PG_H

#include "core/file_store.h"
#include "gateway/store/store_nodes.h"

#ifndef STORE_ERROR_TEXT
#define STORE_ERROR_TEXT 256
#endif

struct store_pg;

struct store_pg_options {
    const char *url;      /* a connection URI, or keywords and values (libpq's manual) */
    const char *node;     /* this node's name: a start under it replaces the one before */
    const char *dir;      /* the data directory: ours alone while the store is open; NULL: none */
    bool replicated;      /* a commit must be on a synchronous standby too */
    bool takes_no_slots;  /* it is the home of nobody */
    bool is_crew;         /* nodes of names that begin like this one's are on this machine */
    unsigned clock_off_s; /* a start whose wall clock is further off does not join while others
                           * serve; 0: any may be */
    unsigned lease_s;     /* a node that gives no sign for so long counts as dead; 0: 10 */
    unsigned connect_ms;  /* longest wait for a connection, without finding addresses; 0: 5 s */
    unsigned answer_ms;   /* longest wait for an answer; 0: 15 s */
    size_t redo_bytes;    /* of the last batches, kept for a server that has lost them; 0: none */
};

/* Connects, brings the schema up to date and joins, which may wait for a lease.  On failure ret is
 * untouched and ret_error says why, for the operator. */
int store_pg_open(const struct store_pg_options *options, struct store_pg **ret,
                  char ret_error[STORE_ERROR_TEXT]);

extern const struct store_ops store_pg_ops;

/* Says in sentences what the server and the store on it are like, and what is wrong.  Reads alone;
 * full: every task's events too.  False when it could not go on, which is said as well. */
typedef void (*store_pg_say_fn)(void *arg, bool is_wrong, const char *sentence);
bool store_pg_check(const struct store_pg_options *options, bool full, store_pg_say_fn say,
                    void *arg);

/* Copies a store from a data directory with SQLite's to an empty database, or to a new directory,
 * and compares each row.  Nobody may use either.  False: what is wrong was said, and nothing has
 * changed. */
bool store_pg_import(const struct store_pg_options *options, const char *dir, store_pg_say_fn say,
                     void *arg);
bool store_pg_export(const struct store_pg_options *options, const char *dir, store_pg_say_fn say,
                     void *arg);

/* The nodes that share the store.  A thread of the store's own gives the signs of life, watches the
 * others' and takes over what a dead one leaves; changed is called on that thread when the view may
 * be another one, and at least with each sign of life, which is given only when the loop has turned
 * since.  NULL: the caller goes, and is not called any more. */
void store_pg_watch(struct store_pg *store, void (*changed)(void *arg), void *arg);
/* That thread, and whatever it has begun, has ended when this returns.  The store's other threads
 * are gone already; from then on nothing is watched. */
void store_pg_watch_end(struct store_pg *store);
/* Any thread, like the next ones. */
void store_pg_turned(struct store_pg *store);
void store_pg_view(struct store_pg *store, struct store_view *ret);
int64_t store_pg_incarnation(const struct store_pg *store);
/* Whether this slot of ours, since that tenure, came from a process of our own name. */
bool store_pg_is_own(const struct store_pg *store, unsigned slot, int64_t tenure);
/* Whether the lease is sure, by this machine's clock since the last sign of life was sent. */
bool store_pg_is_trusted(const struct store_pg *store);
msec_t store_pg_lease_left(const struct store_pg *store); /* as long as it is sure; 0: it is not */
uint64_t store_pg_takeovers(const struct store_pg *store);
void store_pg_advertise(struct store_pg *store, const char *address);
void store_pg_load(struct store_pg *store, uint32_t load); /* told with each sign of life */
/* This node is to have no more slots, and gives away those that it has. */
void store_pg_leave(struct store_pg *store);
/* The view is to have another range for keys. */
void store_pg_want_range(struct store_pg *store);
/* Slots in which nothing is staged, nor will be: they become nobody's with the next sign of life,
 * which the view shows. */
void store_pg_release(struct store_pg *store, const struct slots *slots);

/* The bytes of files, in the same database; it must be closed before the store. */
extern const struct file_store_ops store_pg_bytes_ops;
void *store_pg_bytes_open(struct store_pg *store); /* never NULL */

/* Batches that a server had lost, and has again. */
uint64_t store_pg_redone(const struct store_pg *store);
/* Loop: the view with this number of agreed (0: none) was seen, and its epoch is known to all. */
void store_pg_agreed(struct store_pg *store, uint64_t agreed);
/* Whether this node has the server that it had, or knows what others had on the one before. */
bool store_pg_is_sure(struct store_pg *store);

/* Any thread: another process has the store.  The next commit says so too. */
bool store_pg_is_fenced(struct store_pg *store);
/* Any thread; "" when nothing ever failed. */
void store_pg_last_error(struct store_pg *store, char ret[STORE_ERROR_TEXT]);

#endif
