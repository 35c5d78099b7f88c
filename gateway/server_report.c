/* Reports: that the server serves; and those of the hub about tasks, for the log and the traces. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/task.h"
#include "gateway/agents/titles.h"
#include "gateway/base/fault.h"
#include "gateway/base/log.h"
#include "gateway/server.h"
#include "gateway/traces/traces.h"

/* Where a browser finds the page: no browser opens the address of all interfaces. */
static void put_page_url(const struct server *s, char *out, size_t n)
{
    const char *host = s->config->listen_host, *scheme = s->config->tls.cert ? "https" : "http";
    if (*s->config->public_url)
        snprintf(out, n, "%s", s->config->public_url);
    else if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
        snprintf(out, n, "%s://localhost:%d", scheme, s->front.port);
    else if (strchr(host, ':'))
        snprintf(out, n, "%s://[%s]:%d", scheme, host, s->front.port);
    else
        snprintf(out, n, "%s://%s:%d", scheme, host, s->front.port);
}

void server_report_ready(const struct server *s)
{
    char url[512];
    bool is_v6 = strchr(s->config->listen_host, ':') != NULL;
    printf("{\"event\":\"ready\",\"listen\":\"%s%s%s:%d\",\"version\":\"%s\"}\n", is_v6 ? "[" : "",
           s->config->listen_host, is_v6 ? "]" : "", s->front.port, HOLDFAST_VERSION);
    fflush(stdout);
    put_page_url(s, url, sizeof url);
    log_event(LEVEL_INFO, "server", "ready", LOG_INT("port", s->front.port),
              LOG_INT("tasks", s->hub.n_live), LOG_TEXT("open", url));
    if (isatty(STDERR_FILENO) && !server_is_front(s))
        fprintf(stderr, "\nOpen %s in a browser. Ctrl-C stops.\n\n", url);
}

void server_on_damage(const char *task_id, uint64_t seq)
{
    log_event_limited(LEVEL_ERROR, "store", "damaged", LOG_TEXT("task", task_id),
                      LOG_INT("from_seq", (int64_t)seq),
                      LOG_TEXT("why", "its events are not on disk as they were written"));
}

/* Logs ids and codes, never contents; a busy gateway ends more tasks than anybody can read of. */
static void log_task(const struct task_record *t)
{
    enum task_status status = t->state.status;
    struct str code = t->state.error ? str_of(task_error_code(t->state.error)) : STR("none"),
               name = str_of(status_name(status));
#define FIELDS                                                                \
    LOG_STR("task", t->task_id), LOG_STR("conversation", t->conversation_id), \
        LOG_STR("agent", t->agent), LOG_STR("status", name), LOG_STR("error", code)
    if (status == STATUS_FAILED)
        log_event_limited(LEVEL_WARN, "task", "ended", FIELDS);
    else if (status_is_terminal(status))
        log_event_limited(LEVEL_INFO, "task", "ended", FIELDS);
    else
        log_event(LEVEL_DEBUG, "task", status == STATUS_PENDING ? "created" : "started", FIELDS);
#undef FIELDS
}

void server_on_task(void *arg, const struct task_record *t)
{
    struct server *s = arg;
    log_task(t);
    if (s->traces)
        traces_reported(s->traces, t);
    titles_reported(s->titles, t);
}

void server_on_resumed(void *arg, const struct task_record *t, unsigned attempt, uint64_t retracted)
{
    struct server *s = arg;
    if (s->traces)
        traces_resumed(s->traces, t, attempt);
    log_event_limited(LEVEL_INFO, "task", "resumed", LOG_STR("task", t->task_id),
                      LOG_STR("conversation", t->conversation_id), LOG_STR("agent", t->agent),
                      LOG_INT("attempt", attempt), LOG_INT("retracted", (int64_t)retracted));
    FAULT_DIE(STAGED);
}

void server_on_failed(struct str task_id, const char *agent, struct str why)
{
    log_event_limited(LEVEL_WARN, "task", "failed", LOG_STR("task", task_id),
                      LOG_TEXT("agent", agent), LOG_STR("said", why));
}
