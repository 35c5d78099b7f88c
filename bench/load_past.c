/* The modes about past events: make, replay, storm; idle connections, live tasks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load.h"

static uint64_t n_done, n_events, n_token_bytes, n_ready;
static int64_t to_make;
static bool counting;

/* --- make ------------------------------------------------------------------------------------- */

static void chat(struct client *c, int64_t i, const char *input)
{
    client_sendf(c,
                 "{\"type\":\"chat\",\"message\":\"%s\",\"conversation_id\":\"bench-%lld\","
                 "\"agent\":\"%s\",\"background\":true}",
                 input, (long long)i, options.agent);
}

static void make_one(struct client *c)
{
    if (to_make > 0)
        chat(c, to_make--, options.socket ? options.socket : load_source(options.events, 0));
}

/* Our own agent gives a short answer: a source's is all its tokens, joined. */
static void make_as_agent(uint32_t tag)
{
    (void)tag;
    int fd = agent_accept();
    agent_say_tokens(fd, (uint64_t)options.events);
    agent_finish(fd);
}

static void make_line(struct client *c, const char *line)
{
    load_unexpected(c, line);
    if (!load_is(line, "started"))
        return;
    c->n = n_load_tasks;
    client_follow(c, load_add_task(line)->id, 0);
}

static void make_event(struct client *c, const struct event *e)
{
    if (!e->is_terminal)
        return;
    load_tasks[c->n].head = e->seq;
    n_done++;
    make_one(c);
}

void run_make(void)
{
    int64_t most = options.socket ? 4 : 32, n = options.tasks < most ? options.tasks : most;
    if (!options.state)
        die("--state FILE is needed");
    struct client *c = load_login();
    load_open((uint32_t)n - 1);
    client_ops =
        (struct client_ops){.on_line = make_line, .on_event = make_event, .on_fd = make_as_agent};
    if (options.socket)
        agent_listen();
    to_make = options.tasks;
    int64_t begun = now_ns();
    for (int64_t i = 0; i < n; i++)
        make_one(c + i);
    load_wait(&n_done, (uint64_t)options.tasks, "tasks made");
    load_write_state();
    printf("{\"seconds\":%.3f,\"tasks\":%zu,\"head\":%llu}\n", (double)(now_ns() - begun) / 1e9,
           n_load_tasks, (unsigned long long)load_tasks[0].head);
}

/* --- replay ----------------------------------------------------------------------------------- */

static void replay_event(struct client *c, const struct event *e)
{
    (void)c;
    if (!counting)
        return;
    n_events++;
    if (e->is_token)
        n_token_bytes += e->bytes + 1;
}

static void replay_line(struct client *c, const char *line)
{
    load_unexpected(c, line);
    if (!load_is(line, "caught_up"))
        return;
    const struct task_ref *t = &load_tasks[c->n];
    if (c->seq != t->head || int_field(line, "seq") != (int64_t)t->head)
        die("connection %u: caught up at %llu, the head is %llu", c->number,
            (unsigned long long)c->seq, (unsigned long long)t->head);
    c->done_ns = now_ns();
    n_done++;
}

/* One round: all resume at once, until the last one has everything.  In ns. */
static int64_t replay_round(struct client *c, int64_t round)
{
    int64_t begun = now_ns();
    n_done = 0;
    for (int64_t i = 0; i < options.conns; i++) {
        c[i].n = (size_t)(options.skip + round * options.conns + i) % n_load_tasks;
        load_resume(c + i, &load_tasks[c[i].n], false);
    }
    load_wait(&n_done, (uint64_t)options.conns, "caught up");
    return now_ns() - begun;
}

void run_replay(void)
{
    struct samples took = {0};
    load_read_state();
    struct client *c = load_login();
    load_open((uint32_t)options.conns - 1);
    client_ops = (struct client_ops){.on_line = replay_line, .on_event = replay_event};
    for (int64_t i = 0; i < options.warm; i++)
        replay_round(c, i);
    counting = true;
    uint64_t bytes = client_bytes, reads = client_reads;
    double cpu = load_server_cpu();
    int64_t total = 0;
    for (int64_t i = 0; i < options.repeat; i++) {
        int64_t ns = replay_round(c, i);
        total += ns;
        sample(&took, (double)ns / 1e6);
    }
    double s = (double)total / 1e9;
    cpu = load_server_cpu() - cpu;
    bytes = client_bytes - bytes;
    printf(
        "{\"seconds\":%.4f,\"cpu_s\":%.4f,\"events\":%llu,\"events_s\":%.0f,\"mb_s\":%.1f,\"bytes\":%llu,"
        "\"token_bytes\":%llu,\"bytes_per_read\":%.0f,\"round_p50_ms\":%.3f}\n",
        s, cpu, (unsigned long long)n_events, (double)n_events / s, (double)bytes / s / 1e6,
        (unsigned long long)bytes, (unsigned long long)n_token_bytes,
        (double)bytes / (double)(client_reads - reads), percentile(&took, 50));
}

/* --- storm ------------------------------------------------------------------------------------ */

static void storm_open(struct client *c)
{
    c->n = c->number % n_load_tasks;
    load_resume(c, &load_tasks[c->n], true);
}

void run_storm(void)
{
    struct samples own = {0}, all = {0};
    load_read_state();
    client_ops = (struct client_ops){
        .on_open = storm_open, .on_line = replay_line, .on_event = replay_event};
    counting = true;
    double cpu = load_server_cpu();
    int64_t begun = now_ns();
    struct client *c = NULL;
    for (int64_t i = 0; i < options.conns; i++) {
        struct client *next = client_open();
        c = c ? c : next;
        if (options.alone)
            load_wait(&n_done, (uint64_t)i + 1, "caught up");
    }
    load_wait(&n_done, (uint64_t)options.conns, "caught up");
    double s = (double)(now_ns() - begun) / 1e9;
    cpu = load_server_cpu() - cpu;
    for (int64_t i = 0; c && i < options.conns; i++) {
        sample(&own, (double)(c[i].done_ns - c[i].begun_ns) / 1e6);
        sample(&all, (double)(c[i].done_ns - begun) / 1e6);
    }
    printf(
        "{\"seconds\":%.4f,\"cpu_s\":%.4f,\"connections_s\":%.0f,\"events_s\":%.0f,\"own_p50_ms\":%.2f,"
        "\"own_p99_ms\":%.2f,\"since_start_p50_ms\":%.2f,\"since_start_p99_ms\":%.2f}\n",
        s, cpu, (double)options.conns / s, (double)n_events / s, percentile(&own, 50),
        percentile(&own, 99), percentile(&all, 50), percentile(&all, 99));
}

/* --- idle ------------------------------------------------------------------------------------- */

static int64_t memory_kib(const char *name)
{
    char path[64], line[256];
    int64_t kib = -1;
    size_t n = strlen(name);
    snprintf(path, sizeof path, "/proc/%lld/smaps_rollup", (long long)options.pid);
    FILE *f = fopen(path, "r");
    if (!f)
        die("cannot read %s", path);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, name, n) == 0 && line[n] == ':')
            kib = strtoll(line + n + 1, NULL, 10);
    fclose(f);
    return kib;
}

static void idle_event(struct client *c, const struct event *e)
{
    if (e->is_terminal)
        die("connection %u: its task ended", c->number);
    if (e->is_token)
        n_ready++;
}

static void idle_line(struct client *c, const char *line)
{
    load_unexpected(c, line);
    if (load_is(line, "caught_up"))
        n_done++;
}

static void idle_open(struct client *c)
{
    load_resume(c, &load_tasks[c->number % n_load_tasks], true);
}

void run_idle(void)
{
    struct client *c = load_login();
    load_open((uint32_t)options.tasks - 1);
    client_ops = (struct client_ops){.on_line = make_line, .on_event = idle_event};
    for (int64_t i = 0; i < options.tasks; i++)
        chat(c + i, i, load_source(2, 3600 * 1000));
    load_wait(&n_ready, (uint64_t)options.tasks, "live tasks");
    load_rest(1500);
    int64_t rss = memory_kib("Rss"), pss = memory_kib("Pss");
    client_ops =
        (struct client_ops){.on_open = idle_open, .on_line = idle_line, .on_event = idle_event};
    n_done = 0;
    int64_t n = options.conns - options.tasks; /* those that made the tasks exist already */
    for (int64_t i = 0; i < n; i++)
        client_open();
    load_wait(&n_done, (uint64_t)n, "caught up");
    load_rest((int)options.seconds * 1000);
    int64_t more_rss = memory_kib("Rss") - rss, more_pss = memory_kib("Pss") - pss;
    printf("{\"connections\":%lld,\"rss_bytes\":%.0f,\"pss_bytes\":%.0f,\"rss_before_mib\":%.1f,"
           "\"rss_after_mib\":%.1f}\n",
           (long long)n, (double)more_rss * 1024 / (double)n, (double)more_pss * 1024 / (double)n,
           (double)rss / 1024, (double)(rss + more_rss) / 1024);
}

/* --- live ------------------------------------------------------------------------------------- */

static int64_t to_leave; /* for the second half */

static void live_one(struct client *c)
{
    if (to_make > to_leave)
        chat(c, --to_make / options.per, load_source(2, 3600 * 1000));
}

static void live_line(struct client *c, const char *line)
{
    load_unexpected(c, line);
    if (load_is(line, "started")) {
        c->n = n_load_tasks;
        client_follow(c, load_add_task(line)->id, 0);
    } else if (load_is(line, "ok")) {
        n_done++;
        live_one(c);
    }
}

/* Its first token has arrived, or it waits for a slot: from now on it is silent, and nobody follows
 * it. */
static void live_event(struct client *c, const struct event *e)
{
    bool says_nothing = strcmp(options.agent, "source") != 0;
    if (e->is_terminal)
        die("connection %u: its task ended", c->number);
    n_token_bytes += e->bytes + 1; /* the whole tail */
    if (says_nothing ? e->seq == 1 : e->is_token)
        client_sendf(c, "{\"type\":\"unsubscribe\",\"task_id\":\"%s\",\"conversation_id\":\"%s\"}",
                     load_tasks[c->n].id, load_tasks[c->n].conversation);
}

/* Makes as many tasks, and returns what each of them takes, without its tail. */
static double live_make(struct client *c, int64_t n_clients)
{
    int64_t pss = memory_kib("Pss");
    uint64_t tails = n_token_bytes;
    to_leave = to_make - options.tasks;
    n_done = 0;
    for (int64_t i = 0; i < n_clients; i++)
        live_one(c + i);
    load_wait(&n_done, (uint64_t)options.tasks, "live tasks");
    load_rest((int)options.seconds * 1000);
    int64_t more = (memory_kib("Pss") - pss) * 1024 - (int64_t)(n_token_bytes - tails);
    return (double)more / (double)options.tasks;
}

void run_live(void)
{
    int64_t n = options.tasks < 32 ? options.tasks : 32;
    struct client *c = load_login();
    load_open((uint32_t)n - 1);
    load_rest(1000);
    client_ops = (struct client_ops){.on_line = live_line, .on_event = live_event};
    to_make = 2 * options.tasks;
    double first = live_make(c, n), more = live_make(c, n);
    printf("{\"tasks\":%lld,\"own_bytes\":%.0f,\"more_bytes\":%.0f}\n", (long long)options.tasks,
           first, more);
}
