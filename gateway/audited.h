/* audited -- which requests and orders stand in the audit's file, and as what.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_AUDITED_H
#define GATEWAY_AUDITED_H

#include "core/call.h"
#include "gateway/base/audit.h"

/* A request that is over.  NULL for audit: there is none. */
void audited_call(struct audit *audit, const struct call *c, enum error e);

#endif
