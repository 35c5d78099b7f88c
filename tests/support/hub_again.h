/* hub_again -- an agent of the hub kit whose tasks go on over a restart, and logs what it is told.
 *
 * Shape:    again_use makes all agents of a kit of this kind.  A run that goes on is one more run
 *           of the kit; its history ends with a line for all that was recalled: "|" and, separated
 *           by blanks, "S:" and the standing note, "N:" and another, and the names of the events.
 * Settled:  everything but tokens and thoughts settles the text before it.
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_HUB_AGAIN_H
#define TESTS_SUPPORT_HUB_AGAIN_H

#include "tests/support/hub_kit.h"

struct recall {
    struct buf log;
};

static struct {
    unsigned proceeded, left, forgotten;
    uint64_t mark, last; /* of the newest resumption; of is_there */
    const char *gone;    /* why nothing is there; NULL: it is */
    bool cannot_recall;
    struct buf numbered; /* lines of deliver_at: position and line */
    bool slow;           /* it takes numbered lines, and does not say that it has them */
} again;

static inline struct recall *again_recall(void *settings, struct recall *recall,
                                          const struct recalled *item, bool *ret_settled)
{
    struct recall *r = recall ? recall : xcalloc(sizeof *r);
    (void)settings;
    if (again.cannot_recall && !item->event) {
        buf_done(&r->log);
        free(r);
        return NULL;
    }
    if (item->event)
        buf_putf(&r->log, " %s", event_name(item->event->event));
    else
        buf_putf(&r->log, " %s:%.*s", item->standing ? "S" : "N", (int)item->note.n, item->note.p);
    *ret_settled =
        !item->event || (item->event->event != EVENT_TOKEN && item->event->event != EVENT_THINKING);
    return r;
}

static inline void again_forget(struct recall *recall)
{
    again.forgotten++;
    buf_done(&recall->log);
    free(recall);
}

static inline bool again_is_there(void *settings, struct str task_id, uint64_t *ret_last,
                                  char ret_why[256])
{
    (void)settings, (void)task_id;
    if (again.gone)
        snprintf(ret_why, 256, "%s", again.gone);
    *ret_last = again.last;
    return !again.gone;
}

static inline struct run *again_resume(void *settings, const struct run_spec *spec,
                                       const struct resumption *from,
                                       const struct run_events *events, void *task, char *ret_error)
{
    struct run *r = kit_start(settings, spec, events, task, ret_error);
    if (r) {
        buf_puts(&r->history, " |");
        buf_putstr(&r->history, buf_str(&from->recall->log));
    }
    again.mark = from->mark;
    buf_done(&from->recall->log);
    free(from->recall);
    return r;
}

static inline void again_leave(struct run *r)
{
    (void)r;
    again.left++;
}

static inline void again_proceed(struct run *r)
{
    (void)r;
    again.proceeded++;
}

static inline bool again_deliver_at(struct run *r, uint64_t position, struct str line)
{
    if (r->full)
        return false;
    if (position > again.last) {
        buf_putf(&again.numbered, "%llu %.*s\n", (unsigned long long)position, (int)line.n, line.p);
        again.last = position;
    }
    if (!again.slow)
        r->events->on_taken(r->task, position);
    return true;
}

/* When full it takes only lines that say "urgent". */
static inline bool again_deliver_urgent(struct run *r, struct str line)
{
    bool full = r->full;
    r->full = full && !memmem(line.p, line.n, "urgent", 6);
    bool taken = kit_deliver(r, line);
    r->full = full;
    return taken;
}

#define AGAIN_OPS                                                                             \
    .kind = "again", .start = kit_start, .cancel = kit_cancel, .kill = kit_kill,              \
    .is_deaf = kit_is_deaf, .unpause = kit_unpause, .free = kit_free, .recall = again_recall, \
    .forget = again_forget, .is_there = again_is_there, .resume = again_resume,               \
    .leave = again_leave, .proceed = again_proceed

static const struct agent_ops again_ops = {AGAIN_OPS, .deliver = kit_deliver};
static const struct agent_ops again_numbered_ops = {AGAIN_OPS, .deliver_at = again_deliver_at};
static const struct agent_ops again_picks_ops = {AGAIN_OPS, .deliver = again_deliver_urgent,
                                                 .picks = true};

static inline void again_use(struct kit *k, const struct agent_ops *ops)
{
    buf_done(&again.numbered);
    memset(&again, 0, sizeof again);
    for (size_t i = 0; i < countof(k->agents); i++) {
        k->agents[i].ops = ops;
        k->agents[i].goes_on = true;
        k->agents[i].outlives = ops == &again_numbered_ops;
    }
}

#endif
