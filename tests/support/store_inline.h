/* store_inline -- a backend as a store port on one thread, carried out step by step.
 *
 * Shape:    commit and query only queue; nothing happens until somebody steps.  Tests decide the
 *           order of commits and answers, and which commits fail.
 * Thread:   one.
 * Owns:     queued items, and its reader; not the backend (which a test keeps over a "restart").
 * Errors:   the backend's, or those that store_inline_fail_* set.
 */
#ifndef TESTS_SUPPORT_STORE_INLINE_H
#define TESTS_SUPPORT_STORE_INLINE_H

#include "core/store.h"

struct store_inline;

struct store_inline *store_inline_new(const struct store_ops *ops, void *store);
/* Drops queued items without a callback, as a crash would.  NULL is allowed. */
void store_inline_free(struct store_inline *s);
struct store_port *store_inline_port(struct store_inline *s);

/* Each carries out the oldest queued item (of its kind) and calls its callback; false when there
 * was none. */
bool store_inline_step(struct store_inline *s);
bool store_inline_step_commit(struct store_inline *s);
bool store_inline_step_query(struct store_inline *s);
/* Commits now, but leaves the callback to the next step: the moment in which a crash hurts most.
 * False when no batch is queued. */
bool store_inline_apply(struct store_inline *s);
/* Answers the oldest query now, but leaves the callback to the next step: commits between the two
 * are not in the answer.  False when there is none. */
bool store_inline_ask(struct store_inline *s);

/* Takes the oldest query out of the queue until store_inline_release, as if its thread was held up:
 * with its answer, or before it was asked.  False when there is none. */
bool store_inline_hold(struct store_inline *s, bool answered);
void store_inline_release(struct store_inline *s); /* it is the oldest again */
enum query_kind
store_inline_next(const struct store_inline *s); /* whether there is an oldest query */

/* The next n commits (queries) change nothing and return error. */
void store_inline_fail_commits(struct store_inline *s, unsigned n, enum store_error error);
unsigned store_inline_failed(const struct store_inline *s); /* queries that failed */
void store_inline_fail_queries(struct store_inline *s, unsigned n, enum store_error error);

#endif
