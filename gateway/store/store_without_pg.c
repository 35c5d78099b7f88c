/* A build without libpq: the store on PostgreSQL is one clear error. */
#include <stdio.h>

#include "gateway/store/store_pg.h"

const struct store_ops store_pg_ops = {.name = "postgres"};
const struct file_store_ops store_pg_bytes_ops = {.name = "postgres"};

void *store_pg_bytes_open(struct store_pg *store)
{
    (void)store;
    return NULL;
}

int store_pg_open(const struct store_pg_options *options, struct store_pg **ret,
                  char ret_error[STORE_ERROR_TEXT])
{
    (void)options;
    (void)ret;
    snprintf(ret_error, STORE_ERROR_TEXT,
             "this gateway was built without libpq, which store.kind \"postgres\" needs");
    return STORE_IO;
}

bool store_pg_check(const struct store_pg_options *options, bool full, store_pg_say_fn say,
                    void *arg)
{
    (void)options;
    (void)full;
    say(arg, true, "this gateway was built without libpq");
    return false;
}

bool store_pg_import(const struct store_pg_options *options, const char *dir, store_pg_say_fn say,
                     void *arg)
{
    (void)dir;
    return store_pg_check(options, false, say, arg);
}

bool store_pg_export(const struct store_pg_options *options, const char *dir, store_pg_say_fn say,
                     void *arg)
{
    (void)dir;
    return store_pg_check(options, false, say, arg);
}

bool store_pg_is_fenced(struct store_pg *store)
{
    (void)store;
    return false;
}

void store_pg_last_error(struct store_pg *store, char ret[STORE_ERROR_TEXT])
{
    (void)store;
    ret[0] = 0;
}

void store_pg_watch(struct store_pg *store, void (*changed)(void *arg), void *arg)
{
    (void)store;
    (void)changed;
    (void)arg;
}

void store_pg_watch_end(struct store_pg *store)
{
    (void)store;
}

void store_pg_turned(struct store_pg *store)
{
    (void)store;
}

void store_pg_view(struct store_pg *store, struct store_view *ret)
{
    (void)store;
    *ret = (struct store_view){0};
}

int64_t store_pg_incarnation(const struct store_pg *store)
{
    (void)store;
    return 0;
}

bool store_pg_is_trusted(const struct store_pg *store)
{
    (void)store;
    return true;
}

msec_t store_pg_lease_left(const struct store_pg *store)
{
    (void)store;
    return 0;
}

bool store_pg_is_own(const struct store_pg *store, unsigned slot, int64_t tenure)
{
    (void)store;
    (void)slot;
    (void)tenure;
    return false;
}

uint64_t store_pg_takeovers(const struct store_pg *store)
{
    (void)store;
    return 0;
}

void store_pg_advertise(struct store_pg *store, const char *address)
{
    (void)store;
    (void)address;
}

void store_pg_load(struct store_pg *store, uint32_t load)
{
    (void)store;
    (void)load;
}

void store_pg_leave(struct store_pg *store)
{
    (void)store;
}

void store_pg_want_range(struct store_pg *store)
{
    (void)store;
}

void store_pg_release(struct store_pg *store, const struct slots *slots)
{
    (void)store;
    (void)slots;
}

uint64_t store_pg_redone(const struct store_pg *store)
{
    (void)store;
    return 0;
}

void store_pg_agreed(struct store_pg *store, uint64_t agreed)
{
    (void)store;
    (void)agreed;
}

bool store_pg_is_sure(struct store_pg *store)
{
    (void)store;
    return true;
}
