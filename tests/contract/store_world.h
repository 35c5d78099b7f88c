/* store_world -- a store with something of everything in it, and all that it answers, as text.
 *
 * Thread:   one.
 * Owns:     nothing.
 */
#ifndef TESTS_STORE_WORLD_H
#define TESTS_STORE_WORLD_H

#include "tests/contract/store_kit.h"

enum { WORLD_ENDED = 1, WORLD_RESULT, WORLD_RUNNING, WORLD_PENDING, WORLD_REMOVED };

static inline const char *world_id(int64_t key)
{
    static char ids[8][TASK_ID_LEN + 1];
    char *id = ids[key % 8];
    snprintf(id, sizeof ids[0], "01%024lld", (long long)key);
    return id;
}

/* Lines as an agent's, the last one an end when it is the task's. */
static inline void world_lines(struct fixture *f, enum op_kind kind, int64_t key, uint64_t first,
                               uint64_t last, uint64_t end)
{
    struct buf lines = {0};
    for (uint64_t seq = first; seq <= last; seq++) {
        struct buf data = {0};
        buf_putf(&data, json("{'text':'%llu words of task %lld \xc3\xa4%*s'}"),
                 (unsigned long long)seq, (long long)key, (int)(seq * 37 % 150), "");
        event_line(&lines, world_id(key), seq, 5000 + (int64_t)seq,
                   seq == end ? EVENT_TASK_COMPLETED : EVENT_TOKEN,
                   seq == end ? STR("{}") : buf_str(&data));
        buf_done(&data);
    }
    batch_put(f->batch, &(struct op){.kind = kind,
                                     .task_key = key,
                                     .first = first,
                                     .last = last,
                                     .bytes = arena_str(&f->batch->chunks, buf_str(&lines))});
    buf_done(&lines);
}

static inline void world_task(struct fixture *f, int64_t key, const char *owner,
                              const char *conversation, enum task_type type)
{
    struct task_record t = task_of(key, owner, conversation, world_id(key));
    t.type = type;
    t.name = STR("a name");
    t.metadata = key == WORLD_RUNNING ? str_of(json("{'a':1}")) : STR_NULL;
    t.input = key == WORLD_PENDING ? STR_NULL : STR("please do it, and \"well\"");
    t.state.started_at = key == WORLD_PENDING ? 0 : 2000;
    t.state.status = key == WORLD_PENDING ? STATUS_PENDING : STATUS_RUNNING;
    t.state.progress = key == WORLD_RUNNING ? 0.5 : -1;
    put_record(f, t);
}

static inline void world_end(struct fixture *f, int64_t key, uint64_t head, const char *retracted)
{
    put_state(f, key,
              (struct task_state){.status = STATUS_COMPLETED,
                                  .progress = 1,
                                  .first = 1,
                                  .head = head,
                                  .started_at = 2000,
                                  .completed_at = 3000 + key,
                                  .output = STR("all of it, at length"),
                                  .result = str_of(json("{'n':17}")),
                                  .retracted = str_of(retracted)});
}

static inline void world_others(struct fixture *f)
{
    struct outbox_record out = {.key = 40,
                                .hook = STR("hook"),
                                .id = STR("01000000000000000000000040"),
                                .at = 7000,
                                .body = str_of(json("{'type':'task.ended'}"))};
    put_conversation(f, "alice", "c-one", "a title", true, 4000);
    put_message(f, "alice", "c-one", "01000000000000000000000020", "please do it");
    put_message(f, "alice", "c-one", "01000000000000000000000021", "it is done");
    put_key(f, "alice", "once", "c-one", world_id(WORLD_ENDED));
    put_key(f, "alice", "twice", "c-one", world_id(WORLD_RESULT));
    put_inbox(f, WORLD_RUNNING, 1, json("{'a':'message'}\n"));
    put_inbox(f, WORLD_RUNNING, 2, json("{'another':'message'}\n"));
    put_mark(f, WORLD_RUNNING, 70000);
    put_note(f, WORLD_RUNNING, NOTE_STANDING, 60, "a note, and more than one word of it");
    put_note(f, WORLD_RUNNING, NOTE_FIRST, 60, json("{'role':'assistant','content':'yes'}"));
    put_notice(f, WORLD_RESULT, "alice", "c-one", false);
    put_file(f, "carol", "c-files", STR("01000000000000000000000050"), "blob", "try", 7, 8000);
    put_file(f, "carol", "c-files", STR("01000000000000000000000051"), "gone", NULL, 9, 100);
    batch_put(f->batch, &(struct op){.kind = OP_FILES_EXPIRE, .at = 200});
    batch_put(f->batch, &(struct op){.kind = OP_OUTBOX_PUT, .outbox = &out});
    batch_put(f->batch, &(struct op){.kind = OP_REVOKE, .owner = STR("mallory"), .at = 9000});
}

static inline void world_make(struct fixture *f)
{
    world_task(f, WORLD_ENDED, "alice", "c-one", TYPE_CHAT);
    world_task(f, WORLD_RESULT, "alice", "c-one", TYPE_BACKGROUND);
    world_task(f, WORLD_RUNNING, "alice", "c-one", TYPE_BACKGROUND);
    world_task(f, WORLD_PENDING, "bob", "c-two", TYPE_CHAT);
    world_task(f, WORLD_REMOVED, "bob", "c-gone", TYPE_CHAT);
    commit(f);
    world_lines(f, OP_SEAL, WORLD_ENDED, 1, 100, 300);
    world_lines(f, OP_SEAL, WORLD_ENDED, 101, 300, 300);
    world_lines(f, OP_SEAL, WORLD_RESULT, 1, 20, 20);
    world_lines(f, OP_SEAL, WORLD_RUNNING, 1, 60, 0);
    world_lines(f, OP_SEAL, WORLD_REMOVED, 1, 90, 0);
    world_lines(f, OP_LINES, WORLD_PENDING, 1, 1, 0);
    world_others(f);
    commit(f);
    for (uint64_t seq = 61; seq <= 80; seq += 5) {
        world_lines(f, OP_LINES, WORLD_RUNNING, seq, seq + 4, 0);
        commit(f);
    }
    world_end(f, WORLD_ENDED, 300, "[[3,9]]");
    world_end(f, WORLD_RESULT, 20, NULL);
    put_delete(f, "bob", "c-gone"); /* whose blocks wait to be collected */
    commit(f);
}

/* --- all that it answers ---------------------------------------------------------------------- */

static const struct query world_queries[] = {
    {.kind = QUERY_TASK, .owner = {"alice", 5}, .conversation_id = {"c-one", 5}, .task_key = 1},
    {.kind = QUERY_TASK, .owner = {"alice", 5}, .conversation_id = {"c-one", 5}, .task_key = 2},
    {.kind = QUERY_TASK, .owner = {"alice", 5}, .conversation_id = {"c-one", 5}, .task_key = 3},
    {.kind = QUERY_TASK, .owner = {"bob", 3}, .conversation_id = {"c-two", 5}, .task_key = 4},
    {.kind = QUERY_TASK, .owner = {"bob", 3}, .conversation_id = {"c-gone", 6}, .task_key = 5},
    {.kind = QUERY_KEY, .owner = {"alice", 5}, .key = {"once", 4}},
    {.kind = QUERY_KEY, .owner = {"alice", 5}, .key = {"twice", 5}},
    {.kind = QUERY_TASKS, .owner = {"alice", 5}, .conversation_id = {"c-one", 5}, .limit = 10},
    {.kind = QUERY_TASKS, .owner = {"bob", 3}, .conversation_id = {"c-two", 5}, .limit = 10},
    {.kind = QUERY_TASKS,
     .owner = {"alice", 5},
     .conversation_id = {"c-one", 5},
     .has_status = true,
     .status = STATUS_COMPLETED,
     .limit = 10},
    {.kind = QUERY_MESSAGES, .owner = {"alice", 5}, .conversation_id = {"c-one", 5}, .limit = 10},
    {.kind = QUERY_PATH, .owner = {"alice", 5}, .conversation_id = {"c-one", 5}, .limit = 10},
    {.kind = QUERY_CONVERSATION, .owner = {"alice", 5}, .conversation_id = {"c-one", 5}},
    {.kind = QUERY_CONVERSATIONS, .owner = {"alice", 5}, .limit = 10},
    {.kind = QUERY_RESULTS, .owner = {"alice", 5}, .conversation_id = {"c-one", 5}, .limit = 10},
    {.kind = QUERY_BLOCKS, .task_key = 1},
    {.kind = QUERY_BLOCKS, .task_key = 2},
    {.kind = QUERY_BLOCKS, .task_key = 3},
    {.kind = QUERY_LIVE, .limit = 10},
    {.kind = QUERY_TAILS},
    {.kind = QUERY_INBOX, .task_key = 3},
    {.kind = QUERY_NOTES, .task_key = 3},
    {.kind = QUERY_NOTICES, .limit = 10},
    {.kind = QUERY_EXPIRED, .at = 1000000, .limit = 10},
    {.kind = QUERY_OLDEST, .owner = {"alice", 5}, .at = 1000000, .limit = 10},
    {.kind = QUERY_OLDEST_EVENTS, .owner = {"alice", 5}, .limit = 10},
    {.kind = QUERY_USAGE, .owner = {"alice", 5}},
    {.kind = QUERY_FULL, .limit = 10},
    {.kind = QUERY_OUTBOX, .key = {"hook", 4}, .limit = 10},
    {.kind = QUERY_REVOKED, .limit = 10},
    {.kind = QUERY_FILE,
     .owner = {"carol", 5},
     .conversation_id = {"c-files", 7},
     .key = {"01000000000000000000000050", 26}},
    {.kind = QUERY_UPLOAD,
     .owner = {"carol", 5},
     .conversation_id = {"c-files", 7},
     .key = {"try", 3}},
    {.kind = QUERY_BLOB, .key = {"blob", 4}},
    {.kind = QUERY_FILES_GONE, .limit = 10},
};
#define WORLD_QUERIES (sizeof world_queries / sizeof world_queries[0])

/* All pages of an answer in one text, up to one that fails; gives its status. */
static inline int world_ask(struct fixture *f, const struct query *query, struct buf *out)
{
    struct query q = *query;
    if (q.kind == QUERY_TASK)
        q.task_id = str_of(world_id(q.task_key));
    for (;;) {
        int status = ask_status(f, q);
        text_answer(out, status, &f->answer);
        if (status < 0 || q.kind != QUERY_BLOCKS || f->answer.n_blocks == 0)
            return status;
        q.after = f->answer.blocks[f->answer.n_blocks - 1]->last;
    }
}

#endif
