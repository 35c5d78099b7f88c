/* neighbours -- the links of this gateway: between what the cluster knows of nodes, and the hub.
 *
 * Shape:    there are links when the configuration has cluster.listen; then every living node that
 *           can be reached is dialled.
 * Thread:   loop.
 * Owns:     the links.
 */
#ifndef GATEWAY_LINKS_NEIGHBOURS_H
#define GATEWAY_LINKS_NEIGHBOURS_H

#include "core/home.h"
#include "gateway/front/front.h"

struct neighbours;

/* Before the hub is open; the cluster is.  NULL: the log says why. */
struct neighbours *neighbours_open(struct front *f) MUST_USE;
const struct home_port *neighbours_home(struct neighbours *n); /* NULL: there are no links */
void neighbours_turn(struct neighbours *n);                    /* the end of the turn */
/* Appends their rows, when there are links. */
void neighbours_write_metrics(struct neighbours *n, struct buf *out);
void neighbours_close(struct neighbours *n); /* before the hub is closed; NULL is allowed */

#endif
