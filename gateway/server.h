/* server -- the loop thread: the turn, and everything that lives for a whole run.
 *
 * Shape:    one turn is: sleep until something is ready or due → carry out what is ready (uv_run) →
 *           timers → the end of the turn, a list in server_turn: submit the next batch, send to the
 *           woken, free closed objects.  Answers of the store arrive as one async of the loop.
 * Thread:   loop.
 * Owns:     the hub, the store, the front.
 */
#ifndef GATEWAY_SERVER_H
#define GATEWAY_SERVER_H

#include <uv.h>

#include "core/hub.h"
#include "gateway/agents/agent_exec.h"
#include "gateway/config/config.h"
#include "gateway/front/front.h"
#include "gateway/mcp/mcp.h"
#include "gateway/store/store_pg.h"
#include "gateway/store/store_sqlite.h"
#include "gateway/store/store_thread.h"
#include "gateway/tools/tool_terminal.h"

struct cluster;
struct crew_member;
struct fetcher;
struct jwks;
struct files;
struct kept;
struct neighbours;
struct titles;
struct webhooks;
struct workers;

struct server {
    uv_loop_t loop;
    const struct config *config;
    struct hub hub;
    struct front front;
    struct webhooks *webhooks;
    struct files *files;     /* NULL with the store in memory */
    struct lender lender;    /* of these */
    struct fetcher *fetcher; /* the agents' own requests */
    struct jwks *jwks;       /* the issuer's keys; NULL: there is no auth.jwks_url */
    struct terminal terminal;
    struct mcp *mcp;
    struct kept *kept; /* programs that outlive us; NULL: none can */
    struct workers *workers;
    struct doors *doors;     /* of workers; NULL: there are none */
    struct audit *audit;     /* NULL: none */
    struct traces *traces;   /* likewise */
    struct secrets *secrets; /* of the configuration: taken out of what passes by */
    struct titles *titles;   /* by a model */
    struct agent *agents;
    size_t n_agents;
    struct store_sqlite *sqlite; /* NULL: the store is of another kind; like the next */
    struct store_pg *pg;
    void *store; /* the backend, of either kind */
    const struct store_ops *store_ops;
    struct store_thread *store_thread;
    struct cluster *cluster;
    struct neighbours *neighbours;
    const struct crew_member *member; /* NULL: this process is alone */

    uv_signal_t sigterm, sigint, sighup, sigchld;

    bool failed, stopped, abandoned, hub_is_open;
    bool fenced;        /* another process has the store: we end without another word */
    bool begun;         /* it serves */
    bool awaits_others; /* a member of a crew, which begins when its links are up … */
    msec_t awaits_since;
    bool unsure; /* the lease, as last logged */
    bool busy;   /* the next turn comes at once */
    enum commits { COMMITS_WORK, COMMIT_HANGS, COMMITS_FAIL } commits; /* as last logged */
    bool checkpoints_fail;
    uint64_t refused; /* the number of the batch of which that was told last */
    struct timer drain;
    struct timer tick; /* heartbeats and slow readers: once a second */
};

/* Opens everything and runs until it is stopped.  Returns the exit code.  member: of a crew
 * (crew.h), NULL for a process that is alone. */
int server_run(const struct config *config, const struct crew_member *member);
void server_refresh_clock(struct server *s);

/* server_store.c: opens it and the cluster as the configuration says; false: the log says why.
 * opened: as in cluster_options. */
bool server_open_store(struct server *s, void (*opened)(void *arg, int status)) MUST_USE;
/* At a stop, and in each turn of it: where other gateways could have them, tasks run on until they
 * are moved there; otherwise those that go on are left to the next start. */
void server_let_go(struct server *s);
/* Once a second: what has begun or is over since. */
void server_report_store(struct server *s);

/* A repair has failed; slots that it was about stay closed. */
void server_report_repair(const struct server *s, int status);

/* server_report.c: to the program that started it, to the log, and to a person at a terminal. */
void server_report_ready(const struct server *s);
/* For hub_options. */
void server_on_damage(const char *task_id, uint64_t seq);
void server_on_task(void *arg, const struct task_record *t);
void server_on_resumed(void *arg, const struct task_record *t, unsigned attempt,
                       uint64_t retracted);
void server_on_failed(struct str task_id, const char *agent, struct str why);

/* server_crew.c: a process whose owners are all at home in another one; whose clients read on there
 * until the last task has ended. */
bool server_is_front(const struct server *s);
bool server_waits_for_home(const struct server *s);
bool server_is_ahead(void *arg); /* for the front */
/* Whether it is left to the others to take clients for now: the links to them are not up. */
bool server_awaits_others(struct server *s);
/* At the end of each turn; true, once, when it can carry clients to all others, or has waited for
 * that for long enough. */
bool server_reaches_others(struct server *s);
/* Once a second, for the others; and of all, whoever is asked. */
void server_publish_metrics(struct server *s);
void server_put_metrics(void *arg, struct buf *out);

#endif
