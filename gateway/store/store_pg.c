/* Opening, closing, and what goes on between commits. */
#include "gateway/store/store_pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "gateway/store/store_pg_private.h"

void pg_note_error(struct store_pg *s, const struct pg_conn *conn)
{
    uv_mutex_lock(&s->lock);
    memcpy(s->error, conn->error, sizeof s->error);
    uv_mutex_unlock(&s->lock);
}

void store_pg_last_error(struct store_pg *store, char ret[STORE_ERROR_TEXT])
{
    uv_mutex_lock(&store->lock);
    memcpy(ret, store->error, sizeof store->error);
    uv_mutex_unlock(&store->lock);
}

bool store_pg_is_fenced(struct store_pg *store)
{
    return atomic_load(&store->fenced);
}

bool store_pg_is_sure(struct store_pg *store)
{
    return pg_is_sure(store);
}

uint64_t store_pg_redone(const struct store_pg *store)
{
    return atomic_load(&store->redo.again);
}

void store_pg_load(struct store_pg *store, uint32_t load)
{
    atomic_store(&store->load, load);
}

int64_t store_pg_incarnation(const struct store_pg *store)
{
    return store->incarnation;
}

msec_t store_pg_lease_left(const struct store_pg *store)
{
    msec_t left = store->beat_at + pg_lease_ms(store) * 8 / 10 - pg_boot_ms();
    return left > 0 && !atomic_load(&store->fenced) ? left : 0;
}

bool store_pg_is_trusted(const struct store_pg *store)
{
    return store->watch ? store_pg_lease_left(store) > 0 : !atomic_load(&store->fenced);
}

static int pg_open_all(struct store_pg *s, char ret_error[STORE_ERROR_TEXT])
{
    snprintf(s->name, sizeof s->name, "holdfast");
    if (!pg_conn_open(&s->writer, &s->o, s->name)) {
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot reach the server: %.200s", s->writer.error);
        return STORE_IO;
    }
    int status = pg_schema_migrate(&s->writer, ret_error);
    if (status == STORE_OK)
        status = pg_clock_check(s, ret_error);
    if (status == STORE_OK)
        status = pg_node_join(s, ret_error);
    if (status < 0)
        return status;
    struct pg_call c;
    s->journal.incarnation = s->incarnation;
    s->pid = pg_conn_pid(&s->writer);
    pg_begin(&c, &s->writer, PG_NAME_SET);
    pg_text(&c, str_of(s->name));
    status = pg_run(&c);
    if (status == STORE_OK)
        status = pg_journal_load(&s->journal, &s->writer);
    s->has_garbage = true; /* maybe */
    if (status < 0)
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot read the store: %.200s", s->writer.error);
    return status;
}

static void pg_close(void *store)
{
    struct store_pg *s = store;
    if (!s)
        return;
    pg_watch_stop(s);
    pg_node_leave(s);
    pg_conn_close(&s->writer);
    pg_journal_done(&s->journal);
    pg_ends_done(&s->ends);
    pg_redo_done(s);
    store_lock_release(&s->held);
    uv_mutex_destroy(&s->lock);
    free(s->url);
    free(s->node);
    free(s->place);
    free(s);
}

int store_pg_open(const struct store_pg_options *options, struct store_pg **ret,
                  char ret_error[STORE_ERROR_TEXT])
{
    struct store_pg *s = xcalloc(sizeof *s);
    ret_error[0] = 0;
    s->o = *options;
    s->url = xstrdup(str_of(options->url));
    s->node = xstrdup(str_of(options->node));
    s->held = STORE_LOCK_NONE;
    s->o.url = s->url;
    ASSERT(uv_mutex_init(&s->lock) == 0);
    pg_journal_init(&s->journal);
    pg_redo_init(s);
    int status = STORE_OK;
    if (getrandom(s->life, sizeof s->life, 0) != (ssize_t)sizeof s->life) {
        snprintf(ret_error, STORE_ERROR_TEXT, "the system gives no random bytes");
        status = STORE_IO;
    }
    if (status == STORE_OK)
        status = pg_place_take(s, options->dir, ret_error);
    if (status == STORE_OK)
        status = pg_open_all(s, ret_error);
    if (status == STORE_OK)
        *ret = s;
    else
        pg_close(s);
    return status;
}

static int pg_start(void *store, struct store_start *ret)
{
    *ret = ((struct store_pg *)store)->marks;
    return STORE_OK;
}

/* A batch in doubt is the next commit's to settle. */
static void pg_idle(void *store)
{
    struct store_pg *s = store;
    if (atomic_load(&s->fenced))
        return;
    pg_redo_age(s);
    if (!s->doubt && (pg_writer_open(s) < 0 || pg_history_settle(s) < 0))
        pg_note_error(s, &s->writer);
    pg_node_beat(s);
    if (pg_is_sure(s))
        pg_collect_garbage(s);
}

/* It connects with its first query. */
static void *pg_reader_open(void *store)
{
    struct pg_reader *r = xcalloc(sizeof *r);
    r->store = store;
    r->conn.is_reader = true;
    return r;
}

static void pg_reader_close(void *reader)
{
    struct pg_reader *r = reader;
    if (!r)
        return;
    tails_done(&r->tails);
    pg_conn_close(&r->conn);
    free(r);
}

const struct store_ops store_pg_ops = {
    .name = "postgres",
    .commit = pg_commit,
    .start = pg_start,
    .reader_open = pg_reader_open,
    .reader_close = pg_reader_close,
    .query = pg_query,
    .idle = pg_idle,
    .close = pg_close,
};
