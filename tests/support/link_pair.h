/* link_pair -- two nodes in one process, over a real socket: a front, and the home of every owner
 * but "here".
 *
 * Shape:    pump is a turn of both; AWAIT turns until something is so.  The home has the agents.
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_LINK_PAIR_H
#define TESTS_SUPPORT_LINK_PAIR_H

#include <poll.h>

#include "gateway/links/links.h"
#include "proto/link.h"
#include "proto/str.h"
#include "tests/support/hub_kit.h"

#define HOME_INCARNATION 7
#define FRONT_INCARNATION 9
#define PATIENCE_MS 60000

static uv_loop_t loop;
static struct kit *home, *front;
static struct links *home_links, *front_links;
static bool is_homeless, is_mute; /* the home is no home any more; it may say nothing */
static uint64_t last_ms;

static inline uint64_t front_home_of(void *arg, unsigned slot)
{
    (void)arg;
    return slot == slot_of(STR("here")) ? 0 : HOME_INCARNATION;
}

static inline uint64_t home_home_of(void *arg, unsigned slot)
{
    (void)arg, (void)slot;
    return 0;
}

static inline bool is_here(void *arg, struct str owner)
{
    (void)owner;
    return arg == home && !is_homeless;
}

static inline bool may_speak(void *arg)
{
    return arg != home || !is_mute;
}

static inline bool identify(void *arg, struct str token, struct identity *ret)
{
    (void)arg;
    if (str_eq(token, STR("bad"))) {
        snprintf(ret->error, sizeof ret->error, "a bad token");
        return false;
    }
    memcpy(ret->owner, token.p, token.n);
    ret->owner_len = token.n;
    return true;
}

static bool home_tls, front_tls; /* of the next pair */

static inline struct links *open_links(struct kit *k, uint64_t incarnation, const char *secret,
                                       const char *listen)
{
    char error[LINKS_ERROR_TEXT] = "";
    struct links_options o = {.loop = &loop,
                              .hub = &k->hub,
                              .cluster = STR("test"),
                              .node = listen ? STR("home") : STR("front"),
                              .secret = str_of(secret),
                              .incarnation = incarnation,
                              .listen = listen,
                              .tls = listen ? home_tls : front_tls,
                              .arg = k,
                              .home_of = listen ? home_home_of : front_home_of,
                              .is_here = is_here,
                              .may_speak = may_speak,
                              .identify = identify};
    struct links *l = links_open(&o, error);
    assert_string_equal(error, "");
    k->hub.o.home = links_home(l);
    return l;
}

static inline void dial(void)
{
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", links_port(home_links));
    links_add(front_links, HOME_INCARNATION, "home", address);
}

/* --- turns ------------------------------------------------------------------------------------ */

static inline void flush_woken(struct kit *k)
{
    struct list now, *node;
    list_init(&now);
    list_splice(&now, &k->hub.woken);
    while ((node = list_pop(&now)) != NULL) {
        struct session *s = list_item(node, struct session, woken);
        struct client *c = s->rim;
        if (s->ops->flush)
            s->ops->flush(s);
        else if (!c->frozen)
            while (session_fill(s, &c->got, MAX_MESSAGE_OUT))
                buf_putc(&c->got, '\n');
    }
}

static inline void turn(struct kit *k, struct links *l)
{
    clock_run(&k->hub.clock);
    hub_submit(&k->hub, false);
    flush_woken(k);
    if (l)
        links_turn(l);
    hub_reap(&k->hub);
    while (kit_step(k))
        continue;
}

static inline void pass(msec_t ms)
{
    struct kit *const kits[] = {home, front};
    for (size_t i = 0; i < countof(kits); i++) {
        kits[i]->hub.clock.now_ms += ms;
        kits[i]->hub.clock.wall_ms += ms;
    }
}

static inline void pump(void)
{
    struct pollfd backend = {.fd = uv_backend_fd(&loop), .events = POLLIN};
    (void)poll(&backend, 1, list_is_empty(&home->hub.woken) ? 1 : 0);
    uv_update_time(&loop);
    uint64_t now = uv_now(&loop);
    pass((msec_t)(now - last_ms));
    last_ms = now;
    uv_run(&loop, UV_RUN_NOWAIT);
    turn(home, home_links);
    turn(front, front_links);
}

#define AWAIT(cond)                                              \
    do {                                                         \
        uint64_t until = uv_hrtime() + PATIENCE_MS * 1000000ULL; \
        while (!(cond)) {                                        \
            pump();                                              \
            if (uv_hrtime() > until)                             \
                fail_msg("it never came: %s", #cond);            \
        }                                                        \
    } while (0)

static inline bool is_up(void)
{
    return links_stats_of(front_links)->links_up == 1;
}

static inline bool has_got(const struct client *c, const char *part)
{
    return c->got.len && memmem(c->got.bytes, c->got.len, part, strlen(part));
}

static inline size_t count_got(const struct client *c, const char *part)
{
    const char *at = c->got.len ? c->got.bytes : "", *end = at + c->got.len;
    size_t n = 0;
    for (; (at = memmem(at, (size_t)(end - at), part, strlen(part))) != NULL; at++)
        n++;
    return n;
}

static inline void say(struct client *c, const char *line)
{
    session_receive(&c->session, str_of(line));
}

static inline void speak(struct run *r, const char *line)
{
    r->wants_more = r->events->on_line(r->task, str_of(line));
}

/* Events of one task are dense, from 1 on. */
static inline void check_dense(const struct client *c, uint64_t last)
{
    const char *at = c->got.len ? c->got.bytes : "", *end = at + c->got.len;
    uint64_t seq = 0;
    for (; (at = memmem(at, (size_t)(end - at), json("'seq':"), 6)) != NULL; at++) {
        uint64_t n = strtoull(at + 6, NULL, 10);
        const char *line = at;
        while (line > c->got.bytes && line[-1] != '\n')
            line--;
        if (strncmp(line, EVENT_PREFIX, strlen(EVENT_PREFIX)) != 0)
            continue; /* caught_up */
        assert_int_equal(n, seq + 1);
        seq = n;
    }
    assert_int_equal(seq, last);
}

/* --- a pair of nodes -------------------------------------------------------------------------- */

static inline int setup_with(const char *secret)
{
    is_homeless = is_mute = false;
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_update_time(&loop);
    last_ms = uv_now(&loop);
    front = kit_new();
    home = kit_new(); /* the last one made has the agents */
    home_links =
        open_links(home, HOME_INCARNATION, "0123456789abcdef0123456789abcdef", "127.0.0.1:0");
    front_links = open_links(front, FRONT_INCARNATION, secret, NULL);
    dial();
    return 0;
}

static inline int setup(void **state)
{
    (void)state;
    setup_with("0123456789abcdef0123456789abcdef");
    AWAIT(is_up());
    return 0;
}

static inline int setup_another_secret(void **state)
{
    (void)state;
    return setup_with("fedcba9876543210fedcba9876543210");
}

static inline void close_home_links(void)
{
    links_close(home_links);
    home_links = NULL;
    home->hub.o.home = NULL;
}

static inline int teardown(void **state)
{
    (void)state;
    links_close(front_links);
    front->hub.o.home = NULL;
    if (home_links)
        close_home_links();
    while (uv_loop_close(&loop) == UV_EBUSY)
        uv_run(&loop, UV_RUN_ONCE);
    for (size_t i = 0; i < home->n_runs; i++)
        if (!home->runs[i]->freed)
            home->runs[i]->events->on_end(home->runs[i]->task, RUN_DONE, STR(""));
    kit_free_all(home);
    kit_free_all(front);
    return 0;
}

static inline struct client *client_at_front(const char *owner)
{
    struct client *c = client_new(front, owner);
    AWAIT(has_got(c, "welcome"));
    return c;
}

/* --- a request -------------------------------------------------------------------------------- */

struct told {
    unsigned n;
    enum error error;
    struct buf line;
};

static inline void on_reply(void *arg, enum error e, struct str line)
{
    struct told *r = arg;
    r->n++;
    r->error = e;
    buf_clear(&r->line);
    buf_putstr(&r->line, line);
}

static inline struct call *ask(struct told *r, const char *owner, struct session *s, enum verb verb,
                               const char *task, const char *body)
{
    struct request req;
    struct request_fault fault;
    struct owner *o = owner_ref(&front->hub, str_of(owner));
    assert_true(request_from_body(&front->hub.doc, verb, STR("c"), str_of(task), str_of(body), &req,
                                  &fault));
    const struct asker who = {.owner = o, .quota = o, .session = s, .from = "192.0.2.1"};
    struct call *c = hub_request(&front->hub, &who, &req, on_reply, r);
    owner_unref(&front->hub, o);
    return c;
}

#endif
