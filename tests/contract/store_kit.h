/* store_kit -- what the tests of stores share: opening any backend, short ways to say a batch
 * and a question, and answers as text, to be compared.
 *
 * Thread:   one.
 * Owns:     the fixture owns the store, its reader, the batch being filled and the last answer; a
 *           test that fails leaves all to its teardown.
 */
#ifndef TESTS_STORE_KIT_H
#define TESTS_STORE_KIT_H

#include <dirent.h>
#include <unistd.h>

#include "core/store_memory.h"
#include "gateway/store/store_sqlite.h"
#include "proto/event.h"
#include "tests/contract/store_pg_kit.h"
#include "tests/support/t.h"

struct fixture {
    const struct store_ops *ops;
    void *store, *reader;
    char dir[64]; /* "" for memory and PostgreSQL */
    bool postgres;
    bool power;
    struct batch *batch;
    struct answer answer;
};

static inline void kit_open(struct fixture *f)
{
    char error[STORE_ERROR_TEXT] = "";
    if (f->dir[0]) {
        struct store_sqlite_options options = {.dir = f->dir, .power = f->power};
        struct store_sqlite *sqlite = NULL;
        f->ops = &store_sqlite_ops;
        if (store_sqlite_open(&options, &sqlite, error) < 0)
            fail_msg("%s", error);
        f->store = sqlite;
    } else if (f->postgres) {
        struct store_pg_options options = {.url = pg_kit_url(), .node = "test", .lease_s = 1};
        struct store_pg *pg = NULL;
        f->ops = &store_pg_ops;
        if (store_pg_open(&options, &pg, error) < 0)
            fail_msg("%s", error);
        f->store = pg;
    } else {
        f->ops = &store_memory_ops;
        f->store = store_memory_new();
    }
    f->reader = f->ops->reader_open(f->store);
    assert_non_null(f->reader);
}

static inline void kit_shut(struct fixture *f)
{
    answer_done(&f->answer);
    if (f->reader)
        f->ops->reader_close(f->reader);
    if (f->store)
        f->ops->close(f->store);
    f->store = f->reader = NULL;
}

/* A restart; nothing for memory, which would forget. */
static inline void kit_reopen(struct fixture *f)
{
    if (!f->dir[0] && !f->postgres)
        return;
    kit_shut(f);
    kit_open(f);
}

static inline struct fixture *kit_new(bool sqlite)
{
    struct fixture *f = xcalloc(sizeof *f);
    if (sqlite) {
        snprintf(f->dir, sizeof f->dir, "/tmp/holdfast-test-XXXXXX");
        assert_non_null(mkdtemp(f->dir));
    }
    f->batch = batch_new();
    kit_open(f);
    return f;
}

/* On the tests' server; the store is empty. */
static inline struct fixture *kit_new_pg(void)
{
    struct fixture *f = xcalloc(sizeof *f);
    f->postgres = true;
    pg_kit_empty();
    f->batch = batch_new();
    kit_open(f);
    return f;
}

/* A store of several nodes leaves gaps between the keys of their lives. */
static inline void assert_next_key(const struct fixture *f, const struct store_start *start,
                                   int64_t next)
{
    if (f->postgres)
        assert_true(start->next_key >= next);
    else
        assert_int_equal(start->next_key, next);
}

static inline void dir_remove(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    (void)rmdir(path);
}

static inline void kit_free(struct fixture *f)
{
    kit_shut(f);
    batch_free(f->batch);
    if (f->dir[0])
        dir_remove(f->dir);
    free(f);
}

/* --- batches ---------------------------------------------------------------------------------- */

/* Line seq of a task, in a static buffer: of a length that depends on both.  It begins as an
 * event's, and most are whole ones, which a store may pack. */
static inline struct str line_of(int64_t key, uint64_t seq)
{
    static char text[512];
    int pad = (int)(((uint64_t)key * 31 + seq * 7) % 200);
    bool is_event = seq % 5 != 0;
    char before[64];
    snprintf(before, sizeof before, "\"ts\":1764500%06u,\"event\":\"token\",\"data\":{\"text",
             (unsigned)(seq * 3 % 100000));
    int n = snprintf(text, sizeof text, EVENT_PREFIX "%026lld\",\"seq\":%llu,%s\":\"%*s\"%s}\n",
                     (long long)key, (unsigned long long)seq, is_event ? before : "\"pad", pad, "",
                     is_event ? "}" : "");
    return (struct str){text, (size_t)n};
}

static inline void lines_of(struct buf *b, int64_t key, uint64_t first, uint64_t last)
{
    buf_clear(b);
    for (uint64_t seq = first; seq <= last; seq++)
        buf_putstr(b, line_of(key, seq));
}

static inline struct task_record task_of(int64_t key, const char *owner, const char *conversation,
                                         const char *task_id)
{
    return (struct task_record){
        .key = key,
        .created_at = 1000 + key,
        .owner = str_of(owner),
        .conversation_id = str_of(conversation),
        .task_id = str_of(task_id),
        .agent = STR("assistant"),
        .input = STR("do it"),
        .state = {.status = STATUS_RUNNING, .progress = -1, .first = 1, .head = 1},
    };
}

static inline void put_record(struct fixture *f, struct task_record record)
{
    batch_put(f->batch, &(struct op){.kind = OP_TASK_NEW, .record = &record});
}

static inline void put_task(struct fixture *f, int64_t key, const char *owner,
                            const char *conversation, const char *task_id)
{
    put_record(f, task_of(key, owner, conversation, task_id));
}

static inline void put_state(struct fixture *f, int64_t key, struct task_state state)
{
    batch_put(f->batch, &(struct op){.kind = OP_TASK_SET, .task_key = key, .state = &state});
}

static inline void put_run(struct fixture *f, enum op_kind kind, int64_t key, uint64_t first,
                           uint64_t last)
{
    struct buf bytes = {0};
    lines_of(&bytes, key, first, last);
    batch_put(f->batch, &(struct op){.kind = kind,
                                     .task_key = key,
                                     .first = first,
                                     .last = last,
                                     /* a seal's bytes are borrowed: they live in the batch here */
                                     .bytes = arena_str(&f->batch->chunks, buf_str(&bytes))});
    buf_done(&bytes);
}

static inline void put_lines(struct fixture *f, int64_t key, uint64_t first, uint64_t last)
{
    put_run(f, OP_LINES, key, first, last);
}

static inline void put_seal(struct fixture *f, int64_t key, uint64_t first, uint64_t last)
{
    put_run(f, OP_SEAL, key, first, last);
}

static inline void put_message(struct fixture *f, const char *owner, const char *conversation,
                               const char *message_id, const char *content)
{
    struct message_record m = {.message_id = str_of(message_id),
                               .task_id = STR("t"),
                               .content = str_of(content),
                               .role = ROLE_ASSISTANT,
                               .partial = true,
                               .created_at = 77};
    batch_put(f->batch, &(struct op){.kind = OP_MESSAGE,
                                     .owner = str_of(owner),
                                     .conversation_id = str_of(conversation),
                                     .message = &m});
}

static inline void put_conversation(struct fixture *f, const char *owner, const char *conversation,
                                    const char *title, bool force, int64_t at)
{
    batch_put(f->batch, &(struct op){.kind = OP_CONVERSATION,
                                     .owner = str_of(owner),
                                     .conversation_id = str_of(conversation),
                                     .title = str_of(title),
                                     .force = force,
                                     .at = at});
}

static inline void put_delete(struct fixture *f, const char *owner, const char *conversation)
{
    batch_put(f->batch, &(struct op){.kind = OP_CONVERSATION_DELETE,
                                     .owner = str_of(owner),
                                     .conversation_id = str_of(conversation)});
}

static inline void put_key(struct fixture *f, const char *owner, const char *key,
                           const char *conversation, const char *task_id)
{
    batch_put(f->batch, &(struct op){.kind = OP_REQUEST_KEY,
                                     .owner = str_of(owner),
                                     .key = str_of(key),
                                     .conversation_id = str_of(conversation),
                                     .task_id = str_of(task_id),
                                     .at = 5});
}

static inline void put_ack(struct fixture *f, const char *owner, const char *conversation,
                           const char *task_id)
{
    batch_put(f->batch, &(struct op){.kind = OP_ACK,
                                     .owner = str_of(owner),
                                     .conversation_id = str_of(conversation),
                                     .key = str_of(task_id)});
}

/* freed is what a query said of the task's events. */
static inline void put_events_remove(struct fixture *f, int64_t key, const char *owner,
                                     int64_t freed)
{
    batch_put(f->batch, &(struct op){.kind = OP_EVENTS_REMOVE,
                                     .task_key = key,
                                     .owner = str_of(owner),
                                     .freed = freed});
}

/* NOLINTNEXTLINE(readability-function-size): an operation has so many fields */
static inline void put_task_remove(struct fixture *f, int64_t key, const char *owner,
                                   const char *conversation, const char *task_id, int64_t freed,
                                   int64_t at)
{
    batch_put(f->batch, &(struct op){.kind = OP_TASK_REMOVE,
                                     .task_key = key,
                                     .owner = str_of(owner),
                                     .conversation_id = str_of(conversation),
                                     .task_id = str_of(task_id),
                                     .freed = freed,
                                     .at = at});
}

static inline void put_inbox(struct fixture *f, int64_t key, uint64_t position, const char *line)
{
    batch_put(f->batch,
              &(struct op){
                  .kind = OP_INBOX_PUT, .task_key = key, .first = position, .bytes = str_of(line)});
}

static inline void put_inbox_take(struct fixture *f, int64_t key, uint64_t last)
{
    batch_put(f->batch, &(struct op){.kind = OP_INBOX_TAKE, .task_key = key, .last = last});
}

static inline void put_mark(struct fixture *f, int64_t key, uint64_t mark)
{
    batch_put(f->batch, &(struct op){.kind = OP_MARK, .task_key = key, .first = mark});
}

static inline void put_note(struct fixture *f, int64_t key, uint64_t number, uint64_t seq,
                            const char *bytes)
{
    batch_put(f->batch, &(struct op){.kind = OP_NOTE,
                                     .task_key = key,
                                     .first = number,
                                     .last = seq,
                                     .bytes = str_of(bytes)});
}

static inline void put_notice(struct fixture *f, int64_t key, const char *owner,
                              const char *conversation, bool silent)
{
    struct notice_record n = {.key = key,
                              .silent = silent,
                              .owner = str_of(owner),
                              .conversation_id = str_of(conversation),
                              .agent = STR("assistant"),
                              .text = STR("it has ended"),
                              .source = silent ? STR("proc_1") : STR_NULL};
    batch_put(f->batch, &(struct op){.kind = OP_NOTICE_PUT, .notice = &n});
}

/* Its blob stands for its hash, too. NOLINTNEXTLINE(readability-function-size) */
static inline void put_file(struct fixture *f, const char *owner, const char *conversation,
                            struct str file_id, const char *blob, const char *upload, int64_t size,
                            int64_t at)
{
    struct file_record r = {.owner = str_of(owner),
                            .conversation_id = str_of(conversation),
                            .file_id = file_id,
                            .name = STR("a name"),
                            .media_type = STR("text/plain"),
                            .sha256 = str_of(blob),
                            .blob = str_of(blob),
                            .upload = str_of(upload),
                            .size = size,
                            .created_at = at};
    batch_put(f->batch, &(struct op){.kind = OP_FILE_PUT, .file = &r});
}

static inline void put_notice_take(struct fixture *f, int64_t key)
{
    batch_put(f->batch, &(struct op){.kind = OP_NOTICE_TAKE, .task_key = key});
}

static inline void put_turns(struct fixture *f, const char *owner, const char *conversation,
                             enum turn_count turns)
{
    batch_put(f->batch, &(struct op){.kind = OP_CONVERSATION,
                                     .owner = str_of(owner),
                                     .conversation_id = str_of(conversation),
                                     .turns = turns,
                                     .at = 1});
}

/* Commits what was put, and begins a new batch. */
static inline int commit_status(struct fixture *f)
{
    int status = f->ops->commit(f->store, f->batch);
    batch_free(f->batch);
    f->batch = batch_new();
    return status;
}

static inline void commit(struct fixture *f)
{
    assert_int_equal(commit_status(f), STORE_OK);
}

/* --- questions -------------------------------------------------------------------------------- */

static inline int ask_status(struct fixture *f, struct query q)
{
    answer_done(&f->answer);
    return f->ops->query(f->reader, &q, &f->answer);
}

static inline struct answer *ask(struct fixture *f, struct query q)
{
    assert_int_equal(ask_status(f, q), STORE_OK);
    return &f->answer;
}

static inline void text_str(struct buf *out, struct str s)
{
    if (!s.p) {
        buf_puts(out, "- ");
        return;
    }
    buf_putf(out, "%zu:", s.n);
    buf_putstr(out, s);
    buf_putc(out, ' ');
}

static inline void text_task(struct buf *out, const struct task_record *t)
{
    const struct task_state *s = &t->state;
    const struct str all[] = {
        t->owner,          t->conversation_id, t->task_id,        t->agent,
        t->name,           t->description,     t->input,          t->metadata,
        t->parent_task_id, t->parent_run_id,   t->parent_call_id, t->parent_agent_id,
        s->error_message,  s->output,          s->result,         s->undelivered,
        s->waiting_for,    s->answers,         t->ancestors,      t->context,
        s->retracted,      t->question_id};
    buf_putf(out, "task %lld %lld %d %d %d %lld %llu ", (long long)t->event_bytes,
             (long long)t->key, t->type, t->notify_on_complete, t->waits, (long long)t->created_at,
             (unsigned long long)t->mark);
    buf_putf(out, "%d %d %.3f %llu %llu %lld %lld %lld %d %d ", s->status, s->error, s->progress,
             (unsigned long long)s->first, (unsigned long long)s->head,
             (long long)s->cancel_requested_at, (long long)s->started_at,
             (long long)s->completed_at, s->output_truncated, s->acked);
    for (size_t i = 0; i < countof(all); i++)
        text_str(out, all[i]);
    buf_putc(out, '\n');
}

static inline void text_messages(struct buf *out, const struct answer *a)
{
    for (size_t i = 0; i < a->n_messages; i++) {
        const struct message_record *m = &a->messages[i];
        buf_putf(out, "message %d %d %lld ", m->role, m->partial, (long long)m->created_at);
        text_str(out, m->message_id);
        text_str(out, m->task_id);
        text_str(out, m->content);
        text_str(out, m->parent_id);
        text_str(out, m->siblings);
        buf_putc(out, '\n');
    }
    if (a->tip.p) {
        text_str(out, a->tip);
        text_str(out, a->tip_task);
        text_str(out, a->children);
        buf_putc(out, '\n');
    }
}

/* Everything in the answer, as text. */
static inline void text_answer(struct buf *out, int status, const struct answer *a)
{
    buf_putf(out, "status %d more %d\n", status, a->more);
    for (size_t i = 0; i < a->n_tasks; i++)
        text_task(out, &a->tasks[i]);
    text_messages(out, a);
    for (size_t i = 0; i < a->n_conversations; i++) {
        const struct conversation_record *c = &a->conversations[i];
        buf_putf(out, "conversation %lld %u %u %d ", (long long)c->updated_at, c->running,
                 c->notices, c->unlisted);
        text_str(out, c->conversation_id);
        text_str(out, c->title);
        text_str(out, c->agent);
        buf_putc(out, '\n');
    }
    for (size_t i = 0; i < a->n_notices; i++) {
        const struct notice_record *n = &a->notices[i];
        buf_putf(out, "notice %lld %d ", (long long)n->key, n->silent);
        text_str(out, n->owner);
        text_str(out, n->conversation_id);
        text_str(out, n->agent);
        text_str(out, n->text);
        text_str(out, n->source);
        buf_putc(out, '\n');
    }
    for (size_t i = 0; i < a->n_owners; i++) {
        buf_putf(out, "usage %lld ", (long long)a->owners[i].value);
        text_str(out, a->owners[i].owner);
        buf_putc(out, '\n');
    }
    for (size_t i = 0; i < a->n_outbox; i++) {
        const struct outbox_record *o = &a->outbox[i];
        buf_putf(out, "outbox %lld %lld ", (long long)o->key, (long long)o->at);
        text_str(out, o->hook);
        text_str(out, o->id);
        text_str(out, o->body);
        buf_putc(out, '\n');
    }
    for (size_t i = 0; i < a->n_files; i++) {
        const struct file_record *r = &a->files[i];
        buf_putf(out, "file %lld %d ", (long long)r->size, r->shares);
        text_str(out, r->owner);
        text_str(out, r->blob);
        text_str(out, r->upload);
        buf_putc(out, '\n');
    }
    for (size_t i = 0; i < a->n_blocks; i++) {
        const struct block *b = a->blocks[i];
        buf_putf(out, "block %lld %llu %llu ", (long long)b->task_key, (unsigned long long)b->first,
                 (unsigned long long)b->last);
        text_str(out, (struct str){b->bytes, b->len});
        buf_putc(out, '\n');
    }
}

static inline void assert_str(struct str s, const char *expected)
{
    assert_non_null(s.p);
    assert_int_equal(s.n, strlen(expected));
    assert_memory_equal(s.p, expected, s.n);
}

/* Lines first to last of a task, in the answer's blocks from i on; returns the block after them. */
static inline size_t assert_lines(const struct answer *a, size_t i, int64_t key, uint64_t first,
                                  uint64_t last)
{
    struct buf expected = {0}, got = {0};
    lines_of(&expected, key, first, last);
    for (uint64_t next = first; next <= last; i++) {
        bool in_order =
            i < a->n_blocks && a->blocks[i]->task_key == key && a->blocks[i]->first == next;
        if (!in_order)
            break;
        buf_put(&got, a->blocks[i]->bytes, a->blocks[i]->len);
        next = a->blocks[i]->last + 1;
    }
    bool same = str_eq(buf_str(&expected), buf_str(&got));
    buf_done(&expected);
    buf_done(&got);
    assert_true(same);
    return i;
}

/* For tests that run on all: see EACH. */
static inline int each_setup(void **state)
{
    bool postgres = strcmp(*state, "postgres") == 0, sqlite = strcmp(*state, "sqlite") == 0;
    *state = postgres ? kit_new_pg() : kit_new(sqlite);
    return 0;
}

#ifdef HOLDFAST_POSTGRES
/* For tests of nodes: over the first one, which begin opens on an empty schema. */
static inline int node_setup(void **state, struct store_pg *(*begin)(void))
{
    struct fixture *f = xcalloc(sizeof *f);
    pg_kit_empty();
    f->postgres = true;
    f->ops = &store_pg_ops;
    f->batch = batch_new();
    f->store = begin();
    f->reader = f->ops->reader_open(f->store);
    *state = f;
    return 0;
}
#endif

static inline int each_teardown(void **state)
{
    kit_free(*state);
    return 0;
}

static inline struct query about(enum query_kind kind, const char *owner, const char *conversation)
{
    return (struct query){
        .kind = kind, .owner = str_of(owner), .conversation_id = str_of(conversation)};
}

static inline struct query about_task(const char *owner, const char *conversation,
                                      const char *task_id)
{
    struct query q = about(QUERY_TASK, owner, conversation);
    q.task_id = str_of(task_id);
    return q;
}

// clang-format off
#define ON(kind, test) {#test " (" kind ")", test, each_setup, each_teardown, kind}
// clang-format on
#define EACH(test) ON("memory", test), ON("sqlite", test), ON("postgres", test)

/* Without a server, those on it are left out. */
static inline int kit_run_all(const struct CMUnitTest *tests, size_t n)
{
    struct CMUnitTest *those = xcalloc(n * sizeof *those);
    bool has_server = pg_kit_server() != NULL;
    size_t taken = 0;
    for (size_t i = 0; i < n; i++) {
        const char *kind = tests[i].initial_state;
        if (has_server || !kind || strcmp(kind, "postgres") != 0)
            those[taken++] = tests[i];
    }
    if (taken < n)
        print_message("%zu tests are skipped: there is no PostgreSQL server\n", n - taken);
    int failed = _cmocka_run_group_tests("tests", those, taken, NULL, NULL);
    free(those);
    return failed;
}

#endif
