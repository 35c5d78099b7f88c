/* hub_world -- random lives of several clients of two owners, against a naive witness.
 *
 * Clients start, follow, cancel, send, answer, drop and come back; agents talk, ask, spawn and end;
 * the store commits, answers, fails and crashes at any step.  world_choose chooses the next
 * step: random numbers in a unit test, the fuzzer's bytes in a fuzz target.  The witness
 * keeps every line that any client ever saw, and checks the promises on each one:
 *
 *   1 dense        each subscription's lines go up by one from where it began
 *   2 committed    a line that was seen once is the same for ever, even after a crash
 *   3 one ending   one terminal event, and nothing after it
 *   4 detached     a client that drops changes nothing about a task: see close_the_world
 *   5 owned        no line of another owner's task
 *   6 once         one request key, one task
 *   7 bounded      a frozen client holds cursors and a few replies, but no lines
 *   - answered     every list that was asked for on a live connection is answered, once
 *
 * and in the end that every task can be replayed from the start, as it was seen, to its ending.
 *
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_HUB_WORLD_H
#define TESTS_SUPPORT_HUB_WORLD_H

#define KIT_RUNS 8192
#include "tests/support/hub_kit.h"

#define CLIENTS 6
#define TASKS 512
#define SEQS 400

struct witness {
    char id[TASK_ID_LEN + 1];
    char owner[8];
    char key[16];
    bool cancel_ok; /* the answer to a cancel said that this one was asked to stop */
    uint64_t terminal;
    char *lines[SEQS]; /* by seq */
};

struct followed {
    bool follows;
    uint64_t last;
};

struct watcher {
    struct client *client;
    bool opened;                  /* the conversation, with follow */
    unsigned n_asked, n_answered; /* lists, on this connection */
    struct followed of[TASKS];
};

struct world {
    struct kit *kit;
    struct witness tasks[TASKS];
    size_t n_tasks;
    struct watcher watchers[CLIENTS];
    unsigned crashes, lines, started, spawned, asked, turned;
    unsigned may_be_mute; /* how many may be answered without their id (no memory for it) */
};

static struct world w;
static size_t (*world_choose)(size_t n); /* 0 to n - 1 */
static void (*world_heal)(void);         /* ends the test's other interference; NULL: none */

static size_t below(size_t n)
{
    return world_choose(n);
}

static size_t witness_of(const char *id, const char *owner)
{
    for (size_t i = 0; i < w.n_tasks; i++)
        if (strcmp(w.tasks[i].id, id) == 0) {
            assert_string_equal(w.tasks[i].owner, owner); /* promise 5 */
            return i;
        }
    assert_true(w.n_tasks < TASKS);
    struct witness *t = &w.tasks[w.n_tasks];
    snprintf(t->id, sizeof t->id, "%s", id);
    snprintf(t->owner, sizeof t->owner, "%s", owner);
    return w.n_tasks++;
}

static uint64_t number(const char *line, const char *key)
{
    char name[32];
    snprintf(name, sizeof name, json("'%s':"), key);
    const char *at = strstr(line, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

static void see_event(struct watcher *watcher, const char *line)
{
    size_t i = witness_of(line_field(line, "task_id"), watcher->client->owner);
    struct witness *t = &w.tasks[i];
    struct followed *f = &watcher->of[i];
    uint64_t seq = number(line, "seq");
    if (watcher->opened && !f->follows && seq == 1) /* it is new */
        *f = (struct followed){true, 0};
    assert_true(f->follows);
    assert_int_equal(seq, f->last + 1); /* promise 1 */
    f->last = seq;
    assert_true(seq < SEQS);
    if (t->lines[seq])
        assert_string_equal(t->lines[seq], line); /* promise 2 */
    else
        t->lines[seq] = xstrdup(str_of(line));
    bool terminal = strstr(line, json("'event':'task.completed'")) ||
                    strstr(line, json("'event':'task.failed'"));
    if (terminal) {
        assert_true(t->terminal == 0 || t->terminal == seq); /* promise 3 */
        t->terminal = seq;
        f->follows = false;
        if (t->cancel_ok)
            assert_non_null(strstr(line, json("'status':'cancelled'")));
    }
    assert_true(t->terminal == 0 || seq <= t->terminal);
}

static void see_started(struct watcher *watcher, const char *line)
{
    size_t i = witness_of(line_field(line, "task_id"), watcher->client->owner);
    watcher->of[i] = (struct followed){true, 0};
    const char *key = line_field(line, "id"); /* the tests use the key as the request's id */
    if (w.tasks[i].key[0])
        assert_string_equal(w.tasks[i].key, key); /* promise 6 */
    for (size_t k = 0; k < w.n_tasks; k++)
        assert_true(k == i || strcmp(w.tasks[k].key, key) != 0 ||
                    strcmp(w.tasks[k].owner, w.tasks[i].owner) != 0);
    snprintf(w.tasks[i].key, sizeof w.tasks[i].key, "%s", key);
}

/* The live tasks of a snapshot are followed from their heads; with a second snapshot they are
 * followed already, though nothing of the newest may have arrived yet. */
static void see_opened(struct watcher *watcher, const char *line)
{
    static const char mark[] = "{\"task_id\":\"";
    if (watcher->opened)
        return;
    watcher->opened = true;
    for (const char *at = strstr(line, mark); at; at = strstr(at + 1, mark)) {
        char item[512], id[TASK_ID_LEN + 1];
        snprintf(item, sizeof item, "%s", at);
        snprintf(id, sizeof id, "%.26s", at + strlen(mark));
        const char *behind = strstr(item + 1, mark);
        bool live =
            strstr(item, json("'status':'pending'")) || strstr(item, json("'status':'running'"));
        if (behind && live)
            live = strstr(item, json("'status':'pending'")) < behind ||
                   strstr(item, json("'status':'running'")) < behind;
        struct followed *f = &watcher->of[witness_of(id, watcher->client->owner)];
        if (live && !f->follows)
            *f = (struct followed){true, number(item, "head")};
    }
}

static void see_cancelled(struct watcher *watcher, const char *line)
{
    const char *at = strstr(line, json("'task_ids':['"));
    for (at = at ? at + strlen(json("'task_ids':['")) : NULL; at; at = strstr(at, json("','"))) {
        char id[TASK_ID_LEN + 1];
        at += at[0] == '"' ? 3 : 0;
        snprintf(id, sizeof id, "%.26s", at);
        w.tasks[witness_of(id, watcher->client->owner)].cancel_ok = true;
    }
}

/* A branch is a path: each message hangs on the one before it. */
static void see_history(const char *line)
{
    static const char mark[] = "{\"message_id\":\"";
    char before[TASK_ID_LEN + 1] = "", parent[64];
    for (const char *at = strstr(line, mark); at; at = strstr(at + 1, mark)) {
        at += strlen(mark);
        snprintf(parent, sizeof parent, json("','parent_id':'%s"), before);
        if (before[0])
            assert_memory_equal(at + TASK_ID_LEN, parent, strlen(parent));
        snprintf(before, sizeof before, "%.26s", at);
    }
}

static void see_line(struct watcher *watcher, const char *line)
{
    w.lines++;
    if (strstr(line, json("{'type':'event'")) == line)
        see_event(watcher, line);
    else if (strstr(line, json("{'type':'started'")) == line)
        see_started(watcher, line);
    else if (strstr(line, json("{'type':'branch'")) == line)
        w.turned++;
    else if (strstr(line, json("{'type':'conversation'")) == line)
        see_opened(watcher, line);
    else if (strstr(line, json("{'type':'resumed'")) == line) {
        size_t i = witness_of(line_field(line, "task_id"), watcher->client->owner);
        watcher->of[i] = (struct followed){true, number(line, "after")};
    } else if (strstr(line, json("'id':'list'"))) {
        watcher->n_answered++;
        see_history(line);
    } else if (strstr(line, json("'cancelled':")))
        see_cancelled(watcher, line);
}

static void see_all(void)
{
    for (size_t i = 0; i < CLIENTS; i++)
        for (;;) {
            const char *line = client_line(w.watchers[i].client);
            if (!*line)
                break;
            see_line(&w.watchers[i], line);
        }
}

static void come(size_t i)
{
    struct client *c = xcalloc(sizeof *c);
    memset(w.watchers[i].of, 0, sizeof w.watchers[i].of);
    w.watchers[i].opened = false;
    w.watchers[i].n_asked = w.watchers[i].n_answered = 0;
    w.watchers[i].client = c;
    c->kit = w.kit;
    snprintf(c->owner, sizeof c->owner, "%s", i % 2 ? "ann" : "bob");
    session_init(&c->session, &w.kit->hub, &client_ops, c);
    session_receive(&c->session, str_of(json("{'type':'hello'}")));
}

static void say(size_t i, const char *line)
{
    session_receive(&w.watchers[i].client->session, str_of(line));
}

static void start(size_t i)
{
    char line[256];
    if (w.started >= TASKS / 2)
        return;
    w.started++;
    /* The same key now and then: the id tells which. */
    size_t key = w.started - below(3) % w.started;
    const char *const ways[] = {"",
                                "",
                                "",
                                json(",'when_busy':'enqueue'"),
                                json(",'when_busy':'interrupt'"),
                                json(",'background':true"),
                                json(",'background':true,'notify_on_complete':true")};
    snprintf(line, sizeof line,
             json("{'type':'chat','id':'k%zu','request_key':'k%zu','message':'hi',"
                  "'conversation_id':'c'%s}"),
             key, key, ways[key % countof(ways)]);
    say(i, line);
}

static const struct witness *any_task_of(size_t i)
{
    for (int tries = 0; tries < 8 && w.n_tasks; tries++) {
        /* The newest are the live ones. */
        size_t back = below(2) ? below(w.n_tasks) : below(w.n_tasks < 8 ? w.n_tasks : 8);
        const struct witness *t = &w.tasks[w.n_tasks - 1 - back];
        if (strcmp(t->owner, w.watchers[i].client->owner) == 0)
            return t;
    }
    return NULL;
}

/* Begins a branch, at whatever task of the owner. */
static void place(size_t i)
{
    const char *const ways[] = {json("'message':'hi','reply_to'"), json("'message':'hi','edit'"),
                                json("'regenerate'")};
    const struct witness *t = any_task_of(i);
    char line[256];
    if (!t || w.started >= TASKS / 2)
        return;
    w.started++;
    snprintf(line, sizeof line,
             json("{'type':'chat','id':'k%u','request_key':'k%u','conversation_id':'c',%s:'%s'%s}"),
             w.started, w.started, ways[below(countof(ways))], t->id,
             below(2) ? json(",'when_busy':'enqueue'") : "");
    say(i, line);
}

static void branch(size_t i)
{
    const struct witness *t = any_task_of(i);
    char line[128];
    if (!t)
        return;
    snprintf(line, sizeof line,
             json("{'type':'branch','id':'q','conversation_id':'c','message_id':'%s'}"), t->id);
    say(i, line);
}

static void ask(size_t i, const char *type, const char *more)
{
    const struct witness *t = any_task_of(i);
    char line[256];
    if (!t)
        return;
    snprintf(line, sizeof line,
             json("{'type':'%s','id':'q','conversation_id':'c','task_id':'%s'%s}"), type, t->id,
             more);
    say(i, line);
}

static void resume(size_t i)
{
    char more[32];
    snprintf(more, sizeof more, json(",'after':%zu"), below(6));
    ask(i, "resume", more);
}

static void list(size_t i)
{
    static const char *const verbs[] = {"tasks", "history", "results", "conversations"};
    struct watcher *watcher = &w.watchers[i];
    size_t verb = below(countof(verbs));
    char line[128];
    if (watcher->client->session.state != SESSION_OPEN)
        return;
    snprintf(line, sizeof line, json("{'type':'%s','id':'list'%s}"), verbs[verb],
             verb < 3 ? json(",'conversation_id':'c'") : "");
    watcher->n_asked++;
    say(i, line);
}

static void answer(size_t i)
{
    char more[64];
    snprintf(more, sizeof more, json(",'input_id':'q%zu','answer':%s"),
             1 + below(w.asked ? w.asked : 1), below(2) ? "true" : "false");
    ask(i, "respond", more);
}

static void agent_talks(void)
{
    struct kit *k = w.kit;
    if (k->n_runs == 0)
        return;
    size_t back = below(k->n_runs < 12 ? k->n_runs : 12);
    struct run *r = k->runs[k->n_runs - 1 - back];
    if (r->freed || !r->wants_more || r->spoke > SEQS - 50)
        return;
    r->spoke++;
    char line[160];
    switch (below(16)) {
    case 0: r->events->on_end(r->task, RUN_DONE, STR("")); break;
    case 1: r->events->on_end(r->task, RUN_FAILED, STR("exit status 3")); break;
    case 2: r->events->on_line(r->task, STR("this is no line")); break;
    case 3:
        snprintf(line, sizeof line,
                 json("{'event':'input_required','data':{'input_id':'q%u','kind':'approval',"
                      "'prompt':'?'}}"),
                 ++w.asked);
        r->events->on_line(r->task, str_of(line));
        break;
    case 4:
        if (w.spawned++ < TASKS / 8)
            r->events->on_line(r->task,
                               str_of(json("{'call':'spawn','call_id':'s','input':'child'}")));
        break;
    case 5: r->full = !r->full; break;
    default:
        r->wants_more = r->events->on_line(
            r->task, str_of(json("{'event':'token','data':{'text':'some words '}}")));
    }
}

/* Everything uncommitted is lost, with every connection. */
static void crash(void)
{
    if (below(2))
        store_inline_apply(w.kit->inline_store); /* on disk, but nobody was told */
    see_all();
    for (size_t i = 0; i < CLIENTS; i++)
        client_free(w.watchers[i].client);
    kit_crash(w.kit);
    w.kit->hub.o.limits.requests_per_second = 1000000;
    for (size_t i = 0; i < CLIENTS; i++)
        come(i);
    w.crashes++;
}

static void drop(size_t i)
{
    see_all();
    client_free(w.watchers[i].client);
    come(i);
}

/* Promise 7: bounds the memory for a client that reads nothing. */
static void check_bounds(void)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct session *s = &w.watchers[i].client->session;
        assert_true(session_n_waiting(s) <= 66); /* 64, and those that close */
    }
}

static void step(void)
{
    size_t i = below(CLIENTS);
    struct client *c = w.watchers[i].client;
    switch (below(40)) {
    case 0: start(i); break;
    case 1: ask(i, "cancel", below(3) ? "" : json(",'tree':true")); break;
    case 2:
    case 3: resume(i); break;
    case 4: drop(i); break;
    case 5:
        c->frozen = !c->frozen;
        session_wake(&c->session);
        break;
    case 6: w.kit->hub.clock.now_ms += (msec_t)below(3000); break;
    case 7:
        if (below(40) == 0)
            crash();
        break;
    case 8:
        if (below(30) == 0)
            store_inline_fail_commits(w.kit->inline_store, (unsigned)below(5),
                                      below(2) ? STORE_BUSY : STORE_UNKNOWN);
        if (below(30) == 0)
            kit_unknown = (unsigned)below(5);
        break;
    case 9:
        if (below(30) == 0)
            store_inline_fail_queries(w.kit->inline_store, (unsigned)below(3), STORE_BUSY);
        break;
    case 10: ask(i, "send", json(",'content':'a word'")); break;
    case 11: answer(i); break;
    case 12: say(i, json("{'type':'open','conversation_id':'c','follow':true}")); break;
    case 13: store_inline_ask(w.kit->inline_store); break;
    case 15: list(i); break;
    case 16: place(i); break;
    case 17: branch(i); break;
    case 14:
        if (below(20) == 0)
            say(i, json("{'type':'cancel_all','id':'q','conversation_id':'c'}"));
        break;
    default:
        if (below(2))
            agent_talks();
        else
            store_inline_step(w.kit->inline_store);
    }
    if (below(3) == 0) {
        kit_turn(w.kit);
        see_all();
        check_bounds();
    }
}

/* Nobody is left without an answer: each reads everything that there is for it. */
static void check_answers(void)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        w.watchers[i].client->frozen = false;
        session_wake(&w.watchers[i].client->session);
    }
    kit_settle(w.kit);
    see_all();
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct watcher *watcher = &w.watchers[i];
        assert_true(watcher->n_answered <= watcher->n_asked);
        if (watcher->client->session.state == SESSION_OPEN && !watcher->client->broken)
            assert_true(watcher->n_asked - watcher->n_answered <= w.may_be_mute);
    }
}

/* An end may start the next turn. */
static void end_all_runs(void)
{
    struct kit *k = w.kit;
    for (int i = 0; i < 100 && k->hub.n_live > 0; i++) {
        for (size_t r = 0; r < k->n_runs; r++)
            if (!k->runs[r]->freed)
                k->runs[r]->events->on_end(k->runs[r]->task, RUN_DONE, STR(""));
        kit_pass(k, 10000);
    }
    see_all();
    assert_int_equal(k->hub.n_live, 0);
}

/* Everyone lets go, all runs end, and each task is replayed from its start. */
static void close_the_world(void)
{
    struct kit *k = w.kit;
    kit_fault.times = 0;
    if (world_heal)
        world_heal();
    store_inline_fail_commits(k->inline_store, 0, STORE_OK);
    store_inline_fail_queries(k->inline_store, 0, STORE_OK);
    for (int i = 0; i < 10; i++)
        kit_pass(k, 1000);
    end_all_runs();
    check_answers();
    end_all_runs(); /* of requests that had waited for a client to read */
    for (size_t i = 0; i < CLIENTS; i++)
        drop(i);
    for (size_t t = 0; t < w.n_tasks; t++) {
        size_t i = strcmp(w.tasks[t].owner, "ann") == 0 ? 1 : 0;
        char line[200];
        snprintf(line, sizeof line, json("{'type':'resume','conversation_id':'c','task_id':'%s'}"),
                 w.tasks[t].id);
        w.watchers[i].client->frozen = false;
        k->hub.clock.now_ms += 100;
        say(i, line);
        kit_settle(k);
        see_all();
        assert_true(w.tasks[t].terminal > 0);
        assert_int_equal(w.watchers[i].of[t].last, w.tasks[t].terminal);
    }
}

static inline void begin_the_world(void)
{
    memset(&w, 0, sizeof w);
    w.kit = kit_new();
    w.kit->hub.o.limits.requests_per_second = 1000000;
    for (size_t i = 0; i < CLIENTS; i++)
        come(i);
}

static inline void end_the_world(void)
{
    close_the_world();
    for (size_t i = 0; i < CLIENTS; i++)
        client_free(w.watchers[i].client);
    kit_free_all(w.kit);
    for (size_t t = 0; t < w.n_tasks; t++)
        for (size_t s = 0; s < SEQS; s++)
            free(w.tasks[t].lines[s]);
}

/* A whole world, from its beginning to its end, in that many steps. */
static inline void live_once(size_t steps)
{
    begin_the_world();
    for (size_t i = 0; i < steps; i++)
        step();
    end_the_world();
}

#endif
