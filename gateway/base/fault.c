#include "gateway/base/fault.h"

#ifdef HOLDFAST_FAULTS

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "gateway/base/log.h"

static struct {
    const char *name;
    unsigned long first; /* the passing that fails, counted from 1; 0: none */
    bool for_good;       /* all later ones too */
    atomic_ulong passed;
} points[] = {
#define X(NAME, text) {.name = #text},
    FAULT_TABLE(X) DIE_TABLE(X)
#undef X
};

/* One "name:n" or "name:n+" at text; returns what follows it, or NULL. */
static const char *read_one(const char *text)
{
    for (size_t i = 0; i < N_FAULT_POINTS; i++) {
        size_t n = strlen(points[i].name);
        if (strncmp(text, points[i].name, n) != 0 || text[n] != ':')
            continue;
        char *end;
        points[i].first = strtoul(text + n + 1, &end, 10);
        points[i].for_good = *end == '+';
        return points[i].first > 0 ? end + points[i].for_good : NULL;
    }
    return NULL;
}

const char *fault_open(void)
{
    const char *at = getenv("HOLDFAST_FAULT");
    while (at && *at) {
        at = read_one(at);
        if (!at || (*at != ',' && *at != 0))
            return "HOLDFAST_FAULT is a list of POINT:N and POINT:N+ (the points: gateway/base/fault.h)";
        at += *at == ',';
    }
    return NULL;
}

bool fault_strikes(enum fault_point point)
{
    unsigned long n = atomic_fetch_add(&points[point].passed, 1) + 1;
    unsigned long first = points[point].first;
    bool strikes = first > 0 && (n == first || (n > first && points[point].for_good));
    if (strikes)
        log_event_limited(LEVEL_WARN, "fault", "struck", LOG_TEXT("point", points[point].name),
                          LOG_INT("passing", (int64_t)n));
    return strikes;
}

void fault_gate(enum fault_point point)
{
    const char *gate = getenv("HOLDFAST_FAULT_GATE");
    if (!fault_strikes(point) || !gate || access(gate, F_OK) != 0)
        return;
    log_event(LEVEL_WARN, "fault", "held", LOG_TEXT("point", points[point].name));
    while (access(gate, F_OK) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

void fault_die(enum fault_point point)
{
    if (fault_strikes(point))
        raise(SIGKILL);
}

void fault_report(void)
{
    for (size_t i = 0; i < N_FAULT_POINTS; i++)
        log_event(LEVEL_INFO, "fault", "passed", LOG_TEXT("point", points[i].name),
                  LOG_INT("times", (int64_t)atomic_load(&points[i].passed)));
}

#else

/* ISO C forbids an empty file. */
typedef int fault_is_off;

#endif
