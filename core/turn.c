/* The end of a turn, and of the last one: the server calls these when everything that was ready has
 * been carried out (hub.h). */
#include <stdlib.h>

#include "core/hub.h"
#include "core/notice.h"
#include "core/task_parts.h"

#define RESUME_PIECE 64 /* runs that begin again in one turn */

static void resume_some(struct hub *h)
{
    struct list *node;
    for (int i = 0; i < RESUME_PIECE && (node = list_pop(&h->resuming)) != NULL; i++)
        task_resume(list_item(node, struct task, in_wait));
    if (!list_is_empty(&h->resuming))
        timer_arm(&h->clock, &h->resume_more, h->clock.now_ms);
}

void tasks_proceed(struct hub *h)
{
    struct list now, *node;
    resume_some(h);
    list_init(&now);
    if (hub_is_trusted(h))
        list_splice(&now, &h->unsure);
    while ((node = list_pop(&now)) != NULL)
        task_run(list_item(node, struct task, in_wait));
    list_splice(&now, &h->freed);
    while ((node = list_pop(&now)) != NULL)
        tasks_start_next(list_item(node, struct conversation, freed));
    if (!journal_is_full(&h->journal))
        list_splice(&now, &h->paused);
    while ((node = list_pop(&now)) != NULL)
        task_unpause(list_item(node, struct task, in_wait));
    while (hub_has_slot(h) && (node = list_pop(&h->waiting)) != NULL)
        task_try_start(list_item(node, struct task, in_wait));
}

void hub_submit(struct hub *h, bool busy)
{
    tasks_proceed(h);
    notices_proceed(h);
    conversations_tell(h);
    journal_submit(&h->journal, busy);
}

void hub_reap(struct hub *h)
{
    struct list *node;
    while ((node = list_pop(&h->dead_runs)) != NULL) {
        struct dead_run *dead = list_item(node, struct dead_run, node);
        dead->ops->free(dead->run);
        free(dead);
    }
    task_reap_tools(h);
    list_each (it, &h->dead_tasks) {
        struct task *t = list_item(it, struct task, in_wait);
        if (t->refs == 0)
            task_free(t);
    }
}

/* Those of a slot that is being repaired are left, or end, once their lines are read; until then
 * they have no run. */
static bool task_is_served(const struct task *t)
{
    return slots_has(&t->hub->open, slot_of(task_owner(t))) || task_run_of(t);
}

static void drain_leave(struct map_node *node, void *arg)
{
    (void)arg;
    struct task *t = container_of(node, struct stream, node)->task;
    if (t && task_is_served(t) && task_goes_on(t) && t->phase != PHASE_STARTING)
        task_leave(t); /* one that starts is left when it would run */
}

void hub_drain(struct hub *h)
{
    h->draining = true;
    h->passes_on = false;
    map_each(&h->streams, drain_leave, NULL);
}

void hub_pass_on(struct hub *h)
{
    h->draining = h->passes_on = true;
}

/* A waiting task stays as it is (task_try_start), even when its creation is on its way. */
static void abandon(struct map_node *node, void *arg)
{
    struct task *t = container_of(node, struct stream, node)->task;
    drain_leave(node, arg); /* one that was to be moved, and could not be */
    if (!t || !task_is_served(t) || t->phase <= PHASE_PENDING || task_is_ending(t) || t->left)
        return;
    if (t->phase == PHASE_STARTING && task_goes_on(t))
        return; /* the same */
    task_finish(t, STATUS_FAILED, TASK_ORPHANED, STR("orphaned: the gateway is stopping"));
}

void hub_abandon(struct hub *h)
{
    h->abandoned = true;
    map_each(&h->streams, abandon, NULL);
}

/* A task that the next gateway starts, or goes on with, need not end.  One whose slot is being
 * repaired, or is on its way to another home, is waited for as long as there is time; but not one
 * that cannot be read. */
static bool is_for_the_next(const struct task *t)
{
    if (t->left)
        return true;
    if (!task_is_served(t))
        return t->hub->abandoned || slots_has(&t->hub->unrepaired, slot_of(task_owner(t)));
    return t->phase == PHASE_PENDING && (t->hub->abandoned || task_goes_on(t));
}

static void find_unended(struct map_node *node, void *arg)
{
    const struct task *t = container_of(node, struct stream, node)->task;
    if (t && !is_for_the_next(t))
        *(bool *)arg = true;
}

bool hub_awaits_tasks(struct hub *h)
{
    bool unended = h->n_live > 0;
    if (unended && h->draining) {
        unended = false;
        map_each(&h->streams, find_unended, &unended);
    }
    return unended;
}

bool hub_is_over(struct hub *h)
{
    return !hub_awaits_tasks(h) && journal_is_idle(&h->journal);
}
