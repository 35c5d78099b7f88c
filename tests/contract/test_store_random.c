/* Random batches, to the naive store and to SQLite: every question gets the same answer, also after
 * restarts.  SEED=n repeats a run. */
#include <time.h>

#include "tests/contract/store_kit.h"

#define ROUNDS 400
#define MAX_TASKS 60

/* Core's knowledge of a task. */
struct known {
    int64_t key;
    const char *owner, *conversation;
    uint64_t sealed, head, inbox, mark, notes;
    char id[TASK_ID_LEN + 1];
    bool ended, deleted;
};

struct world {
    struct fixture *memory, *other;
    uint64_t random;
    struct known tasks[MAX_TASKS];
    size_t n_tasks;
    int64_t next_key;
    unsigned next_id;
    char file[TASK_ID_LEN + 1]; /* the newest */
};

static const char *const owners[] = {"ann", "bob", ""};
static const char *const conversations[] = {"c-1", "c-2", "c-3", "c-4"};
static const char *const blobs[] = {"b1", "b2", "b3"};
static const char *const titles[] = {"t1", "t2"};
static const char *const keys[] = {"k1", "k2", "k3"};

static unsigned pick(struct world *w, unsigned n)
{
    w->random = w->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(w->random >> 33) % n;
}

static const char *any(struct world *w, const char *const *names, size_t n)
{
    return names[pick(w, (unsigned)n)];
}
#define ANY(w, names) any(w, names, countof(names))

static void next_id(struct world *w, char id[TASK_ID_LEN + 1])
{
    snprintf(id, TASK_ID_LEN + 1, "01HF%022u", w->next_id++);
}

/* --- batches ---------------------------------------------------------------------------------- */

static void step_new(struct world *w, struct fixture *f)
{
    struct known *k = &w->tasks[w->n_tasks < MAX_TASKS ? w->n_tasks++ : pick(w, MAX_TASKS)];
    if (k->key && !k->deleted && !k->ended)
        return;
    *k = (struct known){
        .key = w->next_key++, .owner = ANY(w, owners), .conversation = ANY(w, conversations)};
    next_id(w, k->id);
    struct task_record t = task_of(k->key, k->owner, k->conversation, k->id);
    t.type = (enum task_type)pick(w, 4);
    t.waits = pick(w, 2);
    t.ancestors = pick(w, 2) ? STR("above") : STR_NULL;
    char question[TASK_ID_LEN + 1];
    snprintf(question, sizeof question, "01HF%022u", pick(w, w->next_id + 1));
    t.question_id = pick(w, 3) == 0 ? str_of(question) : STR_NULL;
    t.context = pick(w, 3) == 0 ? STR("[{\"role\":\"user\"}]") : STR_NULL;
    t.parts = pick(w, 3) == 0 ? STR("[{\"type\":\"text\"}]") : STR_NULL;
    t.state.status = STATUS_PENDING;
    if (pick(w, 3) == 0)
        t.input = STR_NULL;
    put_record(f, t);
}

static void step_state(struct world *w, struct fixture *f, struct known *k)
{
    struct task_state s = {.status = STATUS_RUNNING, .first = 1, .head = k->head, .progress = 0.5};
    if (pick(w, 3) == 0) {
        s.status = (enum task_status)(STATUS_COMPLETED + pick(w, 3));
        s.output = STR("done\0really");
        s.answers = pick(w, 2) ? STR("[\"q\",1]") : STR_NULL;
        s.retracted = pick(w, 2) ? STR("[[1,4]]") : STR_NULL;
        s.completed_at = 100 + pick(w, 20);
        k->ended = true;
        if (k->sealed < k->head)
            put_seal(f, k->key, k->sealed + 1, k->head);
        k->sealed = k->head;
    }
    put_state(f, k->key, s);
}

static void commit_both(struct world *w)
{
    struct fixture *f = w->memory;
    int status = w->other->ops->commit(w->other->store, f->batch);
    assert_int_equal(commit_status(f), status);
}

/* The size of a task's events that core learns before it removes them. */
static int64_t event_bytes(struct world *w, const struct known *k)
{
    const struct answer *a = ask(w->memory, (struct query){.kind = QUERY_EXPIRED, .at = INT64_MAX});
    for (size_t i = 0; i < a->n_tasks; i++)
        if (a->tasks[i].key == k->key)
            return a->tasks[i].event_bytes;
    return 0;
}

static void step_remove(struct world *w, struct fixture *f)
{
    if (w->n_tasks == 0 || f->batch->n_ops > 0) /* what a query says must be of this moment */
        return;
    struct known *k = &w->tasks[pick(w, (unsigned)w->n_tasks)];
    if (!k->ended || k->deleted)
        return;
    int64_t freed = event_bytes(w, k);
    if (pick(w, 2)) {
        put_events_remove(f, k->key, k->owner, freed);
    } else {
        put_task_remove(f, k->key, k->owner, k->conversation, k->id, freed, 90 + pick(w, 60));
        k->deleted = true;
    }
    commit_both(w);
}

static void step_lines(struct world *w, struct fixture *f, struct known *k)
{
    uint64_t last = k->head + 1 + pick(w, 5);
    if (pick(w, 4) == 0) {
        put_seal(f, k->key, k->sealed + 1, last);
        k->sealed = last;
    } else {
        put_lines(f, k->key, k->head + 1, last);
    }
    k->head = last;
}

static void step_run(struct world *w, struct fixture *f, struct known *k)
{
    if (pick(w, 2))
        put_mark(f, k->key, k->mark += pick(w, 100));
    else
        put_note(f, k->key, pick(w, 3) ? NOTE_FIRST + k->notes++ : 1 + pick(w, 3), k->head,
                 pick(w, 2) ? "a note" : "");
}

static void step_inbox(struct world *w, struct fixture *f, struct known *k)
{
    if (pick(w, 2))
        step_run(w, f, k);
    if (pick(w, 2))
        put_inbox(f, k->key, ++k->inbox, json("{'content':'hi'}\n"));
    else
        put_inbox_take(f, k->key, k->inbox ? pick(w, (unsigned)k->inbox) : 0);
}

static void step_task(struct world *w, struct fixture *f)
{
    if (w->n_tasks == 0)
        return;
    struct known *k = &w->tasks[pick(w, (unsigned)w->n_tasks)];
    unsigned what = pick(w, 10);
    if (k->deleted && what < 8) {
        /* Late ops of a deleted task, whatever their numbers: no effect. */
        put_run(f, pick(w, 2) ? OP_LINES : OP_SEAL, k->key, k->head + 1, k->head + 2);
        return;
    }
    if (k->ended && what < 7)
        return;
    if (what < 6)
        step_lines(w, f, k);
    else if (what == 6)
        step_state(w, f, k);
    else if (what == 7)
        step_inbox(w, f, k);
    else if (what == 8)
        put_ack(f, k->owner, k->conversation, k->id);
    else
        put_key(f, k->owner, ANY(w, keys), k->conversation, k->id);
}

static void step_delete(struct world *w, struct fixture *f)
{
    const char *owner = ANY(w, owners), *conversation = ANY(w, conversations);
    put_delete(f, owner, conversation);
    for (size_t i = 0; i < w->n_tasks; i++) {
        struct known *k = &w->tasks[i];
        if (strcmp(k->owner, owner) == 0 && strcmp(k->conversation, conversation) == 0)
            k->deleted = true;
    }
}

static void step_notice(struct world *w, struct fixture *f)
{
    if (pick(w, 3) == 0)
        put_turns(f, ANY(w, owners), ANY(w, conversations), (enum turn_count)pick(w, 3));
    else if (pick(w, 2))
        put_notice(f, w->next_key++, ANY(w, owners), ANY(w, conversations), pick(w, 2));
    else
        put_notice_take(f, pick(w, (unsigned)w->next_key));
}

/* A message of a task that is known, anywhere in a tree; or another branch is chosen. */
static void step_message(struct world *w, struct fixture *f, const char *id)
{
    const struct known *k = w->n_tasks ? &w->tasks[pick(w, (unsigned)w->n_tasks)] : NULL;
    char other[TASK_ID_LEN + 1];
    snprintf(other, sizeof other, "01HF%022u", pick(w, w->next_id + 1));
    struct message_record m = {.message_id = str_of(id),
                               .task_id = k ? str_of(k->id) : STR_NULL,
                               .parent_id = pick(w, 3) ? str_of(other) : STR_NULL,
                               .behind = k && pick(w, 4) == 0 ? str_of(k->id) : STR_NULL,
                               .content = STR("some words"),
                               .role = (enum message_role)pick(w, 3),
                               .created_at = 70 + pick(w, 20)};
    struct op op = {.kind = pick(w, 4) ? OP_MESSAGE : OP_BRANCH,
                    .owner = str_of(k ? k->owner : ANY(w, owners)),
                    .conversation_id = str_of(k ? k->conversation : ANY(w, conversations)),
                    .place = (enum message_place)pick(w, 4)};
    if (op.kind == OP_MESSAGE)
        op.message = &m;
    else
        op.key = str_of(other);
    if (op.kind == OP_BRANCH && k && pick(w, 2))
        op.task_id = str_of(k->id);
    batch_put(f->batch, &op);
}

static void put_title(struct world *w, struct fixture *f)
{
    batch_put(f->batch, &(struct op){.kind = OP_TITLE,
                                     .owner = str_of(ANY(w, owners)),
                                     .conversation_id = str_of(ANY(w, conversations)),
                                     .key = str_of(pick(w, 4) ? ANY(w, titles) : NULL),
                                     .title = STR("a model's")});
}

static void step_conversation(struct world *w, struct fixture *f)
{
    char id[TASK_ID_LEN + 1];
    next_id(w, id);
    if (pick(w, 3) == 0) {
        step_notice(w, f);
    } else if (pick(w, 2)) {
        step_message(w, f, id);
    } else {
        put_conversation(f, ANY(w, owners), ANY(w, conversations),
                         pick(w, 2) ? ANY(w, titles) : NULL, pick(w, 4) == 0, 100 + pick(w, 50));
        struct op *op = &f->batch->ops[f->batch->n_ops - 1];
        op->unlisted = pick(w, 3) == 0;
        op->flags_set = pick(w, 8) == 0 ? CONVERSATION_NAMED : 0;
        if (pick(w, 3) == 0)
            put_title(w, f);
    }
}

static void step_file(struct world *w, struct fixture *f)
{
    char id[TASK_ID_LEN + 1];
    unsigned what = pick(w, 10);
    const struct known *k = w->n_tasks ? &w->tasks[pick(w, (unsigned)w->n_tasks)] : NULL;
    if (what < 4) {
        next_id(w, id);
        snprintf(w->file, sizeof w->file, "%s", id);
        put_file(f, ANY(w, owners), ANY(w, conversations), str_of(id), ANY(w, blobs),
                 pick(w, 2) ? id : NULL, pick(w, 1000), 100 + pick(w, 50));
    } else if (what < 8 && k) {
        batch_put(f->batch, &(struct op){.kind = OP_FILE_USE,
                                         .owner = str_of(ANY(w, owners)),
                                         .conversation_id = str_of(k->conversation),
                                         .task_id = str_of(k->id),
                                         .key = str_of(w->file)});
    } else if (what == 8) {
        batch_put(f->batch, &(struct op){.kind = OP_FILES_EXPIRE, .at = 100 + pick(w, 50)});
    } else {
        batch_put(f->batch, &(struct op){.kind = OP_FILES_REMOVE, .key = str_of(ANY(w, blobs))});
    }
}

static void make_batch(struct world *w, struct fixture *f)
{
    unsigned n = pick(w, 12);
    for (unsigned i = 0; i < n; i++) {
        unsigned what = pick(w, 100);
        if (what < 6)
            step_remove(w, f);
        else if (what < 15)
            step_new(w, f);
        else if (what < 80)
            step_task(w, f);
        else if (what < 92)
            step_conversation(w, f);
        else if (what < 96)
            step_file(w, f);
        else
            step_delete(w, f);
    }
}

/* --- comparing -------------------------------------------------------------------------------- */

static void compare(struct world *w, struct query q)
{
    struct buf expected = {0}, got = {0};
    int status = ask_status(w->memory, q);
    text_answer(&expected, status, &w->memory->answer);
    status = ask_status(w->other, q);
    text_answer(&got, status, &w->other->answer);
    bool same = str_eq(buf_str(&expected), buf_str(&got));
    if (!same)
        print_error("query %d\nexpected:\n%sgot:\n%s", q.kind, expected.bytes, got.bytes);
    buf_done(&expected);
    buf_done(&got);
    assert_true(same);
}

static void compare_retention(struct world *w)
{
    for (int i = 0; i < 10; i++) /* what deleted conversations had counts until it is collected */
        w->other->ops->idle(w->other->store);
    compare(w, (struct query){.kind = QUERY_EXPIRED, .at = 100 + pick(w, 25), .limit = pick(w, 4)});
    compare(w, (struct query){.kind = QUERY_FULL, .at = 1000 * pick(w, 9), .limit = pick(w, 3)});
    compare(w, (struct query){.kind = QUERY_FULL, .before = STR("ann")});
    for (size_t i = 0; i < countof(owners); i++) {
        struct query q = {.owner = str_of(owners[i]), .at = 100 + pick(w, 25), .limit = pick(w, 4)};
        static const enum query_kind kinds[] = {QUERY_OLDEST, QUERY_OLDEST_EVENTS, QUERY_USAGE};
        for (size_t kind = 0; kind < countof(kinds); kind++) {
            q.kind = kinds[kind];
            compare(w, q);
        }
    }
}

static void compare_conversation(struct world *w, const char *owner, const char *conversation)
{
    static const enum query_kind kinds[] = {QUERY_TASKS,         QUERY_MESSAGES, QUERY_CONVERSATION,
                                            QUERY_CONVERSATIONS, QUERY_RESULTS,  QUERY_PATH};
    char before[TASK_ID_LEN + 1];
    snprintf(before, sizeof before, "01HF%022u", pick(w, w->next_id + 1));
    for (size_t i = 0; i < countof(kinds); i++) {
        struct query q = {.kind = kinds[i],
                          .owner = str_of(owner),
                          .conversation_id = str_of(conversation),
                          .siblings = true,
                          .limit = pick(w, 5)};
        compare(w, q);
        q.max_bytes = pick(w, 300);
        q.has_status = pick(w, 2);
        q.status = (enum task_status)pick(w, 5);
        q.turns = pick(w, 2);
        q.before = kinds[i] == QUERY_CONVERSATIONS ? str_of(ANY(w, conversations)) : str_of(before);
        compare(w, q);
    }
    struct query owned = {.kind = QUERY_OWNED,
                          .owner = str_of(owner),
                          .key = pick(w, 4) ? str_of(before) : STR_NULL,
                          .limit = pick(w, 5)};
    owned.live = owned.key.p && pick(w, 2);
    compare(w, owned);
    struct query turn = {.kind = QUERY_TURN,
                         .owner = str_of(owner),
                         .conversation_id = str_of(conversation),
                         .key = str_of(before)};
    compare(w, turn);
}

static void compare_task(struct world *w, const struct known *k)
{
    struct query q = {.task_key = k->key,
                      .owner = str_of(k->owner),
                      .conversation_id = str_of(k->conversation),
                      .task_id = str_of(k->id),
                      .after = pick(w, (unsigned)k->head + 3),
                      .max_bytes = pick(w, 3000)};
    static const enum query_kind kinds[] = {QUERY_TASK,  QUERY_BLOCKS, QUERY_INBOX,
                                            QUERY_NOTES, QUERY_PATH,   QUERY_TURN};
    q.key = str_of(k->id); /* of QUERY_TURN */
    for (size_t i = 0; i < countof(kinds); i++) {
        q.kind = kinds[i];
        if (q.kind == QUERY_PATH)
            q.key = STR_NULL; /* above the task's question */
        compare(w, q);
        q.key = str_of(k->id);
    }
}

/* Files that share a blob are told apart by no question about the blob. */
static void compare_files(struct world *w)
{
    for (size_t i = 0; i < countof(owners); i++)
        for (size_t k = 0; k < countof(conversations); k++) {
            struct query q = {.kind = pick(w, 2) ? QUERY_FILE : QUERY_UPLOAD,
                              .owner = str_of(owners[i]),
                              .conversation_id = str_of(conversations[k]),
                              .key = str_of(w->file)};
            compare(w, q);
        }
    for (size_t i = 0; i < countof(blobs); i++) {
        struct query q = {.kind = QUERY_BLOB, .key = str_of(blobs[i])};
        assert_int_equal(ask_status(w->memory, q), ask_status(w->other, q));
    }
    struct query gone = {.kind = QUERY_FILES_GONE};
    assert_int_equal(ask(w->memory, gone)->n_files, ask(w->other, gone)->n_files);
    for (size_t i = 0; i < w->memory->answer.n_files; i++) {
        const struct file_record *a = &w->memory->answer.files[i], *b = &w->other->answer.files[i];
        assert_true(str_eq(a->blob, b->blob) && a->shares == b->shares);
    }
}

static void compare_all(struct world *w)
{
    struct store_start a, b;
    assert_int_equal(w->memory->ops->start(w->memory->store, &a), STORE_OK);
    assert_int_equal(w->other->ops->start(w->other->store, &b), STORE_OK);
    assert_next_key(w->other, &b, a.next_key);
    assert_string_equal(a.newest_id, b.newest_id);
    compare(w, (struct query){.kind = QUERY_LIVE});
    compare(w, (struct query){.kind = QUERY_LIVE, .limit = 3, .after = pick(w, 20)});
    compare(w, (struct query){.kind = QUERY_NOTICES});
    compare(w, (struct query){.kind = QUERY_NOTICES, .limit = 2, .after = pick(w, 200)});
    compare(w, (struct query){.kind = QUERY_TAILS});
    compare(w, (struct query){.kind = QUERY_TAILS, .limit = 2});
    compare(w, (struct query){.kind = QUERY_TAILS, .limit = 2, .after = pick(w, 20)});
    for (size_t i = 0; i < countof(owners); i++) {
        for (size_t k = 0; k < countof(keys); k++)
            compare(w, (struct query){
                           .kind = QUERY_KEY, .owner = str_of(owners[i]), .key = str_of(keys[k])});
        compare_conversation(w, owners[i], ANY(w, conversations));
    }
    compare_files(w);
    for (size_t i = 0; i < w->n_tasks; i++)
        compare_task(w, &w->tasks[i]);
    compare_retention(w);
}

/* --- the test --------------------------------------------------------------------------------- */

/* The last op cannot be done; nothing of the batch may show. */
static void fail_both(struct world *w)
{
    if (w->n_tasks == 0)
        return;
    struct known before[MAX_TASKS];
    size_t n = w->n_tasks;
    int64_t next = w->next_key;
    const struct known *taken = NULL;
    for (size_t i = 0; i < n; i++)
        taken = w->tasks[i].deleted ? taken : &w->tasks[i];
    if (!taken)
        return;
    memcpy(before, w->tasks, sizeof before);
    step_task(w, w->memory);
    step_conversation(w, w->memory);
    put_task(w->memory, taken->key, "ann", "c-9", "again");
    int status = w->other->ops->commit(w->other->store, w->memory->batch);
    assert_true(status == STORE_IO || status == STORE_REFUSED);
    assert_int_equal(commit_status(w->memory), STORE_IO);
    memcpy(w->tasks, before, sizeof before);
    w->n_tasks = n;
    w->next_key = next;
}

static int world_setup(void **state, struct fixture *(*make)(void))
{
    struct world *w = xcalloc(sizeof *w);
    const char *seed = getenv("SEED");
    w->random = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
    print_message("SEED=%llu\n", (unsigned long long)w->random);
    w->memory = kit_new(false);
    w->other = make();
    w->next_key = 1;
    *state = w;
    return 0;
}

static struct fixture *make_sqlite(void)
{
    return kit_new(true);
}

static int setup_sqlite(void **state)
{
    return world_setup(state, make_sqlite);
}

static int setup_pg(void **state)
{
    return world_setup(state, kit_new_pg);
}

static int teardown(void **state)
{
    struct world *w = *state;
    kit_free(w->memory);
    kit_free(w->other);
    free(w);
    return 0;
}

static void test_store_answers_as_the_naive_one_does(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < ROUNDS; i++) {
        make_batch(w, w->memory);
        commit_both(w);
        if (pick(w, 8) == 0)
            fail_both(w);
        if (pick(w, 3) == 0)
            w->other->ops->idle(w->other->store);
        if (pick(w, 20) == 0)
            kit_reopen(w->other);
        if (pick(w, 5) == 0 || i == ROUNDS - 1)
            compare_all(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"sqlite answers as the naive store does", test_store_answers_as_the_naive_one_does,
         setup_sqlite, teardown, "sqlite"},
        {"postgres answers as the naive store does", test_store_answers_as_the_naive_one_does,
         setup_pg, teardown, "postgres"},
    };
    return kit_run_all(tests, countof(tests));
}
