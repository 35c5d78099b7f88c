/* neighbours -- the links of this gateway: between what the cluster knows of nodes, and the hub.
 *
 * Shape:    there are links when the configuration has cluster.listen; then every living node that
 *           can be reached is dialled.  Processes of one machine that share a port (crew.h) have
 *           links of their own, from each front to the home.
 * Thread:   loop.
 * Owns:     the links.
 */
#ifndef GATEWAY_LINKS_NEIGHBOURS_H
#define GATEWAY_LINKS_NEIGHBOURS_H

#include "core/home.h"
#include "gateway/crew/crew.h"
#include "gateway/front/front.h"

struct neighbours;

/* Before the hub is open; the cluster is.  member: NULL for a process that is alone.  NULL: the log
 * says why. */
struct neighbours *neighbours_open(struct front *f, const struct crew_member *member) MUST_USE;
const struct home_port *neighbours_home(struct neighbours *n); /* NULL: there are no links */
/* Ends the sessions of these slots that are served here, of clients of this gateway and of fronts
 * elsewhere.  are_away: another node is their home already; a client that comes back is carried
 * there, and without links nothing is done. */
void neighbours_close_slots(struct neighbours *n, const struct slots *slots, bool are_away);
/* A front of a crew: whether its home can be reached now. */
bool neighbours_reach_home(const struct neighbours *n);
/* Whether the link to every living node that tells where it is reached is up.  Without links: true.
 */
bool neighbours_reach_all(const struct neighbours *n);
void neighbours_turn(struct neighbours *n); /* the end of the turn */
/* Appends their rows, when there are links. */
void neighbours_write_metrics(struct neighbours *n, struct buf *out);
void neighbours_close(struct neighbours *n); /* before the hub is closed; NULL is allowed */

#endif
