/* Agents that outlive the gateway, in random lives: they speak, call, ask, spawn and hear, clients
 * send, answer and cancel, and the gateway dies between any two steps, also in its repair.  The
 * oracle is what each agent itself has said and heard.
 *
 * An agent is a queue of bytes that the hub does not own: what it has said stays, and is read from
 * the mark again; what it has heard is logged by the number of the line. */
#define KIT_RUNS 65536
#include "tests/support/hub_kit.h"

#define NOBODY "01ARZ3NDEKTSV4RRFFQ69G5FAV" /* no task's id: the store is asked */
#define MOST 64                             /* agents of a life */
#define ROOTS 3                             /* that clients have started */
#define SENT 512

struct survivor {
    char task_id[TASK_ID_LEN + 1];
    struct run *run;
    struct buf said, heard; /* lines */
    size_t handed;          /* bytes of said that this gateway has got */
    uint64_t last;          /* number of the newest line that it heard */
    uint64_t told;          /* … of which the gateway knows */
    unsigned n;             /* things said */
    unsigned n_calls, n_spawns;
    bool has_run, ended, end_told, settled, cancelled, left;
};

/* Asked for by a client, whose request has the id of its place. */
struct sent {
    struct survivor *to;
    unsigned n;
    bool answers; /* a question; otherwise a message */
    bool acked, refused;
};

static struct {
    struct kit *kit;
    struct client *client;
    struct survivor all[MOST];
    size_t n;
    struct sent sent[SENT];
    size_t n_sent;
    uint64_t random;
    unsigned crashes;
    int ready; /* as hub_restore has said; 1: not yet */
} w;

static bool chance(unsigned percent)
{
    return t_random(&w.random) % 100 < percent;
}

/* --- the agents ------------------------------------------------------------------------------- */

static struct survivor *survivor_of(struct str task_id)
{
    for (size_t i = 0; i < w.n; i++)
        if (str_eq(str_of(w.all[i].task_id), task_id))
            return &w.all[i];
    return NULL;
}

static struct survivor *survivor_with(const struct run *r)
{
    for (size_t i = 0; i < w.n; i++)
        if (w.all[i].run == r)
            return &w.all[i];
    fail_msg("a run without an agent");
    abort();
}

static bool survivor_prepare(void *settings, struct str task_id, char *ret_error)
{
    (void)settings, (void)ret_error;
    if (survivor_of(task_id)) /* the commit of its start was lost */
        return true;
    assert_true(w.n < MOST);
    struct survivor *s = &w.all[w.n++];
    memcpy(s->task_id, task_id.p, task_id.n);
    return true;
}

static struct run *survivor_start(void *settings, const struct run_spec *spec,
                                  const struct run_events *events, void *task, char *ret_error)
{
    struct survivor *s = survivor_of(spec->task_id);
    assert_true(s && !s->has_run && !s->settled); /* once in all lives of the gateway */
    s->has_run = true;
    s->run = kit_start(settings, spec, events, task, ret_error);
    return s->run;
}

static bool survivor_is_there(void *settings, struct str task_id, uint64_t *ret_last,
                              char ret_why[256])
{
    (void)settings, (void)ret_why;
    const struct survivor *s = survivor_of(task_id);
    assert_true(s && !s->settled);
    *ret_last = s->last;
    return true;
}

static struct run *survivor_resume(void *settings, const struct run_spec *spec,
                                   const struct resumption *from, const struct run_events *events,
                                   void *task, char *ret_error)
{
    struct survivor *s = survivor_of(spec->task_id);
    ASSERT(s); /* nobody resumes what never ran */
    assert_true(from->mark <= s->said.len);
    assert_true(from->mark == 0 || s->said.bytes[from->mark - 1] == '\n');
    s->has_run = true;
    s->handed = from->mark;
    s->end_told = s->left = false;
    s->told = 0;
    s->run = kit_start(settings, spec, events, task, ret_error);
    return s->run;
}

static void survivor_cancel(struct run *r)
{
    struct survivor *s = survivor_with(r);
    s->cancelled = s->ended = true;
}

static bool survivor_is_deaf(struct run *r)
{
    return survivor_with(r)->ended;
}

static void survivor_leave(struct run *r)
{
    survivor_with(r)->left = true;
}

static void survivor_free(struct run *r)
{
    for (size_t i = 0; i < w.n; i++)
        if (w.all[i].run == r)
            w.all[i].run = NULL;
    kit_free(r);
}

static void survivor_settled(void *settings, struct str task_id)
{
    struct survivor *s = survivor_of(task_id);
    (void)settings;
    if (s) /* one that was cancelled before it began has none */
        s->settled = true;
}

/* The gateway may learn of it later, or never. */
static bool survivor_deliver_at(struct run *r, uint64_t position, struct str line)
{
    struct survivor *s = survivor_with(r);
    if (position > s->last && (s->ended || chance(20)))
        return false;
    if (position > s->last) {
        buf_putstr(&s->heard, line);
        buf_putc(&s->heard, '\n');
        s->last = position;
    }
    if (chance(60)) {
        s->told = s->last;
        r->events->on_taken(r->task, s->last);
    }
    return true;
}

static struct recall {
    char nothing;
} survivor_all;

static struct recall *survivor_recall(void *settings, struct recall *recall,
                                      const struct recalled *item, bool *ret_settled)
{
    (void)settings, (void)recall, (void)item;
    *ret_settled = true;
    return &survivor_all;
}

static void survivor_nothing(struct run *r)
{
    (void)r;
}

static void survivor_forget(struct recall *recall)
{
    (void)recall;
}

static const struct agent_ops survivor_ops = {.kind = "survivor",
                                              .prepare = survivor_prepare,
                                              .start = survivor_start,
                                              .is_there = survivor_is_there,
                                              .resume = survivor_resume,
                                              .recall = survivor_recall,
                                              .forget = survivor_forget,
                                              .cancel = survivor_cancel,
                                              .kill = survivor_cancel,
                                              .is_deaf = survivor_is_deaf,
                                              .unpause = kit_unpause,
                                              .deliver_at = survivor_deliver_at,
                                              .leave = survivor_leave,
                                              .proceed = survivor_nothing,
                                              .settled = survivor_settled,
                                              .free = survivor_free};

/* --- what they do ----------------------------------------------------------------------------- */

#define TOKEN_LINE json("{'event':'token','data':{'text':'<%u>'}}\n")
#define QUESTION_LINE \
    json("{'event':'input_required','data':{'input_id':'q%u','kind':'question','prompt':'?'}}\n")
#define SEND_LINE json("{'call':'send','call_id':'c%u','task_id':'" NOBODY "','content':'x'}\n")
#define CANCEL_LINE json("{'call':'cancel','call_id':'c%u','task_id':'" NOBODY "'}\n")
#define SPAWN_LINE json("{'call':'spawn','call_id':'s%u','input':'child'}\n")

static bool is_root(const struct survivor *s)
{
    return s < w.all + ROOTS;
}

static void speak(struct survivor *s)
{
    unsigned kind = (unsigned)(t_random(&w.random) % 20), n = ++s->n;
    if (!s->has_run || s->ended)
        return;
    if (kind < 11) {
        buf_putf(&s->said, TOKEN_LINE, n);
    } else if (kind < 13) {
        buf_putf(&s->said, QUESTION_LINE, n);
    } else if (kind < 17) {
        buf_putf(&s->said, kind < 15 ? SEND_LINE : CANCEL_LINE, n);
        s->n_calls++;
    } else if (kind == 17 && is_root(s) && w.n < MOST / 2) {
        buf_putf(&s->said, SPAWN_LINE, n);
        s->n_calls++;
        s->n_spawns++;
    } else if (!is_root(s)) {
        s->ended = chance(30);
    }
}

/* As exec_run.c hands over: a mark behind each line, and no further line while it is paused. */
static void hand_over(struct survivor *s)
{
    for (struct run *r = s->run; r && r == s->run && !s->left && r->wants_more;) {
        size_t left = s->said.len - s->handed;
        const char *at = left ? s->said.bytes + s->handed : NULL;
        const char *newline = at ? memchr(at, '\n', left) : NULL;
        if (!newline) {
            if (s->ended && !s->end_told) {
                s->end_told = true;
                r->events->on_end(r->task, RUN_DONE, STR(""));
            }
            return;
        }
        s->handed += (size_t)(newline - at) + 1;
        r->wants_more = false;
        if (r->events->on_line(r->task, (struct str){at, (size_t)(newline - at)}))
            r->wants_more = true;
        if (s->run == r)
            (void)r->events->on_mark(r->task, s->handed);
    }
}

static void tell_taken(struct survivor *s)
{
    if (!s->run || s->left || s->told == s->last)
        return;
    s->told = s->last;
    s->run->events->on_taken(s->run->task, s->last);
}

/* --- the client ------------------------------------------------------------------------------- */

static void post(const char *type, const struct survivor *s, const char *id, const char *more)
{
    char line[512];
    snprintf(line, sizeof line,
             json("{'type':'%s','id':'%s','conversation_id':'c','task_id':'%s'%s}"), type, id,
             s->task_id, more);
    session_receive(&w.client->session, str_of(line));
}

static void post_sent(struct survivor *s, unsigned n, bool answers)
{
    char id[32], more[128];
    if (w.n_sent == SENT || s->n == 0 || s->ended)
        return;
    snprintf(id, sizeof id, "%zu", w.n_sent);
    snprintf(more, sizeof more,
             answers ? json(",'input_id':'q%u','answer':'yes'") : json(",'content':'m%u'"), n);
    w.sent[w.n_sent++] = (struct sent){.to = s, .n = n, .answers = answers};
    post(answers ? "respond" : "send", s, id, more);
}

/* Replies that came before the gateway died. */
static void read_replies(void)
{
    const char *line;
    while (*(line = client_line(w.client))) {
        bool is_ok = strstr(line, json("{'type':'ok'")),
             is_error = strstr(line, json("'error','id'"));
        if (!is_ok && !is_error)
            continue;
        const char *id = line_field(line, "id");
        size_t at = strtoul(id, NULL, 10);
        if (id[0] < '0' || id[0] > '9' || at >= w.n_sent)
            continue;
        w.sent[at].acked |= is_ok;
        w.sent[at].refused |= is_error;
    }
}

/* --- the gateway's life ----------------------------------------------------------------------- */

static void on_ready(void *arg, int status)
{
    (void)arg;
    w.ready = status;
}

static void connect_client(void)
{
    w.client = client_new(w.kit, "ann");
}

/* Dies, and is started; maybe it dies again after some steps of its repair. */
static void crash(void)
{
    struct kit *k = w.kit;
    read_replies();
    client_free(w.client);
    for (bool again = true; again; again = chance(30)) {
        kit_close_hub(k);
        for (size_t i = 0; i < w.n; i++)
            w.all[i].run = NULL;
        kit_open_hub(k);
        w.ready = 1;
        w.crashes++;
        hub_restore(&k->hub, on_ready, NULL);
        for (size_t n = t_random(&w.random) % 24; n > 0; n--) {
            kit_turn(k);
            kit_step(k);
        }
    }
    while (w.ready == 1) {
        kit_turn(k);
        kit_step(k);
    }
    assert_int_equal(w.ready, 0);
    connect_client();
}

static struct survivor *any(void)
{
    return &w.all[t_random(&w.random) % w.n];
}

static void step(void)
{
    struct survivor *s = any();
    switch (t_random(&w.random) % 12) {
    case 0:
    case 1: speak(s); break;
    case 2: post_sent(s, (unsigned)w.n_sent, false); break;
    case 3: post_sent(s, 1 + (unsigned)(t_random(&w.random) % (s->n + 1)), true); break;
    case 4: tell_taken(s); break;
    case 5:
    case 6: hand_over(s); break;
    case 7:
    case 8: kit_turn(w.kit); break;
    case 9: store_inline_step_commit(w.kit->inline_store); break;
    case 10: store_inline_step_query(w.kit->inline_store); break;
    default: w.kit->hub.clock.now_ms += 10; w.kit->hub.clock.wall_ms += 10;
    }
}

/* All that was said is read, and all lines are heard. */
static void settle(void)
{
    for (int i = 0; i < 200; i++) {
        for (size_t j = 0; j < w.n; j++) {
            hand_over(&w.all[j]);
            tell_taken(&w.all[j]);
        }
        kit_pass(w.kit, 25);
    }
    read_replies();
}

/* --- the reckoning ---------------------------------------------------------------------------- */

static unsigned count(const struct buf *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text->len ? text->bytes : NULL; at && (at = strstr(at, part));
         at += strlen(part))
        n++;
    return n;
}

/* The events of its task, from the first one on. */
static void replay(const struct survivor *s, struct buf *ret)
{
    client_free(w.client);
    connect_client();
    post("resume", s, "r", json(",'after':0"));
    kit_settle(w.kit);
    buf_putstr(ret, buf_str(&w.client->got));
}

static void check_dense(const struct survivor *s, const struct buf *events)
{
    char part[160];
    unsigned seq = 1;
    const char *at = events->bytes;
    for (;; seq++) {
        snprintf(part, sizeof part, json("'task_id':'%s','seq':%u,"), s->task_id, seq);
        const char *next = strstr(at, part);
        if (!next)
            break;
        at = next;
    }
    assert_true(strstr(at, "task.completed") || strstr(at, "task.failed"));
    assert_int_equal(
        count(events, "event\":\"task.completed") + count(events, "event\":\"task.failed"), 1);
    assert_int_equal(count(events, json("'event':'task.started'")), 1);
}

/* Its own words, in order, once; all of them unless it was cut off. */
static void check_said(const struct survivor *s, const struct buf *events)
{
    const char *at = events->bytes;
    for (unsigned n = 1; n <= s->n; n++) {
        char said[128], told[64], question[64];
        snprintf(said, sizeof said, TOKEN_LINE, n);
        snprintf(told, sizeof told, json("'data':{'text':'<%u>'}"), n);
        snprintf(question, sizeof question, json("'data':{'input_id':'q%u','kind'"), n);
        bool is_token = count(&s->said, said) == 1;
        snprintf(said, sizeof said, QUESTION_LINE, n);
        bool is_question = !is_token && count(&s->said, said) == 1;
        const char *part = is_token ? told : question;
        if (!is_token && !is_question)
            continue;
        unsigned times = count(events, part);
        if (times != 1 && !(times == 0 && s->cancelled))
            fail_msg("%s stands %u times in the events of %s:\n%s\nwhich said:\n%s", part, times,
                     s->task_id, strstr(events->bytes, "resumed"), s->said.bytes);
        const char *here = strstr(events->bytes, part);
        if (here && here < at)
            fail_msg("%s comes too early", part);
        at = here ? here : at;
    }
}

/* Answers to one call. */
static unsigned count_answers(const struct survivor *s, char kind, unsigned n)
{
    static const char *const types[] = {"ok", "child", "error"};
    unsigned all = 0;
    for (size_t i = 0; i < countof(types); i++) {
        char answer[64];
        snprintf(answer, sizeof answer, json("{'type':'%s','call_id':'%c%u'"), types[i], kind, n);
        all += count(&s->heard, answer);
    }
    return all;
}

static void check_calls(const struct survivor *s, const struct buf *events)
{
    for (unsigned n = 1; n <= s->n; n++)
        for (const char *kind = "cs"; *kind; kind++) {
            char call[32];
            snprintf(call, sizeof call, json("'call_id':'%c%u'"), *kind, n);
            unsigned called = count(&s->said, call), answered = count_answers(s, *kind, n);
            if (answered > called || (answered < called && !s->cancelled && is_root(s)))
                fail_msg("%s was answered %u times", call, answered);
        }
    unsigned n_ends = count(&s->heard, json("'from':'child'"));
    unsigned n_children = count(events, json("'event':'child'"));
    assert_true(n_children <= s->n_spawns && n_ends <= n_children);
    if (!s->cancelled)
        assert_int_equal(n_children, s->n_spawns);
}

/* Messages and answers of clients: once, in order, and those that were acknowledged for certain. */
static void check_heard(const struct survivor *s, const struct buf *events)
{
    const char *at = s->heard.bytes;
    for (size_t i = 0; i < w.n_sent; i++) {
        const struct sent *m = &w.sent[i];
        char part[96];
        if (m->to != s)
            continue;
        snprintf(part, sizeof part,
                 m->answers ? json("'type':'input','input_id':'q%u'")
                            : json("'from':'user','content':'m%u'}"),
                 m->n);
        unsigned times = count(&s->heard, part);
        bool must = m->acked && is_root(s) && !s->cancelled;
        if (times > 1 || (must && times == 0) || (m->refused && !m->answers && times > 0))
            fail_msg("%s was heard %u times (acked %d, refused %d)", part, times, m->acked,
                     m->refused);
        const char *here = times && !m->answers ? strstr(s->heard.bytes, part) : NULL;
        if (here && here < at)
            fail_msg("%s was heard too early", part);
        at = here ? here : at;
        /* In an event; or in its record, when the task ended before its run said that it has it. */
        if (!m->answers && is_root(s) && !s->cancelled)
            assert_int_equal(count(events, part), times);
    }
}

static void check_all(void)
{
    for (size_t i = 0; i < w.n; i++) {
        struct survivor *s = &w.all[i];
        struct buf events = {0};
        if (!s->has_run)
            continue;
        assert_true(s->settled);
        replay(s, &events);
        if (strstr(events.bytes, "did not get on")) /* five deaths in a row, and not a word */
            s->cancelled = true;
        check_dense(s, &events);
        check_said(s, &events);
        check_calls(s, &events);
        check_heard(s, &events);
        buf_done(&events);
    }
}

/* --- a life ----------------------------------------------------------------------------------- */

static void begin(void)
{
    uint64_t random = w.random;
    memset(&w, 0, sizeof w);
    w.random = random;
    w.kit = kit_new();
    for (size_t i = 0; i < countof(w.kit->agents); i++) {
        w.kit->agents[i].ops = &survivor_ops;
        w.kit->agents[i].goes_on = w.kit->agents[i].outlives = true;
    }
    connect_client();
    for (int i = 0; i < ROOTS; i++)
        client_say(w.client, json("{'type':'chat','conversation_id':'c','message':'root'}"));
    assert_int_equal(w.n, ROOTS);
}

static void end(void)
{
    settle();
    for (int rounds = 0; rounds < 4; rounds++) { /* those of children, too */
        for (size_t i = 0; i < w.n; i++)
            w.all[i].ended |= w.all[i].has_run;
        settle();
    }
    check_all();
    client_free(w.client);
    kit_free_all(w.kit);
    for (size_t i = 0; i < w.n; i++) {
        buf_done(&w.all[i].said);
        buf_done(&w.all[i].heard);
    }
}

static void test_survivors_of_random_lives_agree_with_their_own_logs(void **state)
{
    unsigned crashes = 0, said = 0, sent = 0;
    (void)state;
    w.random = t_seed();
    for (int life = 0; life < 40; life++) {
        begin();
        for (int i = 0; i < 1500; i++) {
            step();
            if (chance(1))
                crash();
            if (t_random(&w.random) % 4000 == 0)
                post("cancel", any(), "cancel", "");
        }
        crashes += w.crashes;
        sent += (unsigned)w.n_sent;
        for (size_t i = 0; i < w.n; i++)
            said += w.all[i].n;
        end();
    }
    print_message("%u crashes, %u things said, %u sent\n", crashes, said, sent);
    assert_true(crashes > 200 && said > 1000 && sent > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_survivors_of_random_lives_agree_with_their_own_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
