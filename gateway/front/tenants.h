/* tenants -- who uses the gateway now, by the tenants of auth.tenant_claim: an owner is
 * TENANT/NAME then.
 *
 * Thread:   loop.
 * Owns:     nothing; names are valid during the call.
 */
#ifndef GATEWAY_FRONT_TENANTS_H
#define GATEWAY_FRONT_TENANTS_H

#include "gateway/front/front.h"

#define TENANTS_SHOWN 100 /* further ones are one row, whose name is TENANTS_OTHERS */
#define TENANTS_OTHERS "…"

struct tenant_use {
    struct str name; /* "" for owners without a tenant: guests */
    uint64_t connections, tasks;
};

/* Fills at most TENANTS_SHOWN + 1 rows; returns how many.  Without auth.tenant_claim all are the
 * owners of one without a name. */
size_t tenants_count(struct front *f, struct tenant_use ret[TENANTS_SHOWN + 1]);

#endif
