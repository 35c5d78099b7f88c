/* audited -- which requests and orders stand in the audit's file, and as what.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_AUDITED_H
#define GATEWAY_AUDITED_H

#include "core/call.h"
#include "gateway/base/audit.h"

/* The name of a verb's requests there, and in the metrics: as on the wire. */
const char *audited_event(enum verb verb);
/* A request that is over.  NULL for audit: there is none. */
void audited_call(struct audit *audit, const struct call *c, enum error e);

#endif
