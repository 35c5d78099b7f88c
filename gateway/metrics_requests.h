/* metrics_requests -- rows of metrics.c: requests, why they were refused, the audit's lines,
 * what is scheduled, spans; and a table of its own: the gateways that share a store, an issuer's
 * keys, tenants, what models cost.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_METRICS_REQUESTS_H
#define GATEWAY_METRICS_REQUESTS_H

#include "gateway/models/model.h"
#include "gateway/server.h"

enum metric_kind { COUNTER, GAUGE, HISTOGRAM };

struct metric {
    const char *name;
    enum metric_kind kind;
    const char *help;
    void (*write)(struct server *s, struct buf *out, const char *name);
};

extern const struct metric more_metrics[];
extern const size_t n_more_metrics;

void metrics_requests(struct server *s, struct buf *out, const char *name);
void metrics_request_errors(struct server *s, struct buf *out, const char *name);
void metrics_refusals(struct server *s, struct buf *out, const char *name);
void metrics_audit_lines(struct server *s, struct buf *out, const char *name);
void metrics_schedules(struct server *s, struct buf *out, const char *name);
void metrics_schedule_runs(struct server *s, struct buf *out, const char *name);
/* Calls visit for each model of an agent, and for that of titles, whose agent is "". */
void metrics_each_model(struct server *s,
                        void (*visit)(void *arg, const char *agent, const struct model *model),
                        void *arg);
void metrics_trace_spans(struct server *s, struct buf *out, const char *name);

#endif
