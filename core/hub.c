#include "core/hub.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/call.h"
#include "core/grant.h"
#include "core/handover.h"
#include "core/load.h"
#include "core/notice.h"
#include "core/query_retry.h"
#include "core/schedule.h"
#include "core/session.h"

#define MIN_CACHE_BYTES (1u << 20) /* a load must survive until its reader has its turn */
#define ASK_AGAIN_MS 200

static struct map_key owner_key(const struct map_node *node)
{
    const struct owner *o = container_of(node, const struct owner, node);
    return (struct map_key){{str_of(o->name)}};
}

static void on_advanced(void *arg, struct stream *s)
{
    (void)arg;
    stream_wake(s);
}

static void on_settled(void *arg, struct stream *s)
{
    hub_release_stream(arg, s);
}

static void on_lost(void *arg, struct stream *s)
{
    (void)arg;
    if (s->task)
        task_lost(s->task);
}

static void on_recovered(void *arg)
{
    struct hub *h = arg;
    h->notices_may_go = true;
    tasks_proceed(h);
}

static void on_stream_idle(struct stream *s, void *arg)
{
    hub_release_stream(arg, s);
}

static void on_ask_again(struct timer *timer)
{
    struct hub *h = container_of(timer, struct hub, ask_again);
    h->notices_may_go = true;
}

static void on_notice_join(struct timer *timer)
{
    container_of(timer, struct hub, notice_join)->notices_may_go = true;
}

/* Nothing to do but to have another turn: tasks_proceed goes on. */
static void on_resume_more(struct timer *timer)
{
    (void)timer;
}

void hub_ask_again(struct hub *h)
{
    h->notices_may_go = false;
    timer_arm(&h->clock, &h->ask_again, h->clock.now_ms + ASK_AGAIN_MS);
}

static void on_failing(void *arg)
{
    calls_begin_losing_patience(arg);
}

static void on_commit_late(void *arg)
{
    calls_lose_patience(arg);
}

static void on_fenced(void *arg)
{
    struct hub *h = arg;
    timer_disarm(&h->clock, &h->patience); /* its answers too would be wrong */
    if (h->o.fenced)
        h->o.fenced(h->o.arg);
}

static const struct journal_events journal_events = {.advanced = on_advanced,
                                                     .settled = on_settled,
                                                     .lost = on_lost,
                                                     .failing = on_failing,
                                                     .late = on_commit_late,
                                                     .recovered = on_recovered,
                                                     .fenced = on_fenced};

void hub_init(struct hub *h, const struct hub_options *options, struct store_port *port,
              const struct store_start *start)
{
    *h = (struct hub){.o = *options, .port = port, .next_key = start->next_key};
    clock_init(&h->clock);
    block_cache_init(&h->cache,
                     h->o.cache_bytes > MIN_CACHE_BYTES ? h->o.cache_bytes : MIN_CACHE_BYTES);
    h->cache.idle = on_stream_idle;
    h->cache.arg = h;
    journal_init(&h->journal, port, &h->clock, &h->cache, &journal_events, h);
    h->journal.retry_ms = h->o.retry_ms;
    h->journal.last_number = start->number;
    uint64_t secret[2] = {0, 0};
    ASSERT(h->o.random(secret, sizeof secret));
    map_init(&h->streams, secret, stream_key);
    map_init(&h->conversations, secret, conversation_key);
    map_init(&h->owners, secret, owner_key);
    map_init(&h->claims, secret, claim_key);
    allowances_init(&h->allowances, secret);
    h->ulids.random = h->o.random;
    if (!h->o.shared)
        slots_add_all(&h->open);
    if (start->newest_id[0])
        ulid_after(&h->ulids, str_of(start->newest_id));
    list_init(&h->waiting);
    list_init(&h->handovers);
    list_init(&h->resuming);
    h->resume_more.fire = on_resume_more;
    list_init(&h->unsure);
    list_init(&h->paused);
    list_init(&h->woken);
    list_init(&h->dead_tasks);
    list_init(&h->dead_runs);
    list_init(&h->dead_tools);
    list_init(&h->changed);
    list_init(&h->due);
    list_init(&h->freed);
    list_init(&h->notice_puts);
    list_init(&h->zones);
    list_init(&h->retries);
    h->ask_again.fire = on_ask_again;
    h->notice_join.fire = on_notice_join;
    calls_init(h);
    retention_init(&h->retention, h);
    revocations_init(&h->revocations, secret);
}

void hub_query(struct hub *h, const struct query *q, store_query_fn done, void *arg)
{
    if (h->closing)
        done(arg, STORE_IO, &(struct answer){0});
    else
        h->port->query(h->port, q, done, arg);
}

struct owner *owner_find(struct hub *h, struct str name)
{
    struct map_node *node = map_find(&h->owners, (struct map_key){{name}});
    return node ? container_of(node, struct owner, node) : NULL;
}

struct owner *owner_ref(struct hub *h, struct str name)
{
    struct owner *o = owner_find(h, name);
    if (o) {
        o->refs++;
        return o;
    }
    o = xcalloc(sizeof *o);
    o->name = xstrdup(name);
    o->slot = slot_of(name);
    o->refs = 1;
    feed_init(&o->watch);
    list_init(&o->schedules);
    list_init(&o->grants);
    list_init(&o->followers);
    map_put(&h->owners, &o->node);
    return o;
}

void owner_unref(struct hub *h, struct owner *o)
{
    ASSERT(o->refs > 0);
    if (--o->refs > 0)
        return;
    map_remove(&h->owners, &o->node);
    feed_done(&o->watch);
    free(o->name);
    free(o);
}

struct stream *hub_find_stream(struct hub *h, struct str owner, struct str conversation_id,
                               struct str task_id)
{
    struct map_node *node =
        map_find(&h->streams, (struct map_key){{owner, conversation_id, task_id}});
    struct stream *s = node ? container_of(node, struct stream, node) : NULL;
    return s && !s->gone ? s : NULL;
}

struct stream *hub_add_stream(struct hub *h, struct str owner, struct str conversation_id,
                              struct str task_id, int64_t task_key)
{
    struct conversation *c = conversation_find(h, owner, conversation_id);
    struct names *names = c ? names_ref(c->names) : names_new(owner, conversation_id);
    struct stream *s = stream_new(names, task_id, task_key);
    names_unref(names);
    map_put(&h->streams, &s->node);
    return s;
}

void hub_release_stream(struct hub *h, struct stream *s)
{
    if (s->task || s->pins || s->cached || s->sealing || s->tail.len || s->load ||
        !list_is_empty(&s->cursors))
        return;
    map_remove(&h->streams, &s->node);
    stream_free(s);
}

void hub_tell_damage(struct hub *h, const char *task_id, uint64_t seq)
{
    h->stats.damages++;
    h->o.damaged(task_id, seq);
}

static void hub_drop_stream(struct map_node *node, void *arg)
{
    struct hub *h = arg;
    struct stream *s = container_of(node, struct stream, node);
    if (s->task)
        task_free(s->task);
    s->task = NULL;
    block_cache_drop(&h->cache, s);
    load_drop(s);
    s->pins = 0;
    stream_free(s);
}

static void drop_notices(struct map_node *node, void *arg)
{
    (void)arg;
    notices_forget(container_of(node, struct conversation, node));
}

void hub_done(struct hub *h)
{
    h->closing = true;
    query_retries_done(h);
    hub_reap(h);
    journal_done(&h->journal);
    map_each(&h->conversations, drop_notices, NULL);
    schedules_done(h);
    handovers_done(h);
    grants_done(h);
    map_each(&h->streams, hub_drop_stream, h);
    struct list *node;
    while ((node = list_pop(&h->changed)) != NULL)
        conversation_unref(list_item(node, struct conversation, changed));
    while ((node = list_pop(&h->freed)) != NULL)
        conversation_unref(list_item(node, struct conversation, freed));
    list_each (it, &h->dead_tasks)
        list_item(it, struct task, in_wait)->refs = 0;
    hub_reap(h);
    retention_done(&h->retention);
    revocations_done(&h->revocations);
    map_done(&h->streams);
    map_done(&h->conversations);
    map_done(&h->owners);
    map_done(&h->claims);
    allowances_done(&h->allowances);
    clock_done(&h->clock);
    agent_line_done(&h->decoder);
    js_done(&h->doc);
    buf_done(&h->scratch);
}

void hub_no_agent(struct str name, char ret_why[256])
{
    if (name.p)
        snprintf(ret_why, 256, "\"agent\" names no configured agent: %.*s", (int)name.n, name.p);
    else
        snprintf(ret_why, 256, "\"agent\" is missing, and none is the default");
}

const struct agent *hub_find_agent(const struct hub *h, struct str name)
{
    for (size_t i = 0; i < h->o.n_agents; i++) {
        const struct agent *a = &h->o.agents[i];
        if (name.p ? str_eq(name, str_of(a->name)) : a->is_default)
            return a;
    }
    return NULL;
}

bool hub_take_slot(struct hub *h)
{
    if (hub_has_slot(h)) {
        h->n_processes++;
        return true;
    }
    h->stats.limit_hits[LIMIT_PROCESSES]++;
    return false;
}

void hub_hold_slot(struct hub *h)
{
    h->n_processes++;
}

void hub_give_slot(struct hub *h)
{
    ASSERT(h->n_processes > 0);
    h->n_processes--;
}

void hub_count(struct hub_count counts[HUB_COUNTS], struct str name)
{
    size_t i = 0;
    name.n = name.n < sizeof counts->name ? name.n : sizeof counts->name - 1;
    while (i < HUB_COUNTS - 1 && counts[i].n > 0 && !str_eq(str_of(counts[i].name), name))
        i++;
    if (counts[i].n++ == 0)
        snprintf(counts[i].name, sizeof counts[i].name, "%.*s",
                 i < HUB_COUNTS - 1 ? (int)name.n : 5, i < HUB_COUNTS - 1 ? name.p : "other");
}

void hub_new_id(struct hub *h, char ret_id[TASK_ID_LEN + 1])
{
    ulid_next(&h->ulids, h->clock.wall_ms, ret_id);
}
