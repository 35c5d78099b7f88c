/* The modes about live tasks: many, fanout, turns, latency, cancel. */
#include <stdio.h>
#include <stdlib.h>

#include "load.h"

static uint64_t n_started, n_ended, n_events, n_tokens, n_followed;
static int64_t first_ns, last_ns, last_token_ns;

static void chat(struct client *c, const char *input)
{
    client_sendf(c,
                 "{\"type\":\"chat\",\"message\":\"%s\",\"conversation_id\":\"bench-%u\","
                 "\"agent\":\"%s\",\"background\":true}",
                 input, c->number, options.agent);
}

/* Its own task, from seq 1. */
static void on_started(struct client *c, const char *line)
{
    load_unexpected(c, line);
    if (!load_is(line, "started"))
        return;
    client_follow(c, load_add_task(line)->id, 0);
    n_started++;
}

/* --- many ------------------------------------------------------------------------------------- */

static void many_event(struct client *c, const struct event *e)
{
    (void)c;
    if (!first_ns)
        first_ns = now_ns();
    n_events++;
    n_tokens += e->is_token;
    if (e->is_token && n_tokens == (uint64_t)(options.tasks * options.events))
        last_token_ns = now_ns();
    if (!e->is_terminal)
        return;
    n_ended++;
    last_ns = now_ns();
}

void run_many(void)
{
    char input[256];
    snprintf(input, sizeof input, "%s", load_source(options.events, options.interval_ms));
    struct client *c = load_login();
    load_open((uint32_t)options.tasks - 1);
    client_ops = (struct client_ops){.on_line = on_started, .on_event = many_event};
    uint64_t bytes = client_bytes, reads = client_reads;
    double cpu = load_server_cpu();
    for (int64_t i = 0; i < options.tasks; i++)
        chat(c + i, input);
    load_wait(&n_ended, (uint64_t)options.tasks, "terminal events");
    cpu = load_server_cpu() - cpu;
    if (n_tokens != (uint64_t)(options.tasks * options.events))
        die("%llu token events came", (unsigned long long)n_tokens);
    double s = (double)(last_ns - first_ns) / 1e9,
           token_s = (double)(last_token_ns - first_ns) / 1e9;
    printf("{\"seconds\":%.3f,\"cpu_s\":%.3f,\"events\":%llu,\"events_s\":%.0f,\"tokens_s\":%.0f,"
           "\"mb_s\":%.1f,\"events_per_read\":%.1f}\n",
           s, cpu, (unsigned long long)n_events, (double)n_events / s, (double)n_tokens / token_s,
           (double)(client_bytes - bytes) / s / 1e6,
           (double)n_events / (double)(client_reads - reads));
}

/* --- fanout ----------------------------------------------------------------------------------- */

#define RING 4096

static int agent_fd = -1;
static uint64_t n_agents, base, n_released, n_delivered, n_low, n_caught_up;
static uint32_t delivered[RING];

static void agent_comes(uint32_t tag)
{
    (void)tag;
    agent_fd = agent_accept();
    n_agents++;
}

/* Releases enough events to have window of them on their way; n_released counts. */
static void release_events(void)
{
    uint64_t n = n_low + (uint64_t)options.window;
    if (n > (uint64_t)options.events)
        n = (uint64_t)options.events;
    if (n > n_released)
        agent_say_tokens(agent_fd, n - n_released);
    n_released = n;
}

static void fanout_event(struct client *c, const struct event *e)
{
    (void)c;
    n_events++;
    if (e->is_terminal)
        n_ended++;
    if (!base || e->seq <= base || e->seq > base + (uint64_t)options.events)
        return;
    uint64_t i = e->seq - base - 1;
    n_delivered++;
    if (++delivered[i % RING] < (uint64_t)options.conns || i != n_low)
        return;
    while (n_low < n_released && delivered[n_low % RING] == (uint64_t)options.conns)
        delivered[n_low++ % RING] = 0;
    if (n_low < (uint64_t)options.events)
        release_events();
}

static void fanout_line(struct client *c, const char *line)
{
    if (load_is(line, "started"))
        on_started(c, line);
    else if (load_is(line, "caught_up"))
        n_caught_up++;
    else
        load_unexpected(c, line);
}

/* All subscribers have everything so far; later events are ours. */
static void fanout_open(void)
{
    struct client *c = load_login();
    load_open((uint32_t)options.conns - 1);
    agent_listen();
    client_ops =
        (struct client_ops){.on_line = fanout_line, .on_event = fanout_event, .on_fd = agent_comes};
    chat(c, options.socket);
    load_wait(&n_started, 1, "tasks");
    load_wait(&n_agents, 1, "agents");
    load_wait(&n_events, 2, "first events");
    for (int64_t i = 1; i < options.conns; i++)
        load_resume(c + i, load_tasks, false);
    load_wait(&n_caught_up, (uint64_t)options.conns - 1, "caught up");
    load_rest(300);
    for (int64_t i = 0; i < options.conns; i++)
        if (c[i].seq != c->seq)
            die("subscriber %lld is at %llu, not %llu", (long long)i, (unsigned long long)c[i].seq,
                (unsigned long long)c->seq);
    base = c->seq;
}

void run_fanout(void)
{
    fanout_open();
    uint64_t reads = client_reads;
    double cpu = load_server_cpu();
    first_ns = now_ns();
    release_events();
    load_wait(&n_low, (uint64_t)options.events, "events delivered to all");
    double s = (double)(now_ns() - first_ns) / 1e9;
    cpu = load_server_cpu() - cpu;
    reads = client_reads - reads;
    agent_finish(agent_fd);
    load_wait(&n_ended, (uint64_t)options.conns, "terminal events");
    printf("{\"seconds\":%.3f,\"cpu_s\":%.3f,\"deliveries\":%llu,\"deliveries_s\":%.0f,"
           "\"events_per_read\":%.1f}\n",
           s, cpu, (unsigned long long)n_delivered, (double)n_delivered / s,
           (double)n_delivered / (double)reads);
}

/* --- turns ------------------------------------------------------------------------------------ */

static int *agent_fds;

static void turns_agent(uint32_t tag)
{
    (void)tag;
    agent_fds[n_agents++] = agent_accept();
}

/* Each agent sends its next event when its subscriber has the last one. */
static void turns_event(struct client *c, const struct event *e)
{
    n_ended += e->is_terminal;
    if (!e->is_token)
        return;
    n_tokens++;
    last_token_ns = now_ns();
    if (++c->n < (uint64_t)options.events)
        agent_say_tokens(agent_fds[c->number], 1);
    else
        agent_finish(agent_fds[c->number]);
}

void run_turns(void)
{
    struct client *c = load_login();
    load_open((uint32_t)options.tasks - 1);
    agent_listen();
    agent_fds = calloc((size_t)options.tasks, sizeof *agent_fds);
    if (!agent_fds)
        die("memory");
    client_ops =
        (struct client_ops){.on_line = on_started, .on_event = turns_event, .on_fd = turns_agent};
    for (int64_t i = 0; i < options.tasks; i++) { /* one by one, to know whose agent it is */
        chat(c + i, options.socket);
        load_wait(&n_agents, (uint64_t)i + 1, "agents");
    }
    load_wait(&n_started, (uint64_t)options.tasks, "tasks");
    double cpu = load_server_cpu();
    first_ns = now_ns();
    for (int64_t i = 0; i < options.tasks; i++)
        agent_say_tokens(agent_fds[i], 1);
    load_wait(&n_tokens, (uint64_t)(options.tasks * options.events), "events");
    double s = (double)(last_token_ns - first_ns) / 1e9;
    cpu = load_server_cpu() - cpu;
    load_wait(&n_ended, (uint64_t)options.tasks, "terminal events");
    printf("{\"seconds\":%.3f,\"cpu_s\":%.3f,\"events\":%llu,\"events_s\":%.0f}\n", s, cpu,
           (unsigned long long)n_tokens, (double)n_tokens / s);
}

/* --- latency ---------------------------------------------------------------------------------- */

#define TS_CUT_MS 0.5 /* what an event's ts lacks, on average: it is in whole ms */

static struct samples took;
static int64_t count_from_ms;
static uint64_t n_counted;

static void latency_event(struct client *c, const struct event *e)
{
    (void)c;
    double now = wall_ms();
    if (e->is_terminal)
        die("task %s ended", c->task_id);
    if (!e->is_token || !count_from_ms || e->ts < count_from_ms)
        return;
    n_counted++;
    sample(&took, now - (double)e->ts - TS_CUT_MS);
}

static void follow_line(struct client *c, const char *line)
{
    load_unexpected(c, line);
    if (load_is(line, "caught_up"))
        n_followed++;
}

static void hello_and_follow(struct client *c)
{
    load_resume(c, load_tasks, true);
}

/* Idle connections follow a task that is silent for an hour. */
static void open_idle(struct client *first)
{
    client_ops = (struct client_ops){.on_line = on_started};
    chat(first, load_source(2, 3600 * 1000));
    load_wait(&n_started, 1, "tasks");
    client_ops = (struct client_ops){.on_open = hello_and_follow, .on_line = follow_line};
    for (int64_t i = 0; i < options.idle; i++)
        client_open();
    load_wait(&n_followed, (uint64_t)options.idle, "idle connections");
}

void run_latency(void)
{
    struct client *c = load_login();
    load_open((uint32_t)options.tasks);
    if (options.idle)
        open_idle(c);
    client_ops = (struct client_ops){.on_line = on_started, .on_event = latency_event};
    /* Spread over an interval, with enough time between two that they begin in separate commits:
     * tasks of one commit would speak in step for ever. */
    int64_t pause_ns = 21 * options.interval_ms * 1000000 / options.tasks;
    for (int64_t i = 0; i < options.tasks; i++) {
        int64_t next = now_ns() + pause_ns;
        chat(c + 1 + i, load_source(10000000, options.interval_ms));
        while (now_ns() < next)
            clients_turn(0);
    }
    load_wait(&n_started, (uint64_t)options.tasks + (options.idle > 0), "tasks");
    load_rest(1000);
    int64_t begun = now_ns();
    count_from_ms = (int64_t)wall_ms();
    double cpu = load_server_cpu();
    load_rest((int)options.seconds * 1000);
    cpu = load_server_cpu() - cpu;
    double s = (double)(now_ns() - begun) / 1e9;
    printf("{\"seconds\":%.3f,\"cpu_s\":%.3f,\"events\":%llu,\"events_s\":%.0f,\"p50_ms\":%.2f,"
           "\"p90_ms\":%.2f,\"p99_ms\":%.2f,\"p999_ms\":%.2f,\"max_ms\":%.2f}\n",
           s, cpu, (unsigned long long)n_counted, (double)n_counted / s, percentile(&took, 50),
           percentile(&took, 90), percentile(&took, 99), percentile(&took, 99.9),
           percentile(&took, 100));
}

/* --- cancel ----------------------------------------------------------------------------------- */

static uint64_t n_asked;

static void cancel_event(struct client *c, const struct event *e)
{
    if (e->is_terminal) {
        n_ended++;
        if (c->step)
            sample(&took, (double)(now_ns() - c->begun_ns) / 1e6);
        return;
    }
    if (!e->is_token || c->step)
        return;
    const struct task_ref *t = &load_tasks[n_load_tasks - 1];
    c->step = 1;
    c->begun_ns = now_ns();
    n_asked++;
    client_sendf(c, "{\"type\":\"cancel\",\"task_id\":\"%s\",\"conversation_id\":\"%s\"}", t->id,
                 t->conversation);
}

void run_cancel(void)
{
    struct client *c = load_login();
    client_ops = (struct client_ops){.on_line = on_started, .on_event = cancel_event};
    for (int64_t i = 0; i < options.repeat; i++) {
        c->step = 0;
        chat(c, load_source(1000000, options.interval_ms ? options.interval_ms : 20));
        load_wait(&n_ended, (uint64_t)i + 1, "cancelled tasks");
        load_rest(5);
    }
    if (n_asked < (uint64_t)options.repeat)
        die("%lld tasks ended before they could be cancelled",
            (long long)(options.repeat - (int64_t)n_asked));
    printf("{\"cancels\":%zu,\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f}\n",
           took.n, percentile(&took, 50), percentile(&took, 90), percentile(&took, 99),
           percentile(&took, 100));
}
