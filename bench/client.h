/* client -- many WebSocket clients of holdfast.v1 in one thread, as cheap as possible.
 *
 * Shape:    client_open queues a connection; clients_turn waits for sockets and calls the mode's
 *           functions; client_send sends lines as one masked message.  Server messages are read
 *           into one shared buffer and parsed in place, line by line; for an event line only the
 *           head is parsed.
 * Thread:   one.
 * Checks:   every event's seq is the one after the last (or its from, when events are merged) and
 *           its task is the connection's own; nothing follows a terminal event.  A breach ends the
 *           process.
 * Errors:   none are returned: an error is printed on stderr and ends the process with 1.
 */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TASK_ID 26

struct event {
    uint64_t seq, from;
    int64_t ts;
    bool is_token, is_terminal;
    size_t bytes; /* of the line, if it arrived whole; otherwise those so far */
};

struct client {
    int fd;
    enum { CLIENT_QUEUED, CLIENT_CONNECTING, CLIENT_UPGRADING, CLIENT_OPEN } state;
    uint32_t number;
    /* the current frame */
    unsigned char head[14];
    uint8_t n_head, opcode;
    bool fin;
    uint64_t left;
    /* the current line: its beginning, when it is not whole yet */
    char *carry;
    uint32_t n_carry;
    /* the task that it follows */
    char task_id[TASK_ID + 1];
    bool ended;
    uint64_t seq;
    /* the mode's own */
    int64_t begun_ns, done_ns;
    uint64_t n;
    unsigned step;
};

/* The functions of a mode; each may be NULL. */
struct client_ops {
    void (*on_open)(struct client *c);
    void (*on_event)(struct client *c, const struct event *e);
    void (*on_line)(struct client *c, const char *line); /* any other, cut at 4 KiB */
    void (*on_fd)(uint32_t tag);                         /* of clients_watch */
};

extern struct client_ops client_ops;
extern uint64_t client_bytes; /* payload bytes received, all connections */
extern uint64_t client_reads; /* reads that returned data */
extern uint32_t clients_open; /* upgraded connections */

void clients_init(const char *host_port, uint32_t max, uint32_t max_connecting, bool spin);
struct client *client_open(void);
void client_send(struct client *c, const char *lines, size_t n);
void client_sendf(struct client *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void client_follow(struct client *c, const char *task_id, uint64_t after);
void client_close(struct client *c); /* with RST, so that thousands leave no TIME_WAIT */
void clients_watch(int fd, uint32_t tag);
void clients_turn(int timeout_ms);

int64_t now_ns(void);
double wall_ms(void);
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* The string after "name":" in line, cut at size; false when there is none. */
bool text_field(const char *line, const char *name, char *ret, size_t size);
/* The last "name":N in line, or -1. */
int64_t int_field(const char *line, const char *name);

#endif
