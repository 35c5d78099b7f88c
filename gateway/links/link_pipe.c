/* Pipes: exchanges over HTTP whose bytes go to the owner's home and back, and the lines of workers
 * (gateway/workers/worker_doors.h).  At the front an exchange is behind it (gateway/front/relay.h);
 * at the home a pair of sockets, of which the front there has one end and takes it for a client's.
 * Each direction has a window, so a link carries no more than LINK_WINDOW of a pipe whose reader
 * stands still. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/links/links_private.h"

#define PIPES_MOST 256 /* of one link */
#define PIPE_READ 65536

struct pipe {
    struct on_link on;
    int64_t room;        /* bytes that the other side still takes */
    size_t taken;        /* bytes that it does not know to be out */
    struct links *links; /* they outlive it */
    /* At the front, and at both ends for a worker. */
    const struct pipe_user *user;
    void *arg;
    bool waits; /* for room */
    /* At the home. */
    uv_pipe_t socket;
    uv_write_t write;
    struct buf waiting, flying;
    bool reads, writes, over;
};

static void pipe_say(struct pipe *p, enum link_kind kind, uint64_t n)
{
    link_say(p->on.link, &(struct link_frame){.kind = kind, .id = p->on.id, .number = {n}});
}

static struct pipe *pipe_new(struct link *k, uint32_t id)
{
    struct pipe *p = xcalloc(sizeof *p);
    p->links = k->links;
    p->on.id = id;
    p->room = LINK_WINDOW;
    link_register(k, &k->pipes, &k->all_pipes, &p->on);
    k->links->stats.pipes++;
    return p;
}

static void pipe_leave(struct pipe *p)
{
    struct link *k = p->on.link;
    link_unregister(&k->pipes, &p->on);
    k->links->stats.pipes--;
}

static void pipe_took(struct pipe *p, size_t bytes)
{
    p->taken += bytes;
    if (p->taken < LINK_WINDOW_STEP)
        return;
    pipe_say(p, LINK_TOOK, p->taken);
    p->taken = 0;
}

static void say_bytes(struct pipe *p, struct str bytes)
{
    link_say(p->on.link, &(struct link_frame){.kind = LINK_BYTES, .id = p->on.id, .bytes = bytes});
    p->room -= (int64_t)bytes.n;
}

/* Those of a crew's home have ids of their own. */
#define HOME_IDS 0x80000000u

static bool link_is_of_crews_front(const struct link *k)
{
    return k->links->o.is_crew && !k->peer && k->state == LINK_UP;
}

/* --- at the front ----------------------------------------------------------------------------- */

static struct pipe *open_over(struct link *k, const struct link_frame *f,
                              const struct pipe_user *user, void *user_arg)
{
    struct link_frame named = *f;
    if (!k || link_is_full(k))
        return NULL;
    struct pipe *p = pipe_new(k, ++k->next_id | (k->peer ? 0 : HOME_IDS));
    p->user = user;
    p->arg = user_arg;
    named.id = p->on.id;
    link_say(k, &named);
    return p;
}

static struct pipe *open_pipe(void *arg, struct str owner, const char *from,
                              const struct pipe_user *user, void *user_arg)
{
    const struct link_frame f = {.kind = LINK_PIPE,
                                 .flags = from ? 0 : LINK_IS_OPERATOR,
                                 .text = {owner, from ? str_of(from) : STR("")}};
    return open_over(front_link(arg, owner), &f, user, user_arg);
}

static struct pipe *open_to_node(struct link *k, uint8_t flag, const struct pipe_user *user,
                                 void *user_arg)
{
    const struct link_frame f = {.kind = LINK_PIPE, .flags = flag, .text = {STR(""), STR("")}};
    return open_over(k, &f, user, user_arg);
}

static struct pipe *open_worker(void *arg, uint64_t node, const struct pipe_user *user,
                                void *user_arg)
{
    return open_to_node(link_to(arg, node), LINK_IS_WORKER, user, user_arg);
}

/* The one that was accepted last: others are of lives before. */
static struct link *link_of_front(struct links *l, uint64_t node)
{
    struct link *last = NULL;
    list_each (it, &l->all) {
        struct link *k = list_item(it, struct link, all);
        if (link_is_of_crews_front(k) && k->incarnation == node)
            last = k;
    }
    return last;
}

static struct pipe *open_operator(void *arg, uint64_t node, const struct pipe_user *user,
                                  void *user_arg)
{
    struct link *k = link_to(arg, node);
    return open_to_node(k ? k : link_of_front(arg, node), LINK_IS_OPERATOR, user, user_arg);
}

static void each_front(void *arg, void (*visit)(void *arg, uint64_t node, const char *name),
                       void *visit_arg)
{
    struct links *l = arg;
    list_each (it, &l->all) {
        const struct link *k = list_item(it, struct link, all);
        if (link_is_of_crews_front(k) && link_of_front(l, k->incarnation) == k)
            visit(visit_arg, k->incarnation, k->name);
    }
}

static void each_node(void *arg, void (*visit)(void *arg, uint64_t node), void *visit_arg)
{
    struct links *l = arg;
    list_each (it, &l->peers) {
        const struct peer *p = list_item(it, struct peer, all);
        if (link_to(l, p->incarnation))
            visit(visit_arg, p->incarnation);
    }
}

static bool write_pipe(struct pipe *p, struct str bytes)
{
    say_bytes(p, bytes);
    p->waits = p->room <= 0;
    return !p->waits;
}

static void close_pipe(struct pipe *p)
{
    pipe_say(p, LINK_END, 0);
    pipe_leave(p);
    free(p);
}

void pipe_port_init(struct links *l)
{
    l->pipes = (struct pipe_port){.arg = l,
                                  .open = open_pipe,
                                  .open_worker = open_worker,
                                  .open_operator = open_operator,
                                  .each = each_node,
                                  .each_front = each_front,
                                  .write = write_pipe,
                                  .took = pipe_took,
                                  .close = close_pipe};
}

static void pipe_ended(struct pipe *p)
{
    const struct pipe_user *user = p->user;
    void *arg = p->arg;
    pipe_leave(p);
    free(p);
    user->ended(arg);
}

static void give_pipe_room(struct pipe *p)
{
    if (!p->waits || p->room <= 0)
        return;
    p->waits = false;
    p->user->room(p->arg);
}

/* --- at the home ------------------------------------------------------------------------------ */

static void on_socket_closed(uv_handle_t *handle)
{
    struct pipe *p = handle->data;
    struct links *l = p->links;
    buf_done(&p->waiting);
    buf_done(&p->flying);
    free(p);
    links_handle_gone(l);
}

/* Bytes that wait for the socket are lost with it: its reader is gone. */
static void close_socket(struct pipe *p)
{
    p->over = true;
    pipe_leave(p);
    uv_close((uv_handle_t *)&p->socket, on_socket_closed);
}

static void end_socket(struct pipe *p)
{
    pipe_say(p, LINK_END, 0);
    close_socket(p);
}

static void write_socket(struct pipe *p);

static void on_socket_written(uv_write_t *write, int status)
{
    struct pipe *p = write->data;
    size_t n = p->flying.len;
    p->writes = false;
    buf_clear(&p->flying);
    if (p->over)
        return;
    if (status < 0) {
        end_socket(p);
        return;
    }
    pipe_took(p, n);
    write_socket(p);
}

static void write_socket(struct pipe *p)
{
    if (p->writes || p->waiting.len == 0)
        return;
    struct buf empty = p->flying;
    p->flying = p->waiting;
    p->waiting = empty;
    uv_buf_t bytes = uv_buf_init(p->flying.bytes, (unsigned)p->flying.len);
    p->write.data = p;
    p->writes = true;
    if (uv_write(&p->write, (uv_stream_t *)&p->socket, &bytes, 1, on_socket_written) < 0) {
        p->writes = false;
        end_socket(p);
    }
}

static void on_socket_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct pipe *p = handle->data;
    (void)suggested;
    size_t n = p->room < PIPE_READ ? (size_t)p->room : PIPE_READ;
    *ret = uv_buf_init(p->links->read, (unsigned)n);
}

static void hold_socket(struct pipe *p)
{
    if (p->reads)
        (void)uv_read_stop((uv_stream_t *)&p->socket);
    p->reads = false;
}

/* Its end is the end of the answer. */
static void on_socket_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *from)
{
    struct pipe *p = stream->data;
    if (n < 0) {
        end_socket(p);
        return;
    }
    say_bytes(p, (struct str){from->base, (size_t)n});
    if (p->room <= 0 || link_is_full(p->on.link))
        hold_socket(p);
}

static void read_socket(struct pipe *p)
{
    if (p->reads || p->room <= 0 || link_is_full(p->on.link))
        return;
    p->reads = uv_read_start((uv_stream_t *)&p->socket, on_socket_alloc, on_socket_read) == 0;
    if (!p->reads)
        end_socket(p);
}

/* False: there are no descriptors. */
static bool open_socket(struct pipe *p, const char *from)
{
    struct links *l = p->links;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    ASSERT(uv_pipe_init(l->o.loop, &p->socket, 0) == 0);
    p->socket.data = p;
    l->n_handles++;
    if (uv_pipe_open(&p->socket, ends[0]) < 0) {
        close(ends[0]);
        close(ends[1]);
        end_socket(p);
        return true;
    }
    l->o.adopt(l->o.arg, ends[1], from); /* closes it when it cannot: then the pipe ends */
    return true;
}

/* No owner: an operator asks this node. */
static bool pipe_is_served(struct links *l, const struct link_frame *f)
{
    bool is_nodes = f->flags & LINK_IS_OPERATOR && f->text[0].n == 0;
    return is_nodes || l->o.is_here(l->o.arg, f->text[0]);
}

/* A front opens them, and a crew's home, for its operator. */
static bool may_open(const struct link *k, const struct link_frame *f)
{
    bool is_crews = k->links->o.is_crew && f->id >= HOME_IDS && f->flags == LINK_IS_OPERATOR;
    return (!k->peer || (is_crews && f->text[0].n == 0)) && !link_find(&k->pipes, f->id);
}

static void take_pipe(struct link *k, const struct link_frame *f)
{
    struct links *l = k->links;
    char from[128];
    if (!may_open(k, f)) {
        link_close(k, LINK_END_BROKEN, "a pipe that no front opens");
        return;
    }
    struct pipe *p = pipe_new(k, f->id);
    snprintf(from, sizeof from, "%.*s", (int)f->text[1].n, f->text[1].p);
    bool open = f->flags & LINK_IS_WORKER
                    ? l->o.take_worker && l->o.take_worker(l->o.arg, p, &p->user, &p->arg)
                    : l->o.adopt && pipe_is_served(l, f) && k->pipes.n <= PIPES_MOST &&
                          open_socket(p, f->flags & LINK_IS_OPERATOR ? NULL : from);
    if (open)
        return;
    pipe_say(p, LINK_END, 0);
    pipe_leave(p);
    free(p);
}

/* --- both ------------------------------------------------------------------------------------- */

static void take_bytes(struct pipe *p, struct str bytes)
{
    if (p->user) {
        p->user->bytes(p->arg, bytes);
        return;
    }
    if (p->waiting.len + p->flying.len + bytes.n > LINK_WINDOW + LINK_BACKLOG) {
        link_close(p->on.link, LINK_END_BROKEN, "more of a pipe than its window");
        return;
    }
    buf_putstr(&p->waiting, bytes);
    write_socket(p);
}

static void take_took(struct pipe *p, uint64_t n)
{
    p->room += n <= LINK_MOST ? (int64_t)n : 0;
    if (p->user)
        give_pipe_room(p);
}

static void take_pipe_end(struct pipe *p)
{
    if (p->user)
        pipe_ended(p);
    else
        close_socket(p);
}

bool pipe_take(struct link *k, const struct link_frame *f)
{
    struct on_link *on = f->kind == LINK_PIPE ? NULL : link_find(&k->pipes, f->id);
    struct pipe *p = on ? container_of(on, struct pipe, on) : NULL; /* NULL also when it is over */
    switch (f->kind) {
    case LINK_PIPE: take_pipe(k, f); return true;
    case LINK_BYTES:
        if (p)
            take_bytes(p, f->bytes);
        return true;
    case LINK_TOOK:
        if (p)
            take_took(p, f->number[0]);
        return true;
    case LINK_END:
        if (p)
            take_pipe_end(p);
        return true;
    default: return false;
    }
}

void pipes_turn(struct link *k)
{
    list_each (it, &k->all_pipes) {
        struct pipe *p = container_of(list_item(it, struct on_link, all), struct pipe, on);
        if (!p->user)
            read_socket(p);
    }
}

void pipes_end(struct link *k)
{
    while (!list_is_empty(&k->all_pipes)) {
        struct on_link *on = list_item(k->all_pipes.next, struct on_link, all);
        take_pipe_end(container_of(on, struct pipe, on));
    }
}
