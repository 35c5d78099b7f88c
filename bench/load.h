/* load -- what the modes of the load generator share.
 *
 * Shape:    load_login signs in as a guest and keeps its token; the modes then open connections
 *           that send load_hello(); load_wait runs until a counter has reached its value.  A state
 *           file carries the token and the tasks from the run that made them to those that replay
 *           them.
 * Thread:   one.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "client.h"

struct options {
    const char *mode, *url, *state, *agent, *socket, *face;
    int64_t conns, tasks, events, bytes, burst, interval_ms, window, repeat, warm, connecting, pid,
        idle, seconds, timeout_s, spin, coalesce, skip, per, alone;
};

struct task_ref {
    char id[TASK_ID + 1];
    char conversation[32];
    uint64_t head;
};

/* Durations in ms. */
struct samples {
    double *at;
    size_t n, cap;
};

extern struct options options;
extern char load_token[2048];
extern struct task_ref *load_tasks;
extern size_t n_load_tasks;

struct client *load_login(void); /* connection 0, welcomed */
const char *load_hello(void);    /* the line, without a newline */
void load_open(uint32_t n);      /* that many connections, each welcomed */
void load_wait(const uint64_t *counter, uint64_t value, const char *what);
void load_rest(int ms); /* serves the sockets for that long */
bool load_is(const char *line, const char *type);
void load_unexpected(const struct client *c, const char *line); /* ends the process with an error */
const char *load_source(int64_t events,
                        int64_t interval_ms); /* the input of a source agent, escaped */
double load_server_cpu(void); /* CPU seconds of the process --pid, all threads; 0 without --pid */
void load_read_state(void);
void load_write_state(void);
struct task_ref *load_add_task(const char *started);
void load_resume(struct client *c, const struct task_ref *t, bool with_hello);

/* The generator as the agent, through --socket: a short final answer instead of the joined tokens.
 * An agent is the descriptor of its pipe, which agent_finish closes. */
void agent_listen(void);
int agent_accept(void);
void agent_say_tokens(int fd, uint64_t n);
void agent_finish(int fd);

void sample(struct samples *s, double ms);
double percentile(struct samples *s, double p); /* sorts */

void run_many(void);
void run_fanout(void);
void run_turns(void);
void run_latency(void);
void run_cancel(void);
void run_make(void);
void run_replay(void);
void run_storm(void);
void run_idle(void);
void run_live(void);
void run_replay_face(void);
void run_many_face(void);

#endif
