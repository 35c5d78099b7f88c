/* crew -- the processes that serve one port together: "processes" in the configuration.
 *
 * Shape:    the first process binds the port, begins the members, begins one again that ends by
 *           itself, and passes on what it is told by signals.  With a store of one process member 0
 *           is the home of all owners, and each other member a front: it carries its clients to the
 *           home over a link (gateway/links/), and has nothing of theirs.  Over PostgreSQL each
 *           member is a node of its own.  A member dies with the first process.
 * Thread:   the only one of the first process; it forks before there is another.
 * Owns:     the port's socket and that of the links, which outlive every member.
 * Errors:   a member that ends before it has ever served ends them all, with its code.
 */
#ifndef GATEWAY_CREW_CREW_H
#define GATEWAY_CREW_CREW_H

#include <stdbool.h>

#include "gateway/config/config.h"
#include "proto/str.h"

struct crew_page;

#define CREW_HOME 1 /* member 0's incarnation, in each of its lives */

/* A member's place; what it points to outlives the member. */
struct crew_member {
    unsigned at, n;
    bool is_front;          /* all owners are at home at member 0 */
    bool is_home;           /* it is that one */
    int port_fd;            /* where clients come */
    bool is_activated;      /* a service manager has bound that */
    int link_fd;            /* where fronts dial the home; -1: none do */
    char link[32];          /* the same as HOST:PORT */
    struct str secret;      /* of these links */
    struct crew_page *page; /* metrics of all */
};

/* Runs config->processes members until all have ended; returns the exit code.  serve is called in
 * each of them, with a configuration of its own, and returns its exit code. */
int crew_run(const struct config *config,
             int (*serve)(const struct config *config, const struct crew_member *member));

#endif
