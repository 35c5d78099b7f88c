/* faces -- the protocols of other clients over the same tasks, one row each (docs/faces.md).
 *
 * Shape:    a table: the paths that a face serves, and the configuration key that enables it.
 * Thread:   loop; at the start.
 * Owns:     nothing: the front has copies of the rows.
 */
#ifndef GATEWAY_FACES_FACES_H
#define GATEWAY_FACES_FACES_H

#include "gateway/front/front.h"

/* Opens the faces that the configuration allows. */
void faces_init(struct front *f);

#endif
