/* relay -- an exchange over HTTP that the owner's home answers: its bytes go there and come back.
 *
 * Shape:    files and workspaces have bodies of any length, and what they need is at the home.  The
 *           front checks who asks, as of every exchange, writes the request's head anew, and is
 *           from then on a pipe with a window each way; the home takes it for a connection of the
 *           client, and checks everything itself.  The connection ends with the answer.
 * Thread:   loop.
 * Owns:     the pipe, until its end.
 */
#ifndef GATEWAY_FRONT_RELAY_H
#define GATEWAY_FRONT_RELAY_H

#include "gateway/front/http_api.h"

struct pipe;

/* For the side that has opened a pipe.  None is called from inside the port's functions. */
struct pipe_user {
    void (*bytes)(void *arg, struct str bytes); /* say so with took when they are out */
    void (*room)(void *arg);                    /* after write said that there is none */
    void (*ended)(void *arg);                   /* the pipe is freed behind it */
};

/* To the homes of owners; the links' side of it. */
struct pipe_port {
    void *arg;
    /* NULL: the home cannot be reached.  from: the client's address, as text; NULL: it is an
     * operator's. */
    struct pipe *(*open)(void *arg, struct str owner, const char *from,
                         const struct pipe_user *user, void *user_arg);
    /* For a worker, or an operator, to a node; NULL: it cannot be reached.  And all that can. */
    struct pipe *(*open_worker)(void *arg, uint64_t node, const struct pipe_user *user,
                                void *user_arg);
    struct pipe *(*open_operator)(void *arg, uint64_t node, const struct pipe_user *user,
                                  void *user_arg);
    void (*each)(void *arg, void (*visit)(void *arg, uint64_t node), void *visit_arg);
    /* At the home of a crew: its fronts, which are no nodes but can be asked as an operator. */
    void (*each_front)(void *arg, void (*visit)(void *arg, uint64_t node, const char *name),
                       void *visit_arg);
    bool (*write)(struct pipe *p, struct str bytes); /* all of it; false: no more for now */
    void (*took)(struct pipe *p, size_t bytes);
    void (*close)(struct pipe *p); /* and frees it */
};

/* For workers that dialled other nodes. */
struct pipe_server {
    void *arg;
    /* A pipe from there: returns who uses this end. */
    void *(*open)(void *arg, struct pipe *p, const struct pipe_user **ret_user);
    void (*is_up)(void *arg); /* a node can be reached now */
};

/* When the owner is not served here: the exchange goes to the home, or was refused.  False: it is
 * for this node. */
bool relay_takes(struct exchange *x, const char *path);
/* The same of an operator's order about an owner, whose body is whole. */
bool relay_order(struct exchange *x, struct str owner);
/* An order for that other node. */
void relay_to_node(struct exchange *x, uint64_t node);

#endif
