/* The repair at a start, before anything new runs; or of slots that became ours, before anything of
 * their owners runs.  In this order:
 *
 *   0. revoked owners;
 *   1. tails: the journal's unsealed lines, by task; notices that were not told yet;
 *   2. live tasks: each is adopted with its tail; one that never ran waits for its start; all that
 *      is known of one that ran is read: its notes, its events from its blocks and its tail, its
 *      inbox.  Then it goes on, or ends as an orphan (task_resume.c).  Some are read at once: one
 *      by one, a start would wait for the store's thread three times for each task;
 *   3. tails of ended tasks are sealed;
 *   4. when all of it is committed, the hub is ready, and runs begin again.
 *
 * Where several share the store, what cannot be read costs no more than it must.  Up to 2 nothing
 * was staged for a task, so a repair that fails drops what it has and may begin again.  From then
 * on a task that cannot be read shuts its slot, and the others open: one that is not as it was
 * written for good, one that the store refuses until it is read after all. */
#include <stdlib.h>

#include "core/grant.h"
#include "core/notice.h"
#include "core/query_retry.h"
#include "core/schedule.h"
#include "core/task_parts.h"

#define PAGE 256
#define AT_ONCE 32   /* tasks that are read */
#define SEAL_TRIES 2 /* of seals that were refused: the first time it may have been their company */

struct restore {
    struct hub *hub;
    struct slots slots;
    void (*ready)(void *arg, int status);
    void *arg;
    struct block **tails; /* by task key; NULL once taken */
    size_t n_tails, next_tail, next_seal;
    size_t n_sealed; /* of the tails, those that are done with */
    unsigned n_refused;
    struct task **tasks;
    bool *bare; /* of each: its inbox is empty */
    size_t n_tasks, next_task;
    size_t n_reading;
    bool asks;  /* in the loop of read_some, into which a hub that closes answers at once */
    int failed; /* the first status of a task that cannot be read, and ends the repair */
    int why;    /* the first status of those that only shut their slots */
    struct slots shut, damaged; /* the latter for good */
    /* Tasks that the store refuses to tell of, for now; in each slot, and in all. */
    uint32_t refused_in[N_SLOTS];
    size_t n_refused_tasks;
    struct slots late, opening; /* slots whose last such task was read, and of these those whose
                                 * repair is being committed */
    bool reads, opened, told;   /* how far it is: in 2, in 4, and ready was called */
    size_t n_kept;              /* names of kept rows that are read */
    uint64_t after;
    char *revoked; /* the last owner of the previous page */
    struct waiter waiter;
};

/* The next page of what the store has of the owners of its slots. */
static void restore_ask(struct restore *r, struct query q, store_query_fn done)
{
    q.after = r->after;
    q.limit = PAGE;
    q.slots = r->hub->o.shared ? &r->slots : NULL;
    query_retry(r->hub, &q, done, r);
}

static void restore_free(struct restore *r)
{
    for (size_t i = 0; i < r->n_tails; i++)
        block_free(r->tails[i]);
    for (size_t i = 0; i < r->n_tasks; i++)
        r->tasks[i]->refs--;
    free(r->tails);
    free(r->tasks);
    free(r->bare);
    free(r->revoked);
    free(r);
}

static unsigned task_slot(const struct task *t)
{
    return t->conversation->owner->slot; /* one that has ended has no stream */
}

/* Those of other slots remain its tasks. */
static void begin_runs(struct restore *r, const struct slots *in)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_tasks; i++) {
        struct task *t = r->tasks[i];
        if (!slots_has(in, task_slot(t))) {
            r->tasks[n++] = t;
            continue;
        }
        t->refs--;
        if (t->phase == PHASE_RESUMING && hub_leaves_runs(r->hub))
            task_leave(t);
        else if (t->phase == PHASE_RESUMING)
            list_push(&r->hub->resuming, &t->in_wait);
    }
    r->n_tasks = n;
}

static void open_slots(struct restore *r, const struct slots *slots)
{
    slots_add_those(&r->hub->open, slots);
    r->hub->notices_may_go = true;
    for (size_t i = 0; i < r->n_tasks; i++)
        if (r->tasks[i]->phase == PHASE_PENDING)
            task_try_start(r->tasks[i]);
}

static void go_on_late(struct restore *r);

/* After a failure the slots stay closed: tasks that were adopted but not repaired must not
 * start. */
static void repair_finish(struct restore *r, int status)
{
    struct slots open = r->slots;
    slots_less(&open, &r->shut);
    if (status == 0) {
        begin_runs(r, &open);
        retention_begin(&r->hub->retention);
    }
    if (r->reads)
        slots_add_those(&r->hub->unrepaired, status == 0 ? &r->shut : &r->slots);
    if (status < 0)
        r->damaged = r->slots;
    r->ready(r->arg, status < 0 ? status : slots_count(&r->shut) > 0 ? r->why : 0);
    r->told = true;
    go_on_late(r);
}

/* --- what was read late ----------------------------------------------------------------------- */

static void on_late_committed(struct waiter *w, int status)
{
    struct restore *r = container_of(w, struct restore, waiter);
    (void)status; /* as in 4 */
    if (!r->hub->closing) {
        slots_less(&r->hub->unrepaired, &r->opening);
        open_slots(r, &r->opening);
        begin_runs(r, &r->opening);
        retention_begin(&r->hub->retention);
        r->ready(r->arg, REPAIRED_MORE);
    }
    r->opening = (struct slots){0};
    go_on_late(r);
}

static void go_on_late(struct restore *r)
{
    if (!r->told || slots_count(&r->opening) > 0)
        return;
    if (slots_count(&r->late) > 0 && !r->hub->closing) {
        r->opening = r->late;
        r->late = (struct slots){0};
        r->waiter.done = on_late_committed;
        journal_wait(&r->hub->journal, &r->waiter);
    } else if (r->n_refused_tasks == 0) {
        restore_free(r);
    }
}

static void on_read_late(struct restore *r, const struct task *t, int status)
{
    unsigned slot = task_slot(t);
    r->n_refused_tasks--;
    r->refused_in[slot]--;
    if (status < 0)
        slots_add(&r->damaged, slot);
    if (!slots_has(&r->damaged, slot) && r->refused_in[slot] == 0) {
        if (r->opened)
            slots_add(&r->late, slot);
        else
            slots_take(&r->shut, slot);
    }
    go_on_late(r);
}

/* --- a repair that fails ---------------------------------------------------------------------- */

/* Nothing is staged for its tasks yet: the same slots may be repaired another time. */
static void page_failed(struct restore *r, int status)
{
    if (r->hub->o.shared && !r->hub->closing) {
        for (size_t i = 0; i < r->n_tasks; i++) {
            r->tasks[i]->refs--;
            hub_forget_task(r->hub, r->tasks[i]);
        }
        r->n_tasks = 0;
        hub_forget_rows(r->hub, &r->slots);
    }
    repair_finish(r, status);
}

/* A batch that was given up is no reason for a home of others to end. */
static bool goes_on_without(const struct restore *r, int status)
{
    return status == 0 || (r->hub->o.shared && !r->hub->closing);
}

/* --- 4 ---------------------------------------------------------------------------------------- */

/* Tasks whose events were given up fail, as at any time (task_lost). */
static void on_repaired(struct waiter *w, int status)
{
    struct restore *r = container_of(w, struct restore, waiter);
    repair_finish(r, goes_on_without(r, status) ? 0 : status);
}

static void start_waiting(struct restore *r)
{
    struct slots open = r->slots;
    slots_less(&open, &r->shut);
    r->opened = true;
    open_slots(r, &open);
    r->waiter.done = on_repaired;
    journal_wait(&r->hub->journal, &r->waiter);
}

/* --- 3 ---------------------------------------------------------------------------------------- */

static void seal_some(struct restore *r);

/* A store that is away comes back, and the slots wait for it.  One that answers with a refusal will
 * do so again, and each try costs all that was staged beside it, of owners who are served. */
static void on_sealed(struct waiter *w, int status)
{
    struct restore *r = container_of(w, struct restore, waiter);
    r->n_refused += status < 0 && !store_may_pass(status);
    if (!goes_on_without(r, status) || r->n_refused == SEAL_TRIES) {
        repair_finish(r, status);
        return;
    }
    if (status == 0)
        r->n_sealed = r->next_seal;
    r->next_seal = r->n_sealed;
    seal_some(r);
}

static void seal_some(struct restore *r)
{
    size_t n = 0;
    for (; r->next_seal < r->n_tails && n < PAGE; r->next_seal++) {
        const struct block *b = r->tails[r->next_seal];
        if (!b)
            continue;
        journal_put(&r->hub->journal, &(struct op){.kind = OP_SEAL,
                                                   .task_key = b->task_key,
                                                   .first = b->first,
                                                   .last = b->last,
                                                   .bytes = {b->bytes, b->len}});
        n++;
    }
    if (n == 0) {
        start_waiting(r);
        return;
    }
    r->waiter.done = on_sealed;
    journal_wait(&r->hub->journal, &r->waiter);
}

/* --- 2 ---------------------------------------------------------------------------------------- */

static void read_some(struct restore *r);

/* Both lists are ordered by task key, so one walk finds all. */
static struct block *take_tail(struct restore *r, int64_t key)
{
    while (r->next_tail < r->n_tails && r->tails[r->next_tail]->task_key < key)
        r->next_tail++;
    if (r->next_tail == r->n_tails || r->tails[r->next_tail]->task_key != key)
        return NULL;
    struct block *b = r->tails[r->next_tail];
    r->tails[r->next_tail++] = NULL;
    return b;
}

static void shut_slot(struct restore *r, const struct task *t, int status)
{
    unsigned slot = task_slot(t);
    r->why = r->why ? r->why : status;
    slots_add(&r->shut, slot);
    if (status != STORE_REFUSED) {
        slots_add(&r->damaged, slot);
        return;
    }
    r->n_refused_tasks++;
    r->refused_in[slot]++;
}

static void on_task_read(void *arg, struct task *t, int status, bool late)
{
    struct restore *r = arg;
    if (late) {
        on_read_late(r, t, status);
        return;
    }
    bool ends = !r->hub->o.shared || r->hub->closing || store_may_pass(status);
    if (status < 0 && !ends)
        shut_slot(r, t, status);
    else if (status < 0 && !r->failed)
        r->failed = status;
    r->n_reading--;
    read_some(r);
}

static void read_next(struct restore *r)
{
    bool bare = r->bare[r->next_task];
    struct task *t = r->tasks[r->next_task++];
    r->n_reading++;
    restore_task(t, take_tail(r, task_key(t)), bare, &r->failed, on_task_read, r);
}

/* After a failure no further task is read, but those that are, are awaited. */
static void read_some(struct restore *r)
{
    if (r->asks)
        return;
    r->asks = true;
    while (!r->failed && r->next_task < r->n_tasks && r->n_reading < AT_ONCE)
        read_next(r);
    r->asks = false;
    if (r->n_reading > 0)
        return;
    if (r->failed)
        repair_finish(r, r->failed);
    else
        seal_some(r);
}

/* The rest of core relies on this without checking again. */
static bool has_sound_ids(const struct task_record *t)
{
    return t->task_id.n == TASK_ID_LEN && t->ancestors.n % TASK_ID_LEN == 0;
}

static struct task *find_task(const struct restore *r, int64_t key)
{
    size_t low = 0, high = r->n_tasks;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (task_key(r->tasks[mid]) < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low < r->n_tasks && task_key(r->tasks[low]) == key ? r->tasks[low] : NULL;
}

static void ask_kept(struct restore *r);

/* Rows of the outbox that no receiver gets. */
static const struct {
    struct str name;
    void (*restore)(struct hub *h, const struct outbox_record *row);
} kept[] = {
    {{OUTBOX_GRANTS, sizeof OUTBOX_GRANTS - 1}, grant_restore},
    {{OUTBOX_SCHEDULES, sizeof OUTBOX_SCHEDULES - 1}, schedule_restore}, /* last: one may be due */
};

static void on_kept(void *arg, int status, struct answer *answer)
{
    struct restore *r = arg;
    if (status < 0) {
        page_failed(r, status);
        return;
    }
    for (size_t i = 0; i < answer->n_outbox; i++) {
        kept[r->n_kept].restore(r->hub, &answer->outbox[i]);
        r->after = (uint64_t)answer->outbox[i].key;
    }
    if (!answer->more) {
        r->after = 0;
        r->n_kept++;
    }
    if (r->n_kept < countof(kept)) {
        ask_kept(r);
        return;
    }
    r->reads = true;
    read_some(r);
}

static void ask_kept(struct restore *r)
{
    restore_ask(
        r, (struct query){.kind = QUERY_OUTBOX, .key = kept[r->n_kept].name, .max_bytes = 1 << 20},
        on_kept);
}

static void ask_held(struct restore *r);

/* Webhooks of live tasks; one whose task is not there goes. */
static void on_held(void *arg, int status, struct answer *answer)
{
    struct restore *r = arg;
    if (status < 0) {
        page_failed(r, status);
        return;
    }
    for (size_t i = 0; i < answer->n_outbox; i++) {
        const struct outbox_record *row = &answer->outbox[i];
        struct task *t = find_task(r, hook_task_key(r->hub, row->body));
        if (t)
            task_restore_hook(t, row);
        else
            outbox_take(r->hub, row->key);
        r->after = (uint64_t)row->key;
    }
    if (answer->more) {
        ask_held(r);
        return;
    }
    r->after = 0;
    ask_kept(r);
}

static void ask_held(struct restore *r)
{
    restore_ask(r,
                (struct query){.kind = QUERY_OUTBOX, .key = STR(OUTBOX_HELD), .max_bytes = 1 << 20},
                on_held);
}

static void ask_live(struct restore *r);

static void on_live(void *arg, int status, struct answer *answer)
{
    struct restore *r = arg;
    if (status < 0) {
        page_failed(r, status);
        return;
    }
    r->tasks = xrealloc(r->tasks, (r->n_tasks + answer->n_tasks) * sizeof(struct task *));
    r->bare = xrealloc(r->bare, r->n_tasks + answer->n_tasks + 1);
    for (size_t i = 0; i < answer->n_tasks; i++) {
        if (!has_sound_ids(&answer->tasks[i])) {
            page_failed(r, STORE_CORRUPT);
            return;
        }
        r->bare[r->n_tasks] = answer->tasks[i].has_no_inbox;
        r->tasks[r->n_tasks] = task_adopt(r->hub, &answer->tasks[i]);
        r->tasks[r->n_tasks++]->refs++;
        r->after = (uint64_t)answer->tasks[i].key;
    }
    if (answer->n_tasks > 0) {
        ask_live(r);
        return;
    }
    r->after = 0;
    ask_held(r);
}

static void ask_live(struct restore *r)
{
    restore_ask(r, (struct query){.kind = QUERY_LIVE}, on_live);
}

/* --- 1 ---------------------------------------------------------------------------------------- */

static void repair_ask_notices(struct restore *r);

static void on_notices(void *arg, int status, struct answer *answer)
{
    struct restore *r = arg;
    if (status < 0) {
        page_failed(r, status);
        return;
    }
    for (size_t i = 0; i < answer->n_notices; i++) {
        notice_restore(r->hub, &answer->notices[i]);
        r->after = (uint64_t)answer->notices[i].key;
    }
    if (answer->n_notices > 0) {
        repair_ask_notices(r);
        return;
    }
    r->after = 0;
    ask_live(r);
}

static void repair_ask_notices(struct restore *r)
{
    restore_ask(r, (struct query){.kind = QUERY_NOTICES}, on_notices);
}

static void ask_tails(struct restore *r);

static void on_tails(void *arg, int status, struct answer *answer)
{
    struct restore *r = arg;
    if (status < 0) {
        page_failed(r, status);
        return;
    }
    r->tails = xrealloc(r->tails, (r->n_tails + answer->n_blocks) * sizeof(struct block *));
    for (size_t i = 0; i < answer->n_blocks; i++) {
        const struct block *b = answer->blocks[i];
        if (!event_lines_are((struct str){b->bytes, b->len}, b->first, b->last)) {
            page_failed(r, STORE_CORRUPT);
            return;
        }
        r->after = (uint64_t)b->task_key;
        r->tails[r->n_tails++] = answer->blocks[i];
        answer->blocks[i] = NULL;
    }
    if (answer->n_blocks > 0) {
        ask_tails(r);
        return;
    }
    r->after = 0;
    repair_ask_notices(r);
}

static void ask_tails(struct restore *r)
{
    restore_ask(r, (struct query){.kind = QUERY_TAILS}, on_tails);
}

static void ask_revoked(struct restore *r);

static void on_revoked(void *arg, int status, struct answer *answer)
{
    struct restore *r = arg;
    if (status < 0) {
        page_failed(r, status);
        return;
    }
    revocations_restore(r->hub, answer);
    free(r->revoked);
    r->revoked = answer->more ? xstrdup(answer->owners[answer->n_owners - 1].owner) : NULL;
    if (answer->more)
        ask_revoked(r);
    else
        ask_tails(r);
}

static void ask_revoked(struct restore *r)
{
    restore_ask(r, (struct query){.kind = QUERY_REVOKED, .before = str_of(r->revoked)}, on_revoked);
}

static void restore_begin(struct hub *h, const struct slots *slots, const struct slots *own,
                          void (*ready)(void *arg, int status), void *arg)
{
    struct restore *r = xcalloc(sizeof *r);
    r->hub = h;
    r->slots = *slots;
    r->ready = ready;
    r->arg = arg;
    slots_less(&h->open, slots);
    slots_less(&h->unrepaired, slots);
    slots_less(&h->own, slots); /* those that were left, and come again, are others' by then */
    if (own)
        slots_add_those(&h->own, own);
    ask_revoked(r);
}

void hub_restore(struct hub *h, void (*ready)(void *arg, int status), void *arg)
{
    struct slots all;
    slots_add_all(&all);
    restore_begin(h, &all, &all, ready, arg);
}

/* Keys of the tenure are above all that the slots have, whoever gave those. */
void hub_restore_slots(struct hub *h, const struct slots *slots, const struct slots *own,
                       struct tenure tenure, void (*ready)(void *arg, int status), void *arg)
{
    ASSERT(tenure.number >= 0 && tenure.number < INT32_MAX);
    int64_t first = tenure.number << 32 | 1;
    h->next_key = first > h->next_key ? first : h->next_key;
    if (tenure.newest_id[0])
        ulid_after(&h->ulids, str_of(tenure.newest_id));
    allowances_forget_slots(&h->allowances, slots);
    restore_begin(h, slots, own, ready, arg);
}
