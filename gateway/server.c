#include "gateway/server.h"

#include <errno.h>
#include <openssl/rand.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/secrets.h"
#include "gateway/agents/agents.h"
#include "gateway/agents/exec_kept.h"
#include "gateway/agents/titles.h"
#include "gateway/audited.h"
#include "gateway/auth/file_link.h"
#include "gateway/auth/jwks.h"
#include "gateway/base/chain_digest.h"
#include "gateway/base/fault.h"
#include "gateway/base/log.h"
#include "gateway/base/notify.h"
#include "gateway/base/zone.h"
#include "gateway/cluster/cluster.h"
#include "gateway/crew/crew.h"
#include "gateway/crew/crew_page.h"
#include "gateway/descriptors.h"
#include "gateway/faces/faces.h"
#include "gateway/fetch/fetch.h"
#include "gateway/fetch/webhook.h"
#include "gateway/files/files.h"
#include "gateway/front/http_export.h"
#include "gateway/front/http_files.h"
#include "gateway/front/listener.h"
#include "gateway/front/ws.h"
#include "gateway/links/neighbours.h"
#include "gateway/metrics.h"
#include "gateway/processes/sandbox.h"
#include "gateway/processes/strays.h"
#include "gateway/reload.h"
#include "gateway/store/file_folder.h"
#include "gateway/traces/traces.h"
#include "gateway/workers/worker_ws.h"

#define NOTICE_JOIN_MS 100 /* ends of tasks and processes that come so close are one turn */
#define TICK_MS 1000
#define CLOSE_WAIT_MS 500 /* how long clients may take for the close handshake */
#define HOME_ENDS_MS 5000 /* a front waits so much longer for its home than that for tasks */
#define END_WAIT_MS 2000  /* at the stop, for everything that was told to end */
#define EXIT_FENCED 75    /* EX_TEMPFAIL: to be started again (packaging/) */

/* --- the clock -------------------------------------------------------------------------------- */

void server_refresh_clock(struct server *s)
{
    struct timespec wall;
    uv_update_time(&s->loop);
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_set(&s->hub.clock, (msec_t)uv_now(&s->loop),
              (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000);
}

static bool random_bytes(void *bytes, size_t n)
{
    return RAND_bytes(bytes, (int)n) == 1;
}

/* --- stopping --------------------------------------------------------------------------------- */

static void close_connections(struct server *s)
{
    s->front.phase = FRONT_CLOSING;
    ws_close_all(&s->front, CLOSE_GOING_AWAY);
    timer_arm(&s->hub.clock, &s->drain, s->hub.clock.now_ms + CLOSE_WAIT_MS);
}

static void on_drain(struct timer *timer)
{
    struct server *s = container_of(timer, struct server, drain);
    if (s->front.phase == FRONT_CLOSING) {
        s->stopped = true;
        return;
    }
    hub_abandon(&s->hub);
    s->abandoned = true;
}

static void begin_drain(void *arg)
{
    struct server *s = arg;
    if (s->front.phase >= FRONT_DRAINING) {
        timer_arm(&s->hub.clock, &s->drain, s->hub.clock.now_ms); /* asked twice: stop at once */
        return;
    }
    log_event(LEVEL_INFO, "server", "draining", LOG_INT("tasks", s->hub.n_live));
    s->front.phase = FRONT_DRAINING;
    notify_manager("STOPPING=1\nSTATUS=waiting for the last tasks");
    server_let_go(s);
    cluster_leave(s->cluster);
    FAULT_DIE(LEFT);
    ws_say_goaway(&s->front);
    msec_t wait = (msec_t)s->config->drain_s * 1000 + (server_is_front(s) ? HOME_ENDS_MS : 0);
    timer_arm(&s->hub.clock, &s->drain, s->hub.clock.now_ms + wait);
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    begin_drain(signal->data);
}

static void on_hangup(uv_signal_t *signal, int number)
{
    (void)number;
    reload(signal->data);
}

/* The last task has ended and its end is sent, or the store accepts no more writes: close. */
static void proceed_drain(struct server *s)
{
    if (s->front.phase == FRONT_DRAINING)
        server_let_go(s);
    if (s->front.phase == FRONT_DRAINING && !hub_awaits_tasks(&s->hub))
        listener_hold(&s->front);
    if (s->front.phase == FRONT_DRAINING && hub_is_over(&s->hub) && !server_waits_for_home(s))
        close_connections(s);
    else if (s->abandoned && s->front.phase == FRONT_DRAINING && s->hub.journal.failing)
        close_connections(s);
    if (s->front.phase == FRONT_CLOSING && s->front.n_conns == 0)
        s->stopped = true;
}

/* --- the turn --------------------------------------------------------------------------------- */

static void server_on_fenced(void *arg)
{
    struct server *s = arg;
    log_event(LEVEL_ERROR, "store", "fenced", LOG_TEXT("why", "another gateway has it now"));
    s->fenced = s->stopped = true;
}

static void on_tick(struct timer *timer)
{
    struct server *s = container_of(timer, struct server, tick);
    if (s->pg && store_pg_is_fenced(s->pg) && !s->fenced)
        server_on_fenced(s); /* found out between two commits */
    server_report_store(s);
    server_publish_metrics(s);
    if (s->front.phase != FRONT_STARTING) /* a start waits for a store that takes no commits */
        front_tick(&s->front);
    timer_arm(&s->hub.clock, &s->tick, s->hub.clock.now_ms + TICK_MS);
}

/* In ms; -1 when there is no timer. */
static int time_to_timer(struct server *s)
{
    msec_t next = clock_next(&s->hub.clock);
    int loop = uv_backend_timeout(&s->loop);
    if (loop < 0 || (next >= 0 && next < loop))
        loop = next > 60000 ? 60000 : (int)next;
    return loop;
}

static bool has_input(struct server *s, int timeout)
{
    struct pollfd backend = {.fd = uv_backend_fd(&s->loop), .events = POLLIN};
    return poll(&backend, 1, timeout) > 0;
}

/* Whether the next turn has something to do at once, besides sending. */
static bool is_busy(struct server *s)
{
    return time_to_timer(s) == 0 || has_input(s, 0);
}

static void server_begin(struct server *s);

/* The loop sleeps here, not in libuv, so that the clock is right before the first callback. */
static void server_turn(struct server *s)
{
    bool sure = hub_is_trusted(&s->hub); /* otherwise what is woken has to wait */
    if (!s->busy && !s->stopped && (!sure || list_is_empty(&s->hub.woken)))
        has_input(s, time_to_timer(s));
    server_refresh_clock(s);
    uv_run(&s->loop, UV_RUN_NOWAIT);
    if (s->fenced) /* whatever would be said now is the next home's to say */
        return;
    if (clock_next(&s->hub.clock) != 0 || !FAULT(TIMER))
        clock_run(&s->hub.clock);
    s->busy = is_busy(s);
    hub_submit(&s->hub, s->busy); /* the staged changes become the next batch */
    if (hub_is_trusted(&s->hub))
        ws_flush_woken(&s->front); /* committed events go out, many lines at once */
    neighbours_turn(s->neighbours);
    if (server_reaches_others(s))
        server_begin(s);
    proceed_drain(s);
    hub_reap(&s->hub); /* no function is active on them any more */
}

/* --- the hub ---------------------------------------------------------------------------------- */

static bool is_trusted(void *arg)
{
    return cluster_is_trusted(((struct server *)arg)->cluster);
}

/* Where people reach the page, whatever is behind its path. */
static bool on_link(void *arg, struct str owner, struct str conversation_id, struct str file_id,
                    struct buf *out)
{
    struct server *s = arg;
    struct file_link link = {owner, conversation_id, file_id};
    struct str page = {s->config->public_url, strcspn(s->config->public_url, "?")};
    while (page.n > 0 && page.p[page.n - 1] == '/')
        page.n--;
    buf_putstr(out, page);
    buf_putf(out, "/v1/conversations/%.*s/files/%.*s?" FILE_LINK_QUERY "=", (int)conversation_id.n,
             conversation_id.p, (int)file_id.n, file_id.p);
    return page.n > 0 && front_sign_file(&s->front, &link, out);
}

/* With the store in memory no row would name them after a restart. */
static bool open_files(struct server *s)
{
    const struct file_store_ops *ops = s->pg ? &store_pg_bytes_ops : &file_folder_ops;
    void *store = s->pg       ? store_pg_bytes_open(s->pg)
                  : s->sqlite ? file_folder_open(s->config->data)
                              : NULL;
    if (!store && s->sqlite) {
        log_event(LEVEL_ERROR, "files", "cannot_open", LOG_TEXT("why", strerror(errno)));
        return false;
    }
    if (!store && server_is_front(s))
        http_files_init(&s->front); /* the home has the files */
    if (!store)
        return true;
    s->files = s->front.files =
        files_open(&s->loop, &s->hub, s->config->data,
                   (int64_t)s->config->rim_limits.file_mib << 20, ops, store);
    s->lender = files_lender(s->files);
    s->lender.link = on_link;
    s->lender.link_arg = s;
    if (s->config->terminal.workdir)
        files_set_workspaces(s->files, s->config->terminal.workdir, sandbox_name);
    http_files_init(&s->front);
    return true;
}

static void on_deleted(void *arg, struct str owner, struct str conversation_id)
{
    struct server *s = arg;
    processes_delete(s->terminal.processes, owner, conversation_id);
    agents_forget(s->config, s->agents, s->n_agents, owner, conversation_id);
}

static bool on_sign(void *arg, struct str claims, struct buf *out)
{
    return front_sign(&((struct server *)arg)->front, claims, out);
}

static void on_told(void *arg, const struct call *c, enum error e)
{
    audited_call(((struct server *)arg)->audit, c, e);
}

static bool open_audit(struct server *s)
{
    struct audit_options o = {s->config->audit.path, s->config->audit.rotate_mib << 20,
                              s->config->audit.keep};
    if (!o.path)
        return true;
    s->audit = audit_open(&o);
    if (!s->audit)
        log_event(LEVEL_ERROR, "audit", "cannot_open", LOG_TEXT("file", o.path),
                  LOG_TEXT("why", strerror(errno)));
    s->front.audit = s->audit;
    return s->audit;
}

static void on_happened(void *arg, const struct task *task, enum event_type event, struct str data,
                        int64_t at)
{
    struct server *s = arg;
    traces_happened(s->traces, task, event, data, at);
}

static bool open_hub(struct server *s)
{
    struct store_start start = {0};
    if (s->store_ops->start(s->store, &start) < 0) {
        log_event(LEVEL_ERROR, "store", "cannot_read", LOG_TEXT("why", "the store's state"));
        return false;
    }
    struct hub_options o = {
        .agents = s->agents,
        .n_agents = s->n_agents,
        .limits = s->config->limits,
        .retention = {.task_ms = (int64_t)s->config->retention.task_days * 86400000,
                      .owner_bytes = (int64_t)(s->config->rim_limits.store_mib_per_owner << 20),
                      .store_bytes = (int64_t)s->config->retention.store_gib << 30},
        .outbox = webhooks_outbox(s->webhooks),
        .cache_bytes = (size_t)s->config->store.replay_cache_mib << 20,
        .retry_ms = (msec_t)s->config->store.retry_s * 1000,
        .chain_digest = s->config->store.chain ? chain_digest : NULL,
        .notice_join_ms = NOTICE_JOIN_MS,
        .secrets = s->secrets,
        .version = HOLDFAST_VERSION,
        .public_url = *s->config->public_url ? s->config->public_url : NULL,
        .random = random_bytes,
        .damaged = server_on_damage,
        .reported = server_on_task,
        .resumed = server_on_resumed,
        .failed = server_on_failed,
        .fenced = server_on_fenced,
        .shared = s->pg != NULL || server_is_front(s),
        .trusted = s->pg ? is_trusted : NULL,
        .deleted = on_deleted,
        .home = neighbours_home(s->neighbours),
        .zone_read = zone_read,
        .sign = on_sign,
        .told = s->audit ? on_told : NULL,
        .traced = s->traces != NULL,
        .trace_share = s->config->traces.percent / 100.0,
        .happened = s->traces ? on_happened : NULL,
        .arg = s};
    hub_init(&s->hub, &o, store_thread_port(s->store_thread), &start);
    s->drain.fire = on_drain;
    s->tick.fire = on_tick;
    server_refresh_clock(s);
    return true;
}

/* --- start and stop --------------------------------------------------------------------------- */

/* With the store in memory no task is there to go on. */
static void open_kept(struct server *s)
{
    char why[256] = "";
    if (s->config->store.kind == STORE_MEMORY)
        return;
    s->kept = kept_open(s->config->data, why);
    if (!s->kept)
        log_event(LEVEL_WARN, "agents", "cannot_keep", LOG_TEXT("why", why));
}

static void sweep_kept(struct server *s)
{
    size_t n = s->kept ? kept_sweep(s->kept) : 0;
    if (n > 0)
        log_event(LEVEL_INFO, "agents", "swept", LOG_INT("programs", (int64_t)n));
}

/* The first time the gateway begins with it; later slots come while it serves others. */
static void on_opened(void *arg, int status)
{
    struct server *s = arg;
    if (s->stopped)
        return;
    if (status < 0) {
        server_report_repair(s, status);
        s->failed = s->stopped = !s->begun;
        return;
    }
    if (s->begun) {
        webhooks_start(s->webhooks);
        return;
    }
    s->begun = true;
    if (!server_awaits_others(s))
        server_begin(s);
}

/* All that runs for owners runs at their home. */
static void begin_home(struct server *s)
{
    processes_restore(s->terminal.processes);
    sweep_kept(s);
    mcp_start(s->mcp);
    webhooks_start(s->webhooks);
    if (s->files)
        files_start(s->files);
}

static void server_begin(struct server *s)
{
    FAULT_DIE(REPAIRED);
    if (!server_is_front(s))
        begin_home(s);
    front_start(&s->front);
    if (s->front.phase == FRONT_STARTING)
        s->front.phase = FRONT_SERVING;
    notify_manager("READY=1\nSTATUS=serving");
    server_report_ready(s);
}

static void watch_signal(struct server *s, uv_signal_t *signal, int number, uv_signal_cb on_it)
{
    uv_signal_init(&s->loop, signal);
    signal->data = s;
    uv_signal_start(signal, on_it, number);
}

static bool open_traces(struct server *s)
{
    char error[256] = "";
    if (!s->config->traces.url)
        return true;
    const struct traces_options o = {&s->loop, &s->hub, s->fetcher, s->config, s->secrets};
    s->traces = traces_open(&o, error, sizeof error);
    if (!s->traces)
        log_event(LEVEL_ERROR, "traces", "cannot_open", LOG_TEXT("why", error));
    return s->traces;
}

static bool build_agents(struct server *s)
{
    char error[256] = "";
    struct agents_rim rim = {s->fetcher, &s->terminal, s->mcp,     s->kept,
                             &s->loop,   s->workers,   s->secrets, s->files ? &s->lender : NULL,
                             s->traces};
    if (agents_build(s->config, &rim, &s->agents, &s->n_agents, error, sizeof error))
        return true;
    log_event(LEVEL_ERROR, "agents", "cannot_build", LOG_TEXT("why", error));
    return false;
}

static bool open_auth(struct server *s)
{
    struct buf faults = {0};
    front_set_auth(&s->front, auth_open(s->config, s->config->data, &faults));
    if (!s->front.auth)
        log_event(LEVEL_ERROR, "auth", "cannot_open", LOG_STR("why", buf_str(&faults)));
    buf_done(&faults);
    return s->front.auth;
}

static bool server_start(struct server *s)
{
    char error[MCP_ERROR_TEXT] = "";
    struct buf faults = {0};
    if (!open_audit(s) || !server_open_store(s, on_opened) || !open_files(s) || !open_auth(s))
        return false;
    s->fetcher = fetcher_open(&s->loop);
    if (!s->fetcher) {
        log_event(LEVEL_ERROR, "fetch", "cannot_open",
                  LOG_TEXT("why", "libcurl cannot be initialized"));
        return false;
    }
    strays_watch(&s->loop, &s->sigchld);
    terminal_open(&s->terminal, s->config, &s->loop, &s->hub);
    s->secrets = secrets_new();
    struct mcp_options mcp = {s->config,     &s->loop,   s->fetcher,
                              &s->hub.clock, s->secrets, s->files ? &s->lender : NULL};
    s->mcp = mcp_open(&mcp, error);
    if (!s->mcp) {
        log_event(LEVEL_ERROR, "mcp", "cannot_open", LOG_TEXT("why", error));
        return false;
    }
    s->workers = workers_open(s->config, &s->hub, &faults);
    if (!s->workers) {
        log_event(LEVEL_ERROR, "worker", "cannot_open", LOG_STR("why", buf_str(&faults)));
        buf_done(&faults);
        return false;
    }
    workers_add_secrets(s->workers, s->secrets);
    open_kept(s);
    if (!open_traces(s) || !build_agents(s))
        return false;
    s->titles = titles_open(s->config, &s->hub, s->fetcher, s->secrets, error, sizeof error);
    if (!s->titles) {
        log_event(LEVEL_ERROR, "titles", "cannot_open", LOG_TEXT("why", error));
        return false;
    }
    s->webhooks = webhooks_open(&s->hub, s->fetcher, s->config, s->secrets, error, sizeof error);
    if (!s->webhooks) {
        log_event(LEVEL_ERROR, "webhook", "cannot_open", LOG_TEXT("why", error));
        return false;
    }
    log_hide(s->secrets);
    s->neighbours = neighbours_open(&s->front, s->member);
    if (!s->neighbours || !open_hub(s))
        return false;
    s->hub_is_open = true;
    if (s->config->auth.jwks_url)
        s->jwks = jwks_open(&s->hub.clock, s->fetcher, s->config->auth.jwks_url, s->config->data);
    auth_set_jwks(s->front.auth, s->jwks);
    workers_start(s->workers);
    if (s->config->n_workers > 0)
        s->doors = worker_ws_open(&s->front, s->workers);
    if (!front_open(&s->front))
        return false;
    watch_signal(s, &s->sigterm, SIGTERM, on_signal);
    watch_signal(s, &s->sigint, SIGINT, on_signal);
    watch_signal(s, &s->sighup, SIGHUP, on_hangup);
    timer_arm(&s->hub.clock, &s->tick, s->hub.clock.now_ms + TICK_MS);
    cluster_start(s->cluster);
    return true;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void on_end_timer(uv_timer_t *timer)
{
    timer->data = NULL;
}

/* Agents were killed: collects what is left of them, but does not wait for what does not die. */
static void run_out(struct server *s)
{
    uv_timer_t timer;
    uv_timer_init(&s->loop, &timer);
    uv_unref((uv_handle_t *)&timer);
    timer.data = s;
    uv_timer_start(&timer, on_end_timer, END_WAIT_MS, 0);
    while (timer.data && uv_run(&s->loop, UV_RUN_NOWAIT))
        uv_run(&s->loop, UV_RUN_ONCE);
    uv_walk(&s->loop, close_handle, NULL);
    while (uv_run(&s->loop, UV_RUN_NOWAIT))
        ;
}

static void server_stop(struct server *s)
{
    cluster_stop(s->cluster);
    files_stop(s->files);
    if (s->store_thread) /* first: lws closes a descriptor twice, and it must still be free */
        store_thread_close(s->store_thread, NULL, NULL);
    cluster_join(s->cluster);
    uv_signal_t *const signals[] = {&s->sigterm, &s->sigint, &s->sighup, &s->sigchld};
    for (size_t i = 0; i < countof(signals); i++)
        if (signals[i]->data)
            uv_close((uv_handle_t *)signals[i], NULL);
    front_close(&s->front);
    neighbours_close(s->neighbours);
    worker_ws_close(s->doors);
    mcp_stop(s->mcp);
    jwks_close(s->jwks);
    titles_close(s->titles);
    s->titles = NULL;
    if (s->hub_is_open) {
        workers_stop(s->workers);
        hub_done(&s->hub);
    }
    files_close(s->files);
    webhooks_close(s->webhooks);
    agents_free(s->agents, s->n_agents);
    mcp_close(s->mcp);
    kept_close(s->kept);
    workers_close(s->workers);
    terminal_close(&s->terminal);
    traces_close(s->traces);
    fetcher_close(s->fetcher);
    cluster_close(s->cluster);
    run_out(s);
    front_done(&s->front);
    uv_loop_close(&s->loop);
    if (s->store)
        s->store_ops->close(s->store);
    audit_close(s->audit);
    log_hide(NULL);
    secrets_free(s->secrets);
}

int server_run(const struct config *config, const struct crew_member *member)
{
    struct config fitted = *config;
    struct server *s = xcalloc(sizeof *s);
    s->config = &fitted;
    s->member = member;
    if (server_is_front(s))
        fitted.store.kind = STORE_MEMORY; /* in which nothing is ever put */
    front_init(&s->front, &s->loop, &s->hub, &fitted);
    if (member) {
        s->front.listen_fd = member->port_fd;
        s->front.is_activated = member->is_activated;
        s->front.is_ahead = server_is_ahead;
    }
    s->front.write_metrics = server_put_metrics;
    s->front.drain = begin_drain;
    s->front.metrics_arg = s;
    http_export_init(&s->front);
    faces_init(&s->front);
    s->front.max_sockets = descriptors_fit(&fitted);
    strays_adopt();
    uv_loop_init(&s->loop);
    bool started = server_start(s);
    while (started && !s->stopped)
        server_turn(s);
    int code = s->fenced ? EXIT_FENCED : started && !s->failed ? 0 : 1;
    server_stop(s);
    free(s);
    log_event(LEVEL_INFO, "server", "stopped", LOG_INT("code", code));
    return code;
}
