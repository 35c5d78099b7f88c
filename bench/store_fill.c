/* store_fill -- makes a store large: adds ended tasks with events of 120 bytes.
 *
 *   store_fill DIR TASKS EVENTS
 *
 * EVENTS in all, over TASKS ended tasks of many owners, sealed in blocks as the gateway seals them;
 * and 100 running tasks, with ten lines each in the journal, for the start to repair.  Nobody else
 * may have the store open.  Prints {"events":N,"bytes":N}: of the database. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "gateway/store/store_sqlite.h"
#include "proto/event.h"

#define OWNERS 1000
#define RUNNING 100
#define RUNNING_LINES 10
#define BATCH_BYTES (4u << 20)
#define TS 1764280000000

static struct store_sqlite *store;
static struct batch *batch;
static uint64_t written;

static void die(const char *what)
{
    fprintf(stderr, "store_fill: %s\n", what);
    exit(1);
}

static void commit(void)
{
    if (store_sqlite_ops.commit(store, batch) < 0)
        die("commit failed");
    store_sqlite_ops.idle(store);
    batch_free(batch);
    batch = batch_new();
}

static void put_task(int64_t key, const char *id, bool runs, uint64_t events)
{
    char owner[32], conversation[32];
    snprintf(owner, sizeof owner, "owner-%lld", (long long)key % OWNERS);
    snprintf(conversation, sizeof conversation, "c-%lld", (long long)key % (OWNERS * 10));
    struct task_record t = {.key = key,
                            .created_at = TS,
                            .owner = str_of(owner),
                            .conversation_id = str_of(conversation),
                            .task_id = str_of(id),
                            .agent = STR("source"),
                            .input = STR("go"),
                            .state = {.status = runs ? STATUS_RUNNING : STATUS_COMPLETED,
                                      .progress = -1,
                                      .first = 1,
                                      .head = runs ? 0 : events,
                                      .started_at = TS,
                                      .completed_at = runs ? 0 : TS,
                                      .output = runs ? STR_NULL : STR("done")}};
    batch_put(batch, &(struct op){.kind = OP_TASK_NEW, .record = &t});
}

/* The lines of a task, in blocks of BLOCK_BYTES, or left in the journal. */
static void put_events(int64_t key, const char *id, bool runs, uint64_t events)
{
    static const char token[] =
        "{\"text\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}";
    struct buf lines = {0};
    uint64_t first = 1;
    for (uint64_t seq = 1; seq <= events; seq++) {
        bool last = seq == events;
        if (last && !runs)
            event_line(&lines, id, seq, TS, EVENT_TASK_COMPLETED,
                       STR("{\"output\":\"done\",\"result\":null}"));
        else
            event_line(&lines, id, seq, TS, EVENT_TOKEN, str_of(token));
        if (lines.len < BLOCK_BYTES && !last)
            continue;
        batch_put(batch, &(struct op){.kind = runs ? OP_LINES : OP_SEAL,
                                      .task_key = key,
                                      .first = first,
                                      .last = seq,
                                      /* a seal's are not copied: they live with the batch */
                                      .bytes = arena_str(&batch->chunks, buf_str(&lines))});
        first = seq + 1;
        buf_clear(&lines);
    }
    written += events;
    buf_done(&lines);
}

static void put(int64_t key, bool runs, uint64_t events)
{
    char id[TASK_ID_LEN + 1];
    snprintf(id, sizeof id, "%026lld", (long long)key);
    put_task(key, id, runs, events);
    put_events(key, id, runs, events);
    if (batch->bytes >= BATCH_BYTES)
        commit();
}

int main(int argc, char **argv)
{
    char error[STORE_ERROR_TEXT], path[4096];
    struct store_start start;
    struct stat st = {0};
    if (argc != 4)
        die("usage: store_fill DIR TASKS EVENTS");
    int64_t tasks = strtoll(argv[2], NULL, 10);
    uint64_t events = strtoull(argv[3], NULL, 10), each = tasks > 0 ? events / (uint64_t)tasks : 0;
    if (each == 0)
        die("an event at least for each task");
    struct store_sqlite_options options = {.dir = argv[1]};
    if (store_sqlite_open(&options, &store, error) < 0)
        die(error);
    if (store_sqlite_ops.start(store, &start) < 0)
        die("the store does not say what it has");
    batch = batch_new();
    for (int64_t i = 0; i < tasks; i++)
        put(start.next_key + i, false, each);
    for (int64_t i = 0; i < RUNNING; i++)
        put(start.next_key + tasks + i, true, RUNNING_LINES);
    commit();
    batch_free(batch);
    store_sqlite_ops.close(store);
    snprintf(path, sizeof path, "%s/holdfast.db", argv[1]);
    if (stat(path, &st) < 0)
        die("no database");
    printf("{\"events\":%llu,\"bytes\":%lld}\n", (unsigned long long)written,
           (long long)st.st_size);
    return 0;
}
