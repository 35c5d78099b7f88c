/* Any bytes as the notes and events that a run of the ReAct loop goes on from: they are refused, or
 * they make calls that a run can take up.  The input is records that end with a NUL: 'n' and a
 * note, or a letter for the type of an event, and the event's data. */
#include "gateway/agents/react_again.h"
#include "gateway/agents/react_call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct recall *tell(struct recall *r, struct str record, uint64_t seq)
{
    bool settled = false;
    struct str rest = {record.p + 1, record.n - 1};
    enum event_type type = (enum event_type)((unsigned char)record.p[0] % N_EVENT_TYPES);
    struct event_parts event = {.seq = seq, .ts = (int64_t)seq * 1000, .event = type, .data = rest};
    bool is_note = record.p[0] == 'n';
    r = react_again_recall(r, &(struct recalled){.event = is_note ? NULL : &event, .note = rest},
                           &settled);
    ASSERT(!r || settled == (is_note || (type != EVENT_TOKEN && type != EVENT_THINKING)));
    return r;
}

static void check_calls(const struct react_calls *c)
{
    size_t n_open = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct react_call *call = c->list[i];
        ASSERT(call->id && call->name && call->arguments && call->number > 0);
        ASSERT(call->number <= c->n_numbers);
        ASSERT(!call->job && !call->ticket);
        n_open += call->state == CALL_OPEN;
    }
    ASSERT(n_open == c->n_open);
}

static void go_on(struct recall *r)
{
    struct react_calls calls = {0};
    struct budget budget = {0};
    react_again_move(r, &calls);
    react_again_move_budget(r, &budget, 1000);
    check_calls(&calls);
    react_calls_done(&calls);
    react_again_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str all = {(const char *)data, size};
    struct recall *r = NULL;
    for (uint64_t seq = 1; all.n > 0; seq++) {
        const char *end = memchr(all.p, 0, all.n);
        size_t n = end ? (size_t)(end - all.p) : all.n, next = end ? n + 1 : n;
        if (n > 0 && !(r = tell(r, (struct str){all.p, n}, seq)))
            return 0;
        all = (struct str){all.p + next, all.n - next};
    }
    if (r)
        go_on(r);
    return 0;
}
