#include "gateway/metrics_requests.h"

#include <inttypes.h>

#include "gateway/audited.h"

void metrics_requests(struct server *s, struct buf *out, const char *name)
{
    for (int i = VERB_CHAT; i < N_VERBS; i++) /* those before are the session's own */
        buf_putf(out, "%s{verb=\"%s\"} %" PRIu64 "\n", name, audited_event((enum verb)i),
                 s->hub.stats.requests[i]);
}

void metrics_request_errors(struct server *s, struct buf *out, const char *name)
{
    for (int i = ERR_NONE + 1; i < N_ERRORS; i++)
        buf_putf(out, "%s{code=\"%s\"} %" PRIu64 "\n", name, error_code((enum error)i),
                 s->hub.stats.refusals[i]);
}

void metrics_refusals(struct server *s, struct buf *out, const char *name)
{
    static const char *const causes[] = {
#define X(name, label) label,
        REFUSAL_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < countof(causes); i++)
        buf_putf(out, "%s{cause=\"%s\"} %" PRIu64 "\n", name, causes[i], s->front.refusals[i]);
}

void metrics_audit_lines(struct server *s, struct buf *out, const char *name)
{
    struct audit_stats stats = audit_stats(s->audit);
    buf_putf(out, "%s{outcome=\"written\"} %" PRIu64 "\n", name, stats.written);
    buf_putf(out, "%s{outcome=\"lost\"} %" PRIu64 "\n", name, stats.lost);
}

void metrics_schedules(struct server *s, struct buf *out, const char *name)
{
    buf_putf(out, "%s %" PRIu32 "\n", name, s->hub.n_schedules);
}

void metrics_schedule_runs(struct server *s, struct buf *out, const char *name)
{
    static const char *const outcomes[] = {"started", "missed", "refused"};
    _Static_assert(countof(outcomes) == N_SCHEDULE_OUTCOMES, "by enum schedule_outcome");
    for (size_t i = 0; i < countof(outcomes); i++)
        buf_putf(out, "%s{outcome=\"%s\"} %" PRIu64 "\n", name, outcomes[i],
                 s->hub.stats.schedule_runs[i]);
}
