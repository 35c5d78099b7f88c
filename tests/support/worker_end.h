/* worker_end -- workers against a whole hub, without sockets: the test is the other end of each
 * connection, and steps the store by hand.
 *
 * Shape:    for one test file each, hence static.  setup and teardown go around each test: a hub
 *           whose two agents workers serve, a client, and two ends.
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_WORKER_END_H
#define TESTS_SUPPORT_WORKER_END_H

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

static inline void end_wake(void *arg)
{
    (void)arg;
}

static inline void end_hold(void *arg, bool on)
{
    ((struct end *)arg)->held = on;
}

static inline void end_close(void *arg, enum close_code code)
{
    ((struct end *)arg)->closed = code;
}

static inline void end_gone(void *arg)
{
    ((struct end *)arg)->instance = NULL;
}

static inline const char *end_hello(struct end *e, const char *line)
{
    const struct worker_wire wire = {
        .wake = end_wake, .hold = end_hold, .close = end_close, .gone = end_gone, .arg = e};
    struct worker_frame f;
    enum error error;
    const char *why = "";
    worker_frame_decode(&decoder, str_of(line), &f);
    assert_int_equal(f.kind, WORKER_HELLO);
    e->instance = workers_hello(workers, &decoder, &f, &wire, &error, &why);
    return e->instance ? "" : why;
}

/* name: of the instance; open: of its hello. */
static inline void end_join(struct end *e, const char *name, int runs, const char *open)
{
    char line[4096];
    snprintf(line, sizeof line,
             json("{'type':'hello','worker':'gpu','secret':'" SECRET "','instance':'%s',"
                  "'agents':['first','second'],'runs':%d,'open':{%s}}"),
             name, runs, open);
    assert_string_equal(end_hello(e, line), "");
}

static inline void end_say(struct end *e, const char *line)
{
    struct worker_frame f;
    worker_frame_decode(&decoder, str_of(line), &f);
    instance_take(e->instance, &f, str_of(line));
    instance_taken(e->instance);
}

static inline void end_says(struct end *e, const char *run, int n, const char *members)
{
    char line[512];
    snprintf(line, sizeof line, json("{'run':'%s','n':%d,%s}"), run, n, members);
    end_say(e, line);
}

static inline void end_token(struct end *e, const char *run, int n, const char *text)
{
    char members[128];
    snprintf(members, sizeof members, json("'event':'token','data':{'text':'%s'}"), text);
    end_says(e, run, n, members);
}

static inline void end_cut(struct end *e)
{
    if (e->instance)
        instance_lost(e->instance);
    e->instance = NULL;
}

/* The next frame; "" when there is none. */
static inline const char *end_next(struct end *e)
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

static inline void end_expect(struct end *e, const char *part)
{
    const char *line = end_next(e);
    if (!strstr(line, part) || !*line)
        fail_msg("wanted %s, got %s", part, line);
}

static inline void end_expect_nothing(struct end *e)
{
    assert_string_equal(end_next(e), "");
}

static inline void end_done(struct end *e)
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

static inline void open_workers(void)
{
    struct buf faults = {0};
    workers = workers_open(&config, &kit->hub, &faults);
    assert_non_null(workers);
    for (size_t i = 0; i < 2; i++)
        settings[i] = (struct worker_agent){workers, served[i], 60000, i == 1};
}

static bool was_resuming;

/* kill -9 of the gateway, and a start.  The ends' connections are cut, and ann comes again. */
static inline void crash(void)
{
    static int status;
    status = 1;
    client_free(ann);
    workers_stop(workers);
    kit_close_hub(kit);
    workers_close(workers);
    open_workers();
    kit_open_hub(kit);
    workers_start(workers);
    hub_restore(&kit->hub, kit_on_ready, &status);
    while (status != 0) {
        kit_turn(kit);
        (void)kit_step(kit);
    }
    was_resuming = workers_are_resuming(workers); /* its port would be open from here on */
    kit_settle(kit);
    assert_false(workers_are_resuming(workers));
    ann = client_new(kit, "ann");
}

static inline int setup(void **state)
{
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
    open_workers();
    workers_start(workers);
    for (size_t i = 0; i < 2; i++) {
        kit->agents[i].ops = &agent_worker_ops;
        kit->agents[i].settings = &settings[i];
        kit->agents[i].is_process = false;
        kit->agents[i].goes_on = kit->agents[i].outlives = true;
    }
    ann = client_new(kit, "ann");
    return 0;
}

static inline int teardown(void **state)
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
static inline const char *ask(struct client *c, const char *agent)
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

static inline void expect_end(struct client *c, const char *part)
{
    kit_settle(kit);
    const char *line;
    do
        line = client_await(c, json("'event'"));
    while (!strstr(line, "task.completed") && !strstr(line, "task.failed"));
    if (!strstr(line, part))
        fail_msg("wanted %s, got %s", part, line);
}

/* The tests, with the secret's file around them. */
static inline int worker_end_run(const struct CMUnitTest *tests, size_t n)
{
    log_open(LEVEL_ERROR, FORMAT_LOGFMT);
    if (!mkdtemp(folder))
        return 1;
    snprintf(secret_file, sizeof secret_file, "%s/secret", folder);
    int fd = open(secret_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool written = write(fd, SECRET "\n", strlen(SECRET) + 1) > 0;
    close(fd);
    int failed = written ? _cmocka_run_group_tests("workers", tests, n, NULL, NULL) : 1;
    unlink(secret_file);
    rmdir(folder);
    return failed;
}

#endif
