/* hub -- the domain as a whole: all owners, conversations, tasks and streams, and the turn.
 *
 * Shape:    maps from (owner, conversation, task) to live objects; the journal that makes changes
 *           durable; the cache of blocks.  hub_request carries out one request of one owner and
 *           answers through a callback; sessions (session.h) and HTTP both use it.
 * Thread:   loop.
 * Owns:     everything in the domain.  Closed objects are freed in hub_reap, at the end of the
 *           turn, so that no caller on the stack loses its object.
 */
#ifndef CORE_HUB_H
#define CORE_HUB_H

#include "core/agent.h"
#include "core/allowances.h"
#include "core/clock.h"
#include "core/feed.h"
#include "core/journal.h"
#include "core/outbox.h"
#include "core/retention.h"
#include "core/revocations.h"
#include "core/tool.h"
#include "proto/request.h"
#include "proto/ulid.h"

struct session;
struct call;
struct home_port;
struct secrets;

/* The message for clients and agents when a query fails. */
#define STORE_CANNOT_BE_READ "the store cannot be read now"

struct hub_limits {
    uint32_t tasks, tasks_per_owner; /* live */
    uint32_t processes;              /* running agents that are processes */
    uint64_t task_bytes, task_events;
    uint32_t inbox_messages;
    size_t inbox_bytes;
    uint32_t subscriptions;                  /* of one session */
    uint32_t task_webhooks;                  /* of one task; 0: tasks have none */
    uint32_t schedules, schedules_per_owner; /* 0 of an owner: nothing can be scheduled */
    uint32_t shares_per_owner;               /* 0: nothing can be shared */
    uint32_t requests_per_second, burst;
    uint32_t message_bytes;
};

struct hub_options {
    const struct agent *agents;
    size_t n_agents;
    struct hub_limits limits;
    struct retention_options retention;
    struct outbox_options outbox;
    size_t cache_bytes;
    msec_t retry_ms;       /* how long to retry a failing commit */
    msec_t notice_join_ms; /* ends that come so close are one notice turn */
    const char *version;
    const char *public_url;        /* of the page, for links to it; NULL: it is not known */
    const struct secrets *secrets; /* taken out of what agents say; NULL: none */
    bool (*random)(void *bytes, size_t n);
    /* Called when a task's events, from seq on, are damaged on disk. */
    void (*damaged)(const char *task_id, uint64_t seq);
    /* Called when a task was created, when it runs, and when it has ended, each time after the
     * commit; the record is valid during the call.  NULL: nobody needs to know. */
    void (*reported)(void *arg, const struct task_record *task);
    /* Called when a task is about to go on after a restart; retracted: the bytes of text that are
     * withdrawn.  NULL: nobody needs to know. */
    void (*resumed)(void *arg, const struct task_record *task, unsigned attempt,
                    uint64_t retracted);
    /* Called with why a run of an agent with short_errors has failed: nobody else is told. */
    void (*failed)(struct str task_id, const char *agent, struct str why);
    /* Called when the store is another process's now: this one must stop at once, without another
     * word to anybody.  NULL: the store has one user. */
    void (*fenced)(void *arg);
    /* Several share the store: no slot is open before hub_restore_slots has opened it. */
    bool shared;
    /* Whether this process still is the home of its slots, by its own clock; asked where something
     * is said or begins outside, after which nothing can be taken back.  NULL: for ever. */
    bool (*trusted)(void *arg);
    /* Called when a conversation was deleted; NULL: nobody needs to know. */
    void (*deleted)(void *arg, struct str owner, struct str conversation_id);
    /* Called when a request is over, with what it was answered: before its memory goes.  NULL:
     * nobody needs to know. */
    void (*told)(void *arg, const struct call *c, enum error e);
    /* Appends a token with these claims (members without braces), signed with the gateway's own
     * key; NULL: it has none, and nothing can be shared. */
    bool (*sign)(void *arg, struct str claims, struct buf *out);
    void *arg;                    /* of these */
    chain_digest_fn chain_digest; /* NULL: tasks have no continuity proof */
    /* The way to owners who are served elsewhere; NULL: all are served here. */
    const struct home_port *home;
    /* Appends a file of the time zone database (proto/tz.h); NULL: there is only UTC. */
    bool (*zone_read)(struct str name, struct buf *out);
    bool traced;        /* spans are made (core/task_trace.h) … */
    double trace_share; /* … of so many of the traces that begin here: 0 to 1 */
    /* Called with each event of a task but its text, as it is staged, and at a start with those
     * that a task has behind it which may go on; at: the ts of those, in Unix ms, else 0.  NULL:
     * nobody needs to know. */
    void (*happened)(void *arg, const struct task *t, enum event_type event, struct str data,
                     int64_t at);
};

enum hub_limit {
    LIMIT_TASKS,
    LIMIT_TASKS_PER_OWNER,
    LIMIT_PROCESSES,
    LIMIT_RATE,
    LIMIT_SUBSCRIPTIONS,
    LIMIT_TASK_BYTES,
    LIMIT_TASK_EVENTS,
    LIMIT_INBOX,
    LIMIT_STORE,
    LIMIT_STORE_PER_OWNER,
    LIMIT_SCHEDULES,
    LIMIT_SHARES,
    LIMIT_GRAFTS,
    N_LIMITS
};

/* X(name, label, text): why a task that a restart found running does not go on. */
#define NOT_RESUMED_TABLE(X)                                                       \
    X(NOT_WANTED, "after_restart", "the gateway was restarted while the task ran") \
    X(NOT_CONFIGURED, "not_configured",                                            \
      "the gateway was restarted, and the agent is no longer configured")          \
    X(NOT_READABLE, "unreadable",                                                  \
      "the gateway was restarted, and what the task had done cannot be read")      \
    X(NOT_GETTING_ON, "no_progress",                                               \
      "the gateway was restarted again and again, and the task did not get on")    \
    X(NOT_THERE, "not_there", "") /* the adapter says why */
enum not_resumed {
#define X(name, label, text) name,
    NOT_RESUMED_TABLE(X)
#undef X
        N_NOT_RESUMED
};

/* Why a task had to go on: its gateway was started again, or its owner came from another one. */
enum resumed_why { RESUMED_RESTART, RESUMED_TAKEOVER, N_RESUMED_WHYS };
const char *resumed_why_name(enum resumed_why why);

enum schedule_outcome { SCHEDULE_STARTED, SCHEDULE_MISSED, SCHEDULE_REFUSED, N_SCHEDULE_OUTCOMES };

/* Counters by a name of which there are few; the last counts all further ones, as "other". */
#define HUB_COUNTS 32
struct hub_count {
    char name[64];
    uint64_t n;
};
void hub_count(struct hub_count counts[HUB_COUNTS], struct str name);

/* For the operator; counters, except those that say "now". */
struct hub_stats {
    uint64_t tasks_ended[STATUS_CANCELLED + 1];
    struct histogram caught_up_time; /* from the resume to its caught_up */
    struct histogram cancel_time;    /* from the intent to the terminal event */
    uint64_t replayed_bytes;         /* of events, up to caught_up */
    uint64_t resumes_exact, resumes_coalesced, resumes_gap, resumes_ahead, resumes_refused;
    uint64_t limit_hits[N_LIMITS];
    uint64_t requests[N_VERBS];  /* carried out, well or not */
    uint64_t refusals[N_ERRORS]; /* requests that got an error, by its code; [ERR_NONE]: none */
    struct hub_count resumed[N_RESUMED_WHYS][HUB_COUNTS]; /* by the agent's kind */
    struct hub_count unknown_effects[HUB_COUNTS];         /* by the tool */
    uint64_t not_resumed[N_NOT_RESUMED];
    uint64_t schedule_runs[N_SCHEDULE_OUTCOMES];
    uint64_t retracted_bytes; /* of text */
    uint64_t damages;         /* how often a task's events on disk were not as written */
};

/* The cost of a slot's owners: live tasks, and all their events so far. */
struct slot_use {
    uint32_t tasks, events;
};

struct owner {
    struct map_node node;
    char *name;
    unsigned slot;
    uint32_t refs;       /* sessions, tasks, conversations, requests */
    uint32_t n_sessions; /* of these: sessions that may hold nothing but this */
    uint32_t n_calls;    /* requests that are being carried out */
    uint32_t n_live;     /* tasks */
    uint32_t n_schedules;
    struct list schedules; /* by id */
    uint32_t n_settled;    /* conversations that only tasks and notices hold, in a walk */
    uint32_t n_grafts;     /* conversations that are being made of messages */
    uint32_t n_grants;
    struct list grants; /* oldest first */
    struct feed watch;
    struct list followers; /* of struct follower: told of each new task */
};

struct hub {
    struct hub_options o;
    struct clock clock;
    struct block_cache cache;
    struct journal journal;
    struct retention retention;
    struct revocations revocations;
    struct store_port *port;
    struct map streams, conversations, owners, claims;
    struct allowances allowances;
    struct ulid_source ulids;
    struct agent_line_decoder decoder; /* scratch, like the next two */
    struct js_doc doc;
    struct buf scratch;
    int64_t next_key;
    uint32_t n_live; /* tasks */
    uint32_t n_grafts;
    uint32_t n_processes;
    struct list waiting;  /* tasks that wait for a process slot */
    struct list resuming; /* tasks whose runs begin again, some each turn */
    struct timer resume_more;
    struct list unsure;     /* tasks whose runs begin when the lease is sure again */
    struct list paused;     /* tasks whose agents are not read until the next commit */
    struct list woken;      /* sessions with something to send: the rim takes them */
    struct list dead_tasks; /* freed in hub_reap */
    struct list dead_runs;
    struct list dead_tools;    /* of struct tool_use */
    struct list changed;       /* conversations whose watchers or readers are to be told */
    struct list due;           /* conversations where a notice turn may be possible */
    struct list freed;         /* conversations where a waiting task may start; a reference each */
    struct list notice_puts;   /* of sources other than tasks: not committed (notice_source.c) */
    bool notices_may_go;       /* room was made since they were looked at */
    struct list waiting_calls; /* calls that wait for a commit */
    struct list naming;        /* chats whose files were looked up, and may end (chat_files.c) */
    struct timer patience;     /* runs while commits fail: ends their waiting */
    struct timer notice_join;  /* armed: a turn waits for notices that may join it */
    struct list zones;         /* time zones that were read (schedule.c) */
    uint32_t n_schedules;
    struct list handovers;  /* codes (handover.c) */
    struct timer ask_again; /* armed: a record could not be read, and somebody waits for it */
    struct list retries;    /* queries of a repair that are put again (query_retry.c) */
    struct slot_use use[N_SLOTS];
    bool draining;
    bool passes_on;    /* draining: other homes get what can go on, one slot after the other */
    bool abandoned;    /* nothing starts any more */
    bool closing;      /* in hub_done: the port is closed */
    int64_t epoch;     /* the number of the store's last rewind; 0: it never was rewound */
    struct slots open; /* their owners are served: everything from earlier runs is repaired */
    struct slots own;  /* came from a process of the same gateway: tasks resume by a restart */
    struct hub_stats stats;
    /* Not open: a repair could not read a task of theirs, and has staged what it could.  A read
     * that the store refuses is tried again. */
    struct slots unrepaired;
};

/* start is what the store remembers from earlier runs. */
void hub_init(struct hub *h, const struct hub_options *options, struct store_port *port,
              const struct store_start *start);
void hub_done(struct hub *h);

/* Repairs what an earlier process left: orphans end, waiting tasks start, tails are sealed. ready
 * is called when all of it is committed; no request may come earlier. */
void hub_restore(struct hub *h, void (*ready)(void *arg, int status), void *arg);

/* --- slots, where several processes share the store ------------------------------------------- */

/* The same for these slots, which became ours, while others are served.  One at a time, until ready
 * is called: with 0, all are open; or with a store error, and those that are neither open nor
 * unrepaired are as if nothing was asked: they may be repaired again.  REPAIRED_MORE comes later,
 * each time that some of the unrepaired ones have opened.  own: of these, those that a process
 * before this one, of the same gateway, had until now, NULL: none. */
#define REPAIRED_MORE 2
struct tenure {
    int64_t number;        /* of which new keys are made, above all that the slots have */
    const char *newest_id; /* of any record, "" for none */
};
void hub_restore_slots(struct hub *h, const struct slots *slots, const struct slots *own,
                       struct tenure tenure, void (*ready)(void *arg, int status), void *arg);
static inline bool hub_serves(const struct hub *h, const struct owner *o)
{
    return slots_has(&h->open, o->slot);
}
/* Slots among these in which nothing lives but sessions that hold nothing: no reader, no request,
 * and no task but such as are parted (task.h).  Streams that are only cached, notices, schedules
 * and grants go along. */
void hub_find_idle(struct hub *h, const struct slots *among, struct slots *ret);
/* Slots among these that only readers and followers keep from being idle; live: or tasks that may
 * move. */
void hub_find_movable(struct hub *h, const struct slots *among, bool live, struct slots *ret);
/* Slots among these that only such tasks keep from being idle … */
void hub_find_quiet(struct hub *h, const struct slots *among, struct slots *ret);
/* … and which are left: they are idle when that is committed and sealed.  Those slots are closed,
 * and cannot be reopened.  The number of tasks. */
unsigned hub_part(struct hub *h, const struct slots *slots);
/* Refuses requests of their owners from now on; the rim closes their sessions. */
void hub_close_slots(struct hub *h, const struct slots *slots);
/* The opposite, before they are left. */
void hub_reopen_slots(struct hub *h, const struct slots *slots);
/* Closes idle slots: nothing more is staged for their owners.  The caller gives them away when what
 * is staged already is committed (journal_wait). */
void hub_leave(struct hub *h, const struct slots *slots);
/* For a repair that fails: what it has adopted and restored of these goes from memory. */
void hub_forget_task(struct hub *h, struct task *t); /* nothing is staged for it */
void hub_forget_rows(struct hub *h, const struct slots *slots);
/* The store has lost what it had committed, at that epoch: numbers of events that clients have from
 * before may have been given again, in tasks whose keys are older.  range: for new keys. */
void hub_rewound(struct hub *h, int64_t epoch, int64_t range);
/* The key of a new record.  Nodes that share a store have ranges of 2^32; one that has used half of
 * its own wants another (hub_rewound). */
int64_t hub_new_key(struct hub *h);
bool hub_wants_range(const struct hub *h);
/* For queries of all owners; NULL: all slots. */
static inline const struct slots *hub_slots(const struct hub *h)
{
    return h->o.shared ? &h->open : NULL;
}
static inline bool hub_is_trusted(const struct hub *h)
{
    return !h->o.trusted || h->o.trusted(h->o.arg);
}

struct owner *owner_find(struct hub *h, struct str name); /* NULL: nothing of his is live */
struct owner *owner_ref(struct hub *h, struct str name);  /* found or made */
void owner_unref(struct hub *h, struct owner *o);

/* The stream of a live, or recently read, task; NULL when it must be looked up in the store. */
struct stream *hub_find_stream(struct hub *h, struct str owner, struct str conversation_id,
                               struct str task_id);
struct stream *hub_add_stream(struct hub *h, struct str owner, struct str conversation_id,
                              struct str task_id, int64_t task_key);
/* Frees a stream that nothing needs any more. */
void hub_release_stream(struct hub *h, struct stream *s);
/* Counts and reports that the task's events cannot be read from seq on. */
void hub_tell_damage(struct hub *h, const char *task_id, uint64_t seq);

/* Asks the store.  In hub_done, when there is no store any more, done gets STORE_IO at once. */
void hub_query(struct hub *h, const struct query *q, store_query_fn done, void *arg);
/* The store could not be read: whatever waits for a record tries again a little later. */
void hub_ask_again(struct hub *h);

const struct agent *hub_find_agent(const struct hub *h,
                                   struct str name);   /* NULL name: the default */
void hub_no_agent(struct str name, char ret_why[256]); /* what to tell who named one that is not */
void hub_new_id(struct hub *h, char ret_id[TASK_ID_LEN + 1]);
static inline bool hub_can_write(const struct hub *h)
{
    return !h->journal.failing;
}

/* A place among limits.processes, which exec agents and commands share. */
static inline bool hub_has_slot(const struct hub *h)
{
    return h->n_processes < h->o.limits.processes;
}
bool hub_take_slot(struct hub *h); /* false: none is free, and the refusal is counted */
void hub_hold_slot(struct hub *h); /* for a process that already runs, whatever the limit is */
void hub_give_slot(struct hub *h);

/* Accepts no new tasks from now on, and leaves those that the next process goes on with.
 * hub_abandon then ends what still runs, as orphaned; a task that was never started stays pending,
 * and the next process starts it. */
void hub_drain(struct hub *h);
/* The same, but all tasks run on until their slots are left for other homes: until hub_drain or
 * hub_abandon, which leave the rest. */
void hub_pass_on(struct hub *h);
static inline bool hub_leaves_runs(const struct hub *h)
{
    return h->draining && (!h->passes_on || h->abandoned);
}
void hub_abandon(struct hub *h);
/* While draining: whether a task must end before the process may exit. */
bool hub_awaits_tasks(struct hub *h);
/* Whether every task that must end before the process may exit has ended, on disk. */
bool hub_is_over(struct hub *h);

/* The end of a turn, in this order: submit the next batch; the rim sends; free closed objects.
 * busy: see journal_submit. */
void hub_submit(struct hub *h, bool busy);
void hub_reap(struct hub *h);

#endif
