/* Workers against a whole hub, without sockets: the test is the other end of each connection, and
 * steps the store by hand. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/agents/workers.h"
#include "gateway/base/log.h"
#include "tests/support/hub_kit.h"

#define SECRET "a secret of a worker"

/* A connection's other end: a worker that the test plays. */
struct end {
    struct instance *instance; /* NULL: cut, or another end has it */
    struct buf got;            /* frames, each with a newline */
    size_t seen;
    bool held;
    enum close_code closed;
};

static struct config config;
static struct config_worker listed[2];
static char *served[] = {"first", "second", NULL};
static char folder[] = "/tmp/workers-test-XXXXXX";
static char secret_file[64];
static struct workers *workers;
static struct worker_agent settings[2];
static struct worker_decoder decoder;

/* --- the other end ---------------------------------------------------------------------------- */

static void end_wake(void *arg)
{
    (void)arg;
}

static void end_hold(void *arg, bool on)
{
    ((struct end *)arg)->held = on;
}

static void end_close(void *arg, enum close_code code)
{
    ((struct end *)arg)->closed = code;
}

static void end_gone(void *arg)
{
    ((struct end *)arg)->instance = NULL;
}

static const char *end_hello(struct end *e, const char *line)
{
    const struct worker_wire wire = {end_wake, end_hold, end_close, end_gone, e};
    struct worker_frame f;
    enum error error;
    const char *why = "";
    worker_frame_decode(&decoder, str_of(line), &f);
    assert_int_equal(f.kind, WORKER_HELLO);
    e->instance = workers_hello(workers, &decoder, &f, &wire, &error, &why);
    return e->instance ? "" : why;
}

/* name: of the instance; open: of its hello. */
static void end_join(struct end *e, const char *name, int runs, const char *open)
{
    char line[4096];
    snprintf(line, sizeof line,
             json("{'type':'hello','worker':'gpu','secret':'" SECRET "','instance':'%s',"
                  "'agents':['first','second'],'runs':%d,'open':{%s}}"),
             name, runs, open);
    assert_string_equal(end_hello(e, line), "");
}

static void end_say(struct end *e, const char *line)
{
    struct worker_frame f;
    worker_frame_decode(&decoder, str_of(line), &f);
    instance_take(e->instance, &f, str_of(line));
    instance_taken(e->instance);
}

static void end_says(struct end *e, const char *run, int n, const char *members)
{
    char line[512];
    snprintf(line, sizeof line, json("{'run':'%s','n':%d,%s}"), run, n, members);
    end_say(e, line);
}

static void end_token(struct end *e, const char *run, int n, const char *text)
{
    char members[128];
    snprintf(members, sizeof members, json("'event':'token','data':{'text':'%s'}"), text);
    end_says(e, run, n, members);
}

static void end_cut(struct end *e)
{
    if (e->instance)
        instance_lost(e->instance);
    e->instance = NULL;
}

/* The next frame; "" when there is none. */
static const char *end_next(struct end *e)
{
    static char line[8192];
    while (e->instance && instance_fill(e->instance, &e->got, MAX_MESSAGE_OUT))
        ;
    const char *at = e->got.len > e->seen ? e->got.bytes + e->seen : "";
    size_t n = strcspn(at, "\n");
    assert_true(n < sizeof line);
    memcpy(line, at, n);
    line[n] = 0;
    e->seen += n + (n > 0);
    return line;
}

static void end_expect(struct end *e, const char *part)
{
    const char *line = end_next(e);
    if (!strstr(line, part) || !*line)
        fail_msg("wanted %s, got %s", part, line);
}

static void end_expect_nothing(struct end *e)
{
    assert_string_equal(end_next(e), "");
}

static void end_done(struct end *e)
{
    end_cut(e);
    buf_done(&e->got);
    *e = (struct end){0};
}

/* --- the scene -------------------------------------------------------------------------------- */

static struct kit *kit;
static struct client *ann;
static struct end one, two;
static int n_asked;
static char run_id[TASK_ID_LEN + 1];

static int setup(void **state)
{
    struct buf faults = {0};
    (void)state;
    listed[0] = (struct config_worker){.name = "gpu",
                                       .secret_file = secret_file,
                                       .agents = {served, 2},
                                       .runs = 100,
                                       .instances = 3};
    listed[1] = (struct config_worker){.name = "cpu",
                                       .secret_file = secret_file,
                                       .agents = {served, 1},
                                       .runs = 1,
                                       .instances = 3};
    config = (struct config){.workers = listed, .n_workers = 2, .worker_grace_s = 30};
    kit = kit_new();
    workers = workers_open(&config, &kit->hub, &faults);
    assert_non_null(workers);
    workers_start(workers);
    for (size_t i = 0; i < 2; i++) {
        settings[i] = (struct worker_agent){workers, served[i], 60000, i == 1};
        kit->agents[i].ops = &agent_worker_ops;
        kit->agents[i].settings = &settings[i];
        kit->agents[i].is_process = false;
    }
    ann = client_new(kit, "ann");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    end_done(&one);
    end_done(&two);
    client_free(ann);
    workers_stop(workers);
    kit_free_all(kit);
    workers_close(workers);
    worker_decoder_done(&decoder);
    return 0;
}

/* A chat in a conversation of its own; run_id is its task's. */
static const char *ask(struct client *c, const char *agent)
{
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'chat','conversation_id':'c%d','message':'hi','agent':'%s'}"), ++n_asked,
             agent);
    client_say(c, line);
    snprintf(run_id, sizeof run_id, "%s",
             line_field(client_await(c, json("'started'")), "task_id"));
    return run_id;
}

static void expect_end(struct client *c, const char *part)
{
    kit_settle(kit);
    const char *line;
    do
        line = client_await(c, json("'event'"));
    while (!strstr(line, "task.completed") && !strstr(line, "task.failed"));
    if (!strstr(line, part))
        fail_msg("wanted %s, got %s", part, line);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_ack_comes_with_the_commit_and_not_before(void **state)
{
    (void)state;
    end_join(&one, "i", 4, "");
    end_expect(&one, json("{'type':'welcome','grace_s':30,'open':{}}"));
    ask(ann, "first");
    end_expect(&one, json("'type':'run'"));
    end_token(&one, run_id, 1, "a");
    end_token(&one, run_id, 2, "b");
    kit_turn(kit);
    end_expect_nothing(&one);
    kit_settle(kit);
    end_expect(&one, json("'type':'ack'")); /* one for both */
    end_says(&one, run_id, 3, json("'end':'done'"));
    kit_turn(kit);
    end_expect_nothing(&one);
    kit_settle(kit);
    end_expect(&one, json("{'type':'gone','run':'"));
    expect_end(ann, json("'output':'ab'"));
    end_expect_nothing(&one);
}

static void test_failing_commits_are_never_acknowledged(void **state)
{
    (void)state;
    end_join(&one, "i", 4, "");
    end_expect(&one, "welcome");
    ask(ann, "first");
    end_expect(&one, json("'type':'run'"));
    kit_fault.point = KIT_COMMIT;
    kit_fault.first = kit_passed[KIT_COMMIT] + 1;
    kit_fault.times = 1000000;
    kit_fault.error = STORE_IO;
    end_token(&one, run_id, 1, "a");
    kit_settle(kit);
    assert_false(one.held); /* nobody has said more since */
    end_token(&one, run_id, 2, "b");
    kit_settle(kit);
    assert_true(one.held);
    end_expect_nothing(&one);
    kit_fault.times = 0;
    for (int i = 0; i < 20; i++)
        kit_pass(kit, 1000);
    end_expect(&one, json("'n':2}"));
    assert_false(one.held);
}

static void test_commits_that_are_given_up_end_the_run(void **state)
{
    (void)state;
    end_join(&one, "i", 4, "");
    end_expect(&one, "welcome");
    ask(ann, "first");
    end_expect(&one, json("'type':'run'"));
    kit_fault.point = KIT_COMMIT;
    kit_fault.first = kit_passed[KIT_COMMIT] + 1;
    kit_fault.times = 1000000;
    kit_fault.error = STORE_IO;
    end_token(&one, run_id, 1, "a");
    for (int i = 0; i < 60; i++)
        kit_pass(kit, 1000);
    kit_fault.times = 0;
    for (int i = 0; i < 60; i++)
        kit_pass(kit, 1000);
    expect_end(ann, json("'code':'internal'"));
    const char *line = end_next(&one);
    while (*line && !strstr(line, "gone"))
        line = end_next(&one);
    assert_non_null(strstr(line, "gone"));
}

static void test_owner_with_the_fewest_runs_is_next(void **state)
{
    struct client *bob = client_new(kit, "bob");
    char ids[6][TASK_ID_LEN + 1];
    (void)state;
    for (int i = 0; i < 5; i++)
        snprintf(ids[i], sizeof ids[i], "%s", ask(ann, "first"));
    snprintf(ids[5], sizeof ids[5], "%s", ask(bob, "first"));
    assert_int_equal(workers_waiting(workers), 6);
    end_join(&one, "i", 2, "");
    end_expect(&one, "welcome");
    end_expect(&one, ids[0]);
    end_expect(&one, ids[5]); /* bob's only one, before four of ann's that came earlier */
    end_says(&one, ids[5], 1, json("'end':'done'"));
    kit_settle(kit);
    end_expect(&one, "gone");
    end_expect(&one, ids[1]);
    client_free(bob);
}

static void test_run_goes_where_most_room_is(void **state)
{
    (void)state;
    end_join(&one, "small", 1, "");
    end_join(&two, "large", 3, "");
    for (int i = 0; i < 5; i++)
        ask(ann, "first");
    struct worker_view v = workers_view(workers, 0);
    assert_int_equal(v.runs, 4);
    assert_int_equal(v.instances, 2);
    assert_int_equal(workers_waiting(workers), 1);
    int n[2] = {0};
    for (const char *line; *(line = end_next(&one)) != 0;)
        n[0] += strstr(line, json("'type':'run'")) != NULL;
    for (const char *line; *(line = end_next(&two)) != 0;)
        n[1] += strstr(line, json("'type':'run'")) != NULL;
    assert_int_equal(n[0], 1);
    assert_int_equal(n[1], 3);
}

static void test_worker_gets_no_more_than_its_runs(void **state)
{
    (void)state;
    const char *hello = json("{'type':'hello','worker':'cpu','secret':'" SECRET
                             "','instance':'i','agents':['first'],'runs':9}");
    assert_string_equal(end_hello(&one, hello), "");
    ask(ann, "first");
    ask(ann, "first");
    assert_int_equal(workers_view(workers, 1).runs, 1);
    ask(ann, "second"); /* which it does not serve */
    assert_int_equal(workers_waiting(workers), 2);
}

static void test_hellos_that_are_refused(void **state)
{
#define HELLO                                                                           \
    json("{'type':'hello','worker':'%s','secret':'%s','instance':'%s','agents':['%s']," \
         "'runs':1}")
    const struct {
        const char *worker, *secret, *agent, *why;
    } rows[] = {
        {"gpu", SECRET "x", "first", "the worker's name or secret is wrong"},
        {"gpu", "a", "first", "the worker's name or secret is wrong"},
        {"tpu", SECRET, "first", "the worker's name or secret is wrong"},
        {"gpu", SECRET, "third", "\"agents\" has one that is not among the agents of this worker"},
        {"cpu", SECRET, "second", "\"agents\" has one that is not among the agents of this worker"},
    };
    char line[512];
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        snprintf(line, sizeof line, HELLO, rows[i].worker, rows[i].secret, "i", rows[i].agent);
        assert_string_equal(end_hello(&one, line), rows[i].why);
    }
    assert_int_equal(workers_stats(workers)->refused, 3);
    struct end more[4] = {{0}};
    for (int i = 0; i < 4; i++) {
        char name[2] = {(char)('a' + i), 0};
        snprintf(line, sizeof line, HELLO, "gpu", SECRET, name, "first");
        assert_string_equal(end_hello(&more[i], line),
                            i < 3 ? "" : "this worker has as many instances as it may have");
    }
    for (int i = 0; i < 4; i++)
        end_done(&more[i]);
    assert_int_equal(workers_view(workers, 0).instances, 0);
}

static void test_lost_run_goes_on_elsewhere_only_if_nothing_came(void **state)
{
    char ids[3][TASK_ID_LEN + 1];
    (void)state;
    end_join(&one, "i", 4, "");
    for (int i = 0; i < 3; i++)
        snprintf(ids[i], sizeof ids[i], "%s", ask(ann, i == 2 ? "first" : "second"));
    for (const char *line; *(line = end_next(&one)) != 0;)
        ;
    char ack[128];
    snprintf(ack, sizeof ack, json("{'type':'ack','run':'%s','n':1}"), ids[0]);
    end_say(&one, ack);
    end_token(&one, ids[1], 1, "said");
    kit_settle(kit);
    end_cut(&one);
    kit_pass(kit, 29000);
    assert_int_equal(workers_view(workers, 0).away, 1);
    kit_pass(kit, 2000);
    assert_int_equal(workers_view(workers, 0).away, 0);
    expect_end(ann, json("'code':'orphaned'"));
    expect_end(ann, json("'code':'orphaned'"));
    assert_int_equal(workers_stats(workers)->lost, 3);
    end_join(&two, "other", 4, "");
    end_expect(&two, "welcome");
    end_expect(&two, ids[0]);
    end_says(&two, ids[0], 1, json("'end':'done'"));
    expect_end(ann, "task.completed");
}

/* The old worker was only cut off, and comes back when its run is another's. */
static void test_run_that_moved_is_not_its_old_workers(void **state)
{
    (void)state;
    end_join(&one, "i", 4, "");
    ask(ann, "second");
    while (*end_next(&one))
        ;
    end_cut(&one);
    kit_pass(kit, 31000);
    end_join(&two, "other", 4, "");
    end_expect(&two, "welcome");
    end_expect(&two, run_id);
    char open[64];
    snprintf(open, sizeof open, json("'%s':1"), run_id);
    end_join(&one, "i", 4, open);
    end_expect(&one, json("'open':{}"));
    end_token(&one, run_id, 1, "from the old one");
    end_expect(&one, "gone");
    end_token(&two, run_id, 1, "new");
    end_says(&two, run_id, 2, json("'end':'done'"));
    expect_end(ann, json("'output':'new'"));
}

static void test_wait_for_a_place_has_an_end_and_its_idle_clock_stands(void **state)
{
    (void)state;
    kit->agents[0].idle_timeout_ms = 1000;
    ask(ann, "first");
    kit_pass(kit, 59000);
    assert_int_equal(workers_waiting(workers), 1);
    kit_pass(kit, 2000);
    expect_end(ann, "agent_error: no worker took it within 60 s");
    ask(ann, "first");
    end_join(&one, "i", 4, "");
    while (*end_next(&one))
        ;
    end_cut(&one);
    kit_pass(kit, 20000); /* away: neither */
    end_join(&one, "i", 4, "");
    kit_pass(kit, 500);
    kit_pass(kit, 2500);
    kit_pass(kit, 6000);
    expect_end(ann, json("'code':'timeout'"));
}

/* --- cuts at random --------------------------------------------------------------------------- */

/* A worker that says count tokens, by section 10 of the protocol: it numbers, keeps and resends. */
struct model {
    struct end end;
    uint64_t received, said, count, durable, messages;
    bool welcome, begun, over;
};

static void model_line(struct model *m, uint64_t n)
{
    char text[32];
    if (!m->end.instance || m->end.closed)
        return;
    snprintf(text, sizeof text, "%d.", (int)n);
    if (n <= m->count)
        end_token(&m->end, run_id, (int)n, text);
    else
        end_says(&m->end, run_id, (int)n, json("'end':'done'"));
}

static void model_take(struct model *m, const char *line)
{
    const char *n = strstr(line, json("'n':"));
    const char *mark = strstr(line, run_id);
    if (strstr(line, json("'type':'welcome'"))) {
        m->welcome = true;
        if (m->begun && !mark)
            m->over = true;
        if (mark)
            m->durable = strtoull(mark + TASK_ID_LEN + 2, NULL, 10);
        for (uint64_t k = m->durable + 1; m->begun && mark && k <= m->said; k++)
            model_line(m, k);
    } else if (strstr(line, json("'type':'ack'"))) {
        m->durable = strtoull(n + 4, NULL, 10);
        assert_true(m->durable <= m->said);
    } else if (strstr(line, json("'type':'gone'"))) {
        m->over = true;
    } else if (n) {
        char ack[128];
        uint64_t number = strtoull(n + 4, NULL, 10);
        assert_int_equal(number, m->received + 1); /* none lost, none doubled */
        m->received = number;
        m->messages += strstr(line, json("'type':'message'")) != NULL;
        m->begun = true;
        snprintf(ack, sizeof ack, json("{'type':'ack','run':'%s','n':%d}"), run_id, (int)number);
        end_say(&m->end, ack);
    }
}

static void model_connect(struct model *m)
{
    char open[64] = "";
    m->welcome = false;
    buf_clear(&m->end.got);
    m->end.seen = 0;
    if (m->begun)
        snprintf(open, sizeof open, json("'%s':%d"), run_id, (int)m->received);
    end_join(&m->end, "model", 4, open);
}

static void send_message(void)
{
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'send','conversation_id':'c%d','task_id':'%s','content':'psst'}"),
             n_asked, run_id);
    session_receive(&ann->session, str_of(line));
}

static uint64_t count_lines(const struct client *c, const char *part)
{
    uint64_t n = 0;
    for (const char *at = c->got.bytes; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

static void random_life(uint64_t *random)
{
    struct model m = {.count = 5 + t_random(random) % 20};
    char expected[512] = "";
    ask(ann, "first");
    for (uint64_t n = 1; n <= m.count; n++)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%d.", (int)n);
    while (!m.over) {
        switch (t_random(random) % 7) {
        case 0:
            if (!m.end.instance)
                model_connect(&m);
            break;
        case 1:
            if (t_random(random) % 3 == 0)
                end_cut(&m.end);
            break;
        case 2: {
            const char *line = m.end.instance ? end_next(&m.end) : "";
            if (*line)
                model_take(&m, line);
            break;
        }
        case 3:
            if (m.begun && m.said <= m.count && m.welcome && m.end.instance)
                model_line(&m, ++m.said);
            break;
        case 4: kit_turn(kit); break;
        case 5: (void)kit_step(kit); break;
        case 6:
            if (t_random(random) % 20 == 0)
                send_message();
            break;
        }
        assert_int_equal(m.end.closed, 0);
    }
    char want[600];
    snprintf(want, sizeof want, json("'output':'%s'"), expected);
    expect_end(ann, want);
    end_done(&m.end);
    assert_true(count_lines(ann, json("'event':'message'")) <= m.messages);
    buf_clear(&ann->got);
    ann->seen = 0;
    kit_pass(kit, 5000); /* the client may ask again */
}

static void test_cuts_at_any_place_lose_and_double_nothing(void **state)
{
    uint64_t random = t_seed();
    (void)state;
    for (int i = 0; i < 2000; i++)
        random_life(&random);
    assert_true(workers_stats(workers)->returned > 2000);
    assert_int_equal(workers_stats(workers)->lost, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ack_comes_with_the_commit_and_not_before),
        TEST(test_failing_commits_are_never_acknowledged),
        TEST(test_commits_that_are_given_up_end_the_run),
        TEST(test_owner_with_the_fewest_runs_is_next),
        TEST(test_run_goes_where_most_room_is),
        TEST(test_worker_gets_no_more_than_its_runs),
        TEST(test_hellos_that_are_refused),
        TEST(test_lost_run_goes_on_elsewhere_only_if_nothing_came),
        TEST(test_run_that_moved_is_not_its_old_workers),
        TEST(test_wait_for_a_place_has_an_end_and_its_idle_clock_stands),
        TEST(test_cuts_at_any_place_lose_and_double_nothing),
    };
    log_open(LEVEL_ERROR, FORMAT_LOGFMT);
    if (!mkdtemp(folder))
        return 1;
    snprintf(secret_file, sizeof secret_file, "%s/secret", folder);
    int fd = open(secret_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool written = write(fd, SECRET "\n", strlen(SECRET) + 1) > 0;
    close(fd);
    int failed = written ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    unlink(secret_file);
    rmdir(folder);
    return failed;
}
