/* Paths and methods: the table of the wire's own requests, then those of other protocols. */
#include <stdlib.h>

#include "gateway/front/admin.h"
#include "gateway/front/admin_state.h"
#include "gateway/front/http_api.h"
#include "gateway/front/lws_quirks.h"

/* A row: method, path, verb, parameters of the query that become members, status of a success. */
#define WIRE(method_, pattern_, verb_, query_, status_)                             \
    .method = (method_), .pattern = (pattern_), .verb = (verb_), .query = (query_), \
    .made_status = (status_)
#define OWN(method_, pattern_, function) \
    WIRE(method_, pattern_, VERB_HELLO, "", 200), .own = (function)

static const struct route routes[] = {
    {WIRE(POST, "/v1/conversations/{c}/tasks", VERB_CHAT, "", 201)},
    {WIRE(GET, "/v1/conversations", VERB_CONVERSATIONS, "limit before pinned archived", 200)},
    {WIRE(DELETE, "/v1/conversations/{c}", VERB_DELETE, "", 200)},
    {WIRE(PATCH, "/v1/conversations/{c}", VERB_TITLE, "", 200)},
    {WIRE(GET, "/v1/conversations/{c}/tasks", VERB_TASKS, "limit before status turns", 200)},
    {WIRE(DELETE, "/v1/conversations/{c}/tasks", VERB_CANCEL_ALL, "", 200)},
    {WIRE(GET, "/v1/conversations/{c}/tasks/{t}", VERB_TASK_GET, "", 200)},
    {WIRE(DELETE, "/v1/conversations/{c}/tasks/{t}", VERB_CANCEL, "tree", 200)},
    {WIRE(GET, "/v1/conversations/{c}/tasks/{t}/events", VERB_RESUME, "after coalesce rollup_ms",
          200),
     .is_events = true},
    {WIRE(POST, "/v1/conversations/{c}/tasks/{t}/messages", VERB_SEND, "", 200)},
    {WIRE(POST, "/v1/conversations/{c}/tasks/{t}/responses", VERB_RESPOND, "", 200)},
    {WIRE(POST, "/v1/conversations/{c}/tasks/{t}/webhooks", VERB_WEBHOOK, "", 200)},
    {WIRE(GET, "/v1/conversations/{c}/tasks/{t}/webhooks", VERB_WEBHOOKS, "", 200)},
    {WIRE(DELETE, "/v1/conversations/{c}/tasks/{t}/webhooks", VERB_WEBHOOK_DELETE, "webhook_id",
          200)},
    {WIRE(GET, "/v1/conversations/{c}/messages", VERB_HISTORY, "limit before all", 200)},
    {WIRE(POST, "/v1/conversations/{c}/branch", VERB_BRANCH, "", 200)},
    {WIRE(GET, "/v1/conversations/{c}/results", VERB_RESULTS, "limit before", 200)},
    {WIRE(POST, "/v1/conversations/{c}/results/ack", VERB_ACK, "", 200)},
    {WIRE(POST, "/v1/conversations/{c}/schedules", VERB_SCHEDULE, "", 201)},
    {WIRE(POST, "/v1/schedules", VERB_SCHEDULE, "", 201)},
    {WIRE(GET, "/v1/schedules", VERB_SCHEDULES, "limit before", 200)},
    {WIRE(GET, "/v1/conversations/{c}/schedules", VERB_SCHEDULES, "limit before", 200)},
    {WIRE(PATCH, "/v1/schedules", VERB_RESCHEDULE, "", 200)},
    {WIRE(DELETE, "/v1/schedules", VERB_UNSCHEDULE, "schedule_id", 200)},
    {WIRE(POST, "/v1/conversations/{c}/shares", VERB_SHARE, "", 201)},
    {WIRE(GET, "/v1/conversations/{c}/shares", VERB_SHARES, "limit before", 200)},
    {WIRE(GET, "/v1/watch", VERB_WATCH, "events cursor rollup_ms", 200), .is_events = true},
    {WIRE(GET, "/v1/search", VERB_SEARCH, "query limit before", 200)},
    {WIRE(GET, "/v1/shares", VERB_SHARES, "limit before", 200)},
    {WIRE(DELETE, "/v1/shares", VERB_UNSHARE, "share_id", 200)},
    {WIRE(POST, "/v1/handover", VERB_HANDOVER, "", 201)},
    {WIRE(POST, "/v1/conversations/{c}/pin", VERB_PIN, "", 200)},
    {WIRE(POST, "/v1/conversations/{c}/archive", VERB_ARCHIVE, "", 200)},
    {WIRE(POST, "/v1/conversations/{c}/fork", VERB_FORK, "", 201)},
    {OWN(POST, "/v1/handover/token", http_api_take_handover)},
    {OWN(POST, "/v1/guest", http_api_make_guest)},
    {OWN(POST, "/v1/admin/kick", admin_kick), .is_admins = true},
    {OWN(POST, "/v1/admin/revoke", admin_revoke), .is_admins = true},
    {OWN(POST, "/v1/admin/unrevoke", admin_unrevoke), .is_admins = true},
    {OWN(GET, "/v1/admin/revocations", admin_revocations), .is_admins = true},
    {OWN(GET, "/v1/admin/nodes", admin_nodes), .is_admins = true},
    {OWN(GET, "/v1/admin/state", admin_state), .is_admins = true},
    {OWN(GET, "/v1/admin/watch", admin_watch), .is_admins = true},
    {OWN(POST, "/v1/admin/drain", admin_stop), .is_admins = true},
};

static const enum lws_token_indexes uri_of[] = {
    [GET] = WSI_TOKEN_GET_URI,     [POST] = WSI_TOKEN_POST_URI, [DELETE] = WSI_TOKEN_DELETE_URI,
    [PATCH] = WSI_TOKEN_PATCH_URI, [HEAD] = WSI_TOKEN_HEAD_URI, [PUT] = WSI_TOKEN_PUT_URI};

enum method http_method(struct lws *wsi)
{
    enum method m = GET;
    while (m < OTHER && lws_hdr_total_length(wsi, uri_of[m]) <= 0)
        m++;
    return m;
}

/* Walks pattern and path together; a brace matches up to the next slash, or up to the character
 * that follows it in the pattern; {p} all of the rest. */
static bool match(struct exchange *x, const char *pattern, const char *path)
{
    while (*pattern) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        const char ends[] = {'/', pattern[3], 0};
        char **to = pattern[1] == 'c'   ? &x->conversation_id
                    : pattern[1] == 't' ? &x->task_id
                                        : &x->agent;
        size_t n = pattern[1] == 'p' ? strlen(path) : strcspn(path, ends);
        free(*to);
        *to = xstrdup((struct str){path, n});
        path += n;
        pattern += 3;
    }
    return *path == 0;
}

static const struct route *find_in(struct exchange *x, enum method method, const char *path,
                                   const struct route *table, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (table[i].method == method && (x->is_admins || !table[i].is_admins) &&
            match(x, table[i].pattern, path))
            return &table[i];
    return NULL;
}

#define OURS "/v1/conversations/"

/* A path whose id cannot be one (it contains a slash, encoded or not): another protocol reports it
 * like any other bad id.  Only for a route with one id; if whole, the rest of the path must match
 * too. */
static const struct route *find_loosely(struct exchange *x, enum method method, const char *path,
                                        bool whole)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < x->front->n_routes; i++) {
        const struct route *route = &x->front->routes[i];
        size_t n = strcspn(route->pattern, "{");
        if (route->method != method || strncmp(route->pattern + n, "{c}", 3) != 0 ||
            strncmp(route->pattern, OURS, strlen(OURS)) == 0)
            continue;
        const char *rest = route->pattern + n + 3;
        size_t tail = whole ? strlen(rest) : 0;
        if (strchr(rest, '{') || strncmp(path, route->pattern, n) != 0 || len < n + tail ||
            strncmp(path + len - tail, rest, tail) != 0)
            continue;
        free(x->conversation_id);
        x->conversation_id = xstrdup(STR(""));
        return route;
    }
    return NULL;
}

/* Returns NULL when it was answered.  A bad id may change the path (an encoded slash, a dot), and
 * gets the same answer as any other bad id (PROTOCOL.md section 5). */
const struct route *http_route_find(struct exchange *x, enum method method, const char *path)
{
    bool names_task = strstr(path, "/tasks/") || strncmp(path, "/v1/stream/", 11) == 0;
    bool names_file = strstr(path, "/files/") || strstr(path, "/workspace");
    bool whole = method == OTHER || lws_quirk_path_is_whole(x->wsi, uri_of[method], &names_task);
    const struct route *found = NULL;
    if (whole)
        found = find_in(x, method, path, routes, countof(routes));
    if (whole && !found)
        found = find_in(x, method, path, x->front->routes, x->front->n_routes);
    if (found && x->is_admins && found->kind)
        found = NULL; /* the operator speaks no other protocol */
    if (!found && !x->is_admins && !names_task && !names_file)
        found = find_loosely(x, method, path, whole);
    if (found)
        return found;
    http_api_fail(x, ERR_NOT_FOUND,
                  names_task   ? "no such task"
                  : names_file ? NO_SUCH_FILE
                               : "there is nothing at this path for this method");
    return NULL;
}
