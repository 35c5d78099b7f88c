#include "gateway/front/admin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "gateway/base/audit.h"
#include "gateway/base/log.h"
#include "gateway/cluster/cluster.h"
#include "gateway/front/address.h"
#include "gateway/front/admin_all.h"
#include "gateway/front/admin_others.h"
#include "gateway/front/relay.h"
#include "gateway/front/ws.h"
#include "proto/str.h"

#define BACKLOG 16
#define ACCEPTS_PER_TURN 16
#define OWNER_HEADER "holdfast-owner:"
#define MAX_REVOKED_S 315360000 /* ten years */
#define FOREVER_MS (1LL << 52)
#define REVOCATIONS "{\"type\":\"revocations\",\"revocations\":["

/* --- the socket ------------------------------------------------------------------------------- */

bool unix_address(const char *path, struct sockaddr_un *ret, int *ret_dir)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    *ret_dir = -1;
    if (strlen(path) < sizeof ret->sun_path) {
        memcpy(ret->sun_path, path, strlen(path));
        return true;
    }
    const char *name = strrchr(path, '/');
    char *dir = name ? xstrdup((struct str){path, (size_t)(name - path)}) : NULL;
    int n = -1;
    if (dir)
        *ret_dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(dir);
    if (*ret_dir >= 0)
        n = snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d%s", *ret_dir, name);
    if (n >= 0 && (size_t)n < sizeof ret->sun_path)
        return true;
    if (*ret_dir >= 0)
        close(*ret_dir);
    *ret_dir = -1;
    errno = n >= 0 || !name ? ENAMETOOLONG : errno;
    return false;
}

/* Removes what an earlier process left, but not a socket at which somebody listens, or another
 * file. */
static bool clear_way(const struct sockaddr_un *at)
{
    struct stat is;
    if (lstat(at->sun_path, &is) < 0)
        return errno == ENOENT;
    errno = EEXIST;
    if (!S_ISSOCK(is.st_mode))
        return false;
    /* Only a refusal shows that nobody listens: a busy or forbidden socket has a listener. */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool is_left = fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) < 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    errno = EADDRINUSE;
    return is_left && unlink(at->sun_path) == 0;
}

static bool listen_at(struct front *f, const char *path)
{
    struct sockaddr_un at;
    int dir;
    if (!unix_address(path, &at, &dir))
        return false;
    f->admin_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    mode_t mask = umask(0177);
    bool made = f->admin_fd >= 0 && clear_way(&at) &&
                bind(f->admin_fd, (const struct sockaddr *)&at, sizeof at) == 0 &&
                listen(f->admin_fd, BACKLOG) == 0;
    umask(mask);
    int error = errno;
    if (dir >= 0)
        close(dir);
    errno = error;
    return made;
}

bool admin_open(struct front *f)
{
    const char *path = f->config->admin.socket;
    if (!path)
        return true;
    if (!listen_at(f, path)) {
        log_event(LEVEL_ERROR, "admin", "cannot_listen", LOG_TEXT("socket", path),
                  LOG_TEXT("why", strerror(errno)));
        return false;
    }
    uv_poll_init(f->loop, &f->admin_listener, f->admin_fd);
    f->admin_listener.data = f;
    return true;
}

static bool is_operator(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    struct front *f = poll->data;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(f->admin_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        if (is_operator(fd)) {
            lws_adopt_socket_vhost(f->admin_vhost, fd); /* closes it on failure */
            continue;
        }
        f->refusals[REFUSED_OPERATOR]++;
        log_event_limited(LEVEL_WARN, "admin", "refused", LOG_TEXT("why", "another user"));
        close(fd);
    }
}

void admin_start(struct front *f)
{
    if (f->admin_fd >= 0)
        uv_poll_start(&f->admin_listener, UV_READABLE, on_acceptable);
}

void admin_close(struct front *f)
{
    struct sockaddr_un at;
    int dir;
    if (f->admin_listener.data) {
        uv_close((uv_handle_t *)&f->admin_listener, NULL);
        if (unix_address(f->config->admin.socket, &at, &dir)) {
            (void)unlink(at.sun_path);
            if (dir >= 0)
                close(dir);
        }
    }
    f->admin_listener.data = NULL;
}

/* --- identity --------------------------------------------------------------------------------- */

/* Asks the socket itself: the vhost cannot be trusted, because the client's Host moves a connection
 * from one to another.  By the name that was connected to: one end of a pair (relay.h) has none,
 * and is an operator's only when the gateway that has his connection says so. */
bool admin_is(struct lws *wsi)
{
    const struct front *f = lws_context_user(lws_get_context(wsi));
    const struct peer *peer = lws_get_opaque_user_data(wsi);
    if (peer && peer->is_linked)
        return peer->is_operator;
    struct sockaddr_un at = {.sun_family = AF_INET};
    socklen_t n = sizeof at;
    return f->admin_fd >= 0 &&
           getsockname(lws_get_socket_fd(wsi), (struct sockaddr *)&at, &n) == 0 &&
           at.sun_family == AF_UNIX && n > offsetof(struct sockaddr_un, sun_path);
}

bool admin_claims(struct exchange *x, const char *path)
{
    struct front *f = x->front;
    struct identity who = {0};
    if (admin_is(x->wsi)) {
        snprintf(x->from, sizeof x->from, "operator");
        return true;
    }
    bool asks = strncmp(path, "/v1/admin/", 10) == 0 ||
                lws_hdr_custom_length(x->wsi, OWNER_HEADER, sizeof OWNER_HEADER - 1) > 0;
    char *bearer = asks && f->config->auth.admin_claim ? http_bearer(x->wsi) : NULL;
    if (!bearer)
        return false;
    bool is = front_identify(f, STR_NULL, str_of(bearer), STR_NULL, &who) && who.is_admin;
    if (is) {
        address_text(f, x->wsi, x->from);
        x->operator_ = xstrdup((struct str){who.owner, who.owner_len});
    }
    x->expires_at_ms = who.expires_at_ms;
    buf_done(&who.token);
    free(bearer);
    return is;
}

static int hex(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;
    return at && (c < 'A' || c > 'Z' || c <= 'F') ? (int)(at - digits) : -1;
}

/* In place; false when a percent sign is not followed by a number, or encodes NUL. */
static bool decode_percent(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        if (*from != '%') {
            *to = *from++;
            continue;
        }
        int high = hex(from[1]), low = high < 0 ? -1 : hex(from[2]);
        if (low < 0 || high + low == 0)
            return false;
        *to = (char)(high * 16 + low);
        from += 3;
    }
    *to = 0;
    return true;
}

bool admin_take_owner(struct exchange *x)
{
    char name[3 * MAX_OWNER + 1] = "";
    int n = lws_hdr_custom_length(x->wsi, OWNER_HEADER, sizeof OWNER_HEADER - 1);
    if (n > 0 && (size_t)n < sizeof name)
        lws_hdr_custom_copy(x->wsi, name, sizeof name, OWNER_HEADER, sizeof OWNER_HEADER - 1);
    if (!decode_percent(name) || !auth_is_owner(str_of(name))) {
        http_api_fail(x, ERR_BAD_REQUEST, "the header Holdfast-Owner must name an owner");
        return false;
    }
    x->owner = owner_ref(x->front->hub, str_of(name));
    x->quota = owner_ref(x->front->hub, str_of(name));
    return true;
}

/* --- the routes ------------------------------------------------------------------------------- */

/* A change that waits for its commit; the exchange may end earlier. */
struct admin_wait {
    struct waiter waiter;
    struct exchange *x; /* NULL: ended */
};

void admin_forget(struct exchange *x)
{
    if (x->waiting)
        x->waiting->x = NULL;
    x->waiting = NULL;
    others_forget(x);
    if (x->watches) {
        list_remove(&x->all);
        x->front->n_watchers--;
    }
}

static void on_committed(struct waiter *w, int status)
{
    struct admin_wait *wait = container_of(w, struct admin_wait, waiter);
    struct exchange *x = wait->x;
    free(wait);
    if (!x)
        return;
    x->waiting = NULL;
    if (status < 0)
        http_api_fail(x, ERR_OVERLOADED,
                      "it takes effect, but the store did not accept it: a restart forgets it");
    else
        http_api_ready(x, 200);
}

static void answer_when_committed(struct exchange *x)
{
    struct admin_wait *wait = xcalloc(sizeof *wait);
    wait->waiter.done = on_committed;
    wait->x = x;
    x->waiting = wait;
    journal_wait(&x->front->hub->journal, &wait->waiter);
}

struct order {
    struct buf owner;
    int64_t for_s; /* 0: until it is lifted */
};

/* False when the request was malformed, and has been answered. */
static bool read_order(struct exchange *x, struct order *ret)
{
    struct js_doc doc = {0};
    const char *wrong = NULL;
    *ret = (struct order){0};
    if (!js_parse(&doc, x->body.len ? x->body.bytes : "", x->body.len, JS_CLIENT) ||
        js_type(&doc, 0) != JS_OBJECT) {
        wrong = "the body must be a JSON object";
    } else {
        uint32_t owner = js_get(&doc, 0, "owner"), for_s = js_get(&doc, 0, "for_s");
        if (owner && js_type(&doc, owner) == JS_STRING)
            js_value(&doc, owner, &ret->owner);
        if (!auth_is_owner(buf_str(&ret->owner)))
            wrong = "\"owner\" must name an owner";
        else if (for_s && (!js_int(&doc, for_s, &ret->for_s) || ret->for_s < 1 ||
                           ret->for_s > MAX_REVOKED_S))
            wrong = "\"for_s\" must be an integer from 1 to 315360000";
    }
    js_done(&doc);
    if (wrong) {
        http_api_fail(x, ERR_BAD_REQUEST, wrong);
        buf_done(&ret->owner);
    }
    return !wrong;
}

static void put_closed(struct exchange *x, const struct order *o, enum close_code code,
                       const char *why)
{
    struct front *f = x->front;
    struct str owner = buf_str(&o->owner);
    uint32_t n = ws_close_owner(f, owner, code, why) + sse_close_owner(f, owner);
    if (f->close_linked)
        n += f->close_linked(f->linked_arg, owner, code, why);
    buf_puts(&x->answer, "{\"type\":\"ok\"");
    js_put_int(&x->answer, "closed", n);
}

static void audit_order(struct exchange *x, const char *event, const struct order *o)
{
    struct audit_line line = {.event = event,
                              .outcome = "ok",
                              .owner = buf_str(&o->owner),
                              .from = str_of(x->from),
                              .conversation = STR_NULL,
                              .task = STR_NULL,
                              .agent = STR_NULL,
                              .input = STR_NULL};
    audit_write(x->front->audit, x->front->hub->clock.wall_ms, &line);
}

/* Only the owner's home may write about it, and knows all connections of his: an order that comes
 * to another gateway goes there. */
static bool read_order_at_home(struct exchange *x, struct order *ret)
{
    if (!read_order(x, ret))
        return false;
    if (!relay_order(x, buf_str(&ret->owner)))
        return true;
    buf_done(&ret->owner);
    return false;
}

void admin_kick(struct exchange *x)
{
    struct order o;
    if (!read_order_at_home(x, &o))
        return;
    put_closed(x, &o, CLOSE_GOING_AWAY, NULL);
    buf_putc(&x->answer, '}');
    log_event(LEVEL_INFO, "admin", "kicked", LOG_STR("owner", buf_str(&o.owner)));
    audit_order(x, "kick", &o);
    buf_done(&o.owner);
    http_api_ready(x, 200);
}

void admin_revoke(struct exchange *x)
{
    struct order o;
    if (!read_order_at_home(x, &o))
        return;
    int64_t until = o.for_s ? x->front->hub->clock.wall_ms + o.for_s * 1000 : FOREVER_MS;
    revocations_set(x->front->hub, buf_str(&o.owner), until);
    put_closed(x, &o, CLOSE_UNAUTHORIZED, "revoked");
    if (o.for_s)
        js_put_int(&x->answer, "until", until);
    buf_putc(&x->answer, '}');
    log_event(LEVEL_INFO, "admin", "revoked", LOG_STR("owner", buf_str(&o.owner)));
    audit_order(x, "revoke", &o);
    buf_done(&o.owner);
    answer_when_committed(x);
}

void admin_unrevoke(struct exchange *x)
{
    struct order o;
    if (!read_order_at_home(x, &o))
        return;
    revocations_set(x->front->hub, buf_str(&o.owner), 0);
    buf_puts(&x->answer, "{\"type\":\"ok\"}");
    log_event(LEVEL_INFO, "admin", "unrevoked", LOG_STR("owner", buf_str(&o.owner)));
    audit_order(x, "unrevoke", &o);
    buf_done(&o.owner);
    answer_when_committed(x);
}

static void put_revocation(void *arg, const char *owner, int64_t until)
{
    struct exchange *x = arg;
    struct buf *out = &x->answer;
    if (until <= x->front->hub->clock.wall_ms)
        return;
    if (out->bytes[out->len - 1] == '}')
        buf_putc(out, ',');
    buf_putc(out, '{');
    js_put_field(out, "owner", str_of(owner));
    if (until < FOREVER_MS)
        js_put_int(out, "until", until);
    buf_putc(out, '}');
}

static void put_gateway(struct buf *out, const struct cluster *c, const struct store_node *node)
{
    static const char *const states[] = {"live", "leaving", "dead"};
    buf_putc(out, '{');
    js_put_field(out, "node", str_of(node->name));
    js_put_field(out, "state", str_of(states[node->state]));
    js_put_int(out, "slots", cluster_slots_of(c, node->incarnation));
    js_put_int(out, "load", node->load);
    js_put_int(out, "incarnation", node->incarnation);
    js_put_field(out, "version", str_of(node->version));
    if (node->link[0])
        js_put_field(out, "link", str_of(node->link));
    if (node->incarnation == cluster_incarnation(c)) {
        struct cluster_counts n = cluster_count(c);
        js_put_raw(out, "this", STR("true"));
        js_put_int(out, "open", n.open);
        js_put_int(out, "coming", n.coming);
        js_put_int(out, "moving", n.leaving);
        if (n.unrepaired)
            js_put_int(out, "unrepaired", n.unrepaired);
    }
    buf_putc(out, '}');
}

void admin_nodes(struct exchange *x)
{
    const struct cluster *c = x->front->cluster;
    const struct store_node *node;
    buf_puts(&x->answer, "{\"type\":\"nodes\",\"nodes\":[");
    for (size_t i = 0; (node = cluster_node(c, i)) != NULL; i++) {
        if (i > 0)
            buf_putc(&x->answer, ',');
        put_gateway(&x->answer, c, node);
    }
    buf_puts(&x->answer, "]");
    js_put_int(&x->answer, "slots_of_nobody", cluster_slots_of(c, 0));
    buf_puts(&x->answer, "}");
    http_api_ready(x, 200);
}

/* Each gateway knows those of its owners. */
static void join_revocations(struct exchange *x, struct str answer)
{
    struct str rows = str_from(answer, strlen(REVOCATIONS) < answer.n ? strlen(REVOCATIONS) : 0);
    while (rows.n > 0 && rows.p[rows.n - 1] != ']')
        rows.n--;
    if (rows.n <= 1)
        return;
    rows.n--;
    if (x->answer.bytes[x->answer.len - 1] == '}')
        buf_putc(&x->answer, ',');
    buf_putstr(&x->answer, rows);
}

static void end_revocations(struct exchange *x)
{
    buf_puts(&x->answer, "]}");
    http_api_ready(x, 200);
}

void admin_revocations(struct exchange *x)
{
    static const struct admin_all how = {join_revocations, end_revocations};
    buf_puts(&x->answer, REVOCATIONS);
    revocations_each(&x->front->hub->revocations, put_revocation, x);
    admin_ask_all(x, &how);
}
