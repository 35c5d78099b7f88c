/* The servers, and the tools that runs get of them. */
#include "gateway/mcp/mcp.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/secret_lines.h"
#include "gateway/mcp/mcp_private.h"
#include "proto/str.h"

/* One entry of an agent's tools. */
struct wished {
    struct mcp_server *server;
    const char *tool; /* "*": all */
};

struct mcp_wish {
    struct mcp *mcp;
    struct wished *list;
    size_t n;
};

struct mcp_hand {
    struct list node; /* in the hands that wait */
    const struct mcp_wish *wish;
    void (*ready)(void *user);
    void *user;
    bool is_ready;
    msec_t opened_ms;
    struct timer patience;
    struct mcp_list **lists; /* as many as n_lists: what keeps the tools */
    size_t n_lists;
    const struct tool **tools;
    size_t n;
    struct buf missing;
};

/* --- servers ---------------------------------------------------------------------------------- */

struct mcp *mcp_open(const struct mcp_options *o, char ret_error[MCP_ERROR_TEXT])
{
    const struct config *c = o->config;
    struct mcp *m = xcalloc(sizeof *m);
    m->o = *o;
    m->n = c->n_mcp;
    m->servers = xcalloc((m->n + 1) * sizeof *m->servers);
    list_init(&m->hands);
    for (size_t i = 0; i < m->n; i++)
        mcp_server_init(&m->servers[i], m, &c->mcp[i]);
    for (size_t i = 0; i < m->n; i++)
        secret_lines_add(o->secrets, c->mcp[i].env.list, '=');
    for (size_t i = 0; i < m->n; i++)
        if (!mcp_program_works(&c->mcp[i], ret_error)) {
            mcp_close(m);
            return NULL;
        }
    return m;
}

void mcp_start(struct mcp *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->servers[i].wanted)
            mcp_server_open(&m->servers[i]);
}

void mcp_stop(struct mcp *m)
{
    for (size_t i = 0; m && i < m->n; i++)
        if (m->servers[i].wanted && !m->servers[i].stopped)
            mcp_server_stop(&m->servers[i]);
}

void mcp_close(struct mcp *m)
{
    if (!m)
        return;
    ASSERT(list_is_empty(&m->hands));
    for (size_t i = 0; i < m->n; i++)
        mcp_server_done(&m->servers[i]);
    free(m->servers);
    free(m);
}

bool mcp_stats(const struct mcp *m, size_t at, struct mcp_stats *ret)
{
    for (size_t i = 0; m && i < m->n; i++) {
        if (!m->servers[i].wanted || at-- > 0)
            continue;
        *ret = m->servers[i].stats;
        return true;
    }
    return false;
}

/* --- wishes ----------------------------------------------------------------------------------- */

struct mcp_wish *mcp_wish_new(struct mcp *m, const struct config_texts *tools)
{
    struct mcp_wish *wish = NULL;
    const char *tool;
    for (size_t i = 0; i < tools->n; i++) {
        const struct config_mcp *c = config_find_mcp(m->o.config, tools->list[i], &tool);
        if (!c)
            continue;
        if (!wish) {
            wish = xcalloc(sizeof *wish);
            wish->mcp = m;
            wish->list = xcalloc(tools->n * sizeof *wish->list);
        }
        struct mcp_server *server = &m->servers[c - m->o.config->mcp];
        server->wanted = true;
        wish->list[wish->n++] = (struct wished){server, tool};
    }
    return wish;
}

void mcp_wish_free(struct mcp_wish *wish)
{
    if (!wish)
        return;
    free(wish->list);
    free(wish);
}

/* --- hands ------------------------------------------------------------------------------------ */

static void put_missing(struct mcp_hand *h, const struct wished *w, const char *why)
{
    buf_puts(&h->missing, h->missing.len ? ",{" : "{");
    js_put_field(&h->missing, "server", str_of(w->server->config->name));
    js_put_field(&h->missing, "tool", str_of(w->tool));
    js_put_field(&h->missing, "why", str_of(why));
    buf_putc(&h->missing, '}');
}

static bool has_tool(const struct mcp_hand *h, const struct tool *tool)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->tools[i] == tool)
            return true;
    return false;
}

static void add_tool(struct mcp_hand *h, const struct mcp_entry *e)
{
    if (has_tool(h, &e->tool))
        return;
    h->tools = xrealloc(h->tools, (h->n + 1) * sizeof *h->tools);
    h->tools[h->n++] = &e->tool;
}

static void take_list(struct mcp_hand *h, struct mcp_list *list)
{
    list->refs++;
    h->lists = xrealloc(h->lists, (h->n_lists + 1) * sizeof *h->lists);
    h->lists[h->n_lists++] = list;
}

static void grant(struct mcp_hand *h, const struct wished *w)
{
    struct mcp_server *s = w->server;
    const char *why = s->why[0] ? s->why : "it has not listed its tools yet";
    if (s->phase != MCP_READY) { /* also when it once listed them */
        put_missing(h, w, why);
        return;
    }
    take_list(h, s->list);
    if (strcmp(w->tool, "*") == 0) {
        for (size_t i = 0; i < s->list->n; i++)
            add_tool(h, &s->list->entries[i]);
        return;
    }
    const struct mcp_entry *e = mcp_list_find(s->list, str_of(w->tool));
    if (e)
        add_tool(h, e);
    else
        put_missing(h, w, "the server has no such tool, or the configuration does not allow it");
}

static void become_ready(struct mcp_hand *h)
{
    struct clock *clock = h->wish->mcp->o.clock;
    list_remove(&h->node);
    if (timer_is_armed(&h->patience))
        timer_disarm(clock, &h->patience);
    for (size_t i = 0; i < h->wish->n; i++)
        grant(h, &h->wish->list[i]);
    h->is_ready = true;
}

/* A server that starts, or whose list is too old, is worth waiting for. */
static bool is_settled(const struct mcp_hand *h)
{
    bool settled = true;
    for (size_t i = 0; i < h->wish->n; i++) {
        struct mcp_server *s = h->wish->list[i].server;
        settled &= !mcp_server_is_starting(s) && !mcp_server_refreshes(s, h->opened_ms);
    }
    return settled;
}

static void tell_ready(struct mcp_hand *h)
{
    become_ready(h);
    h->ready(h->user);
}

static void on_patience(struct timer *timer)
{
    tell_ready(container_of(timer, struct mcp_hand, patience));
}

static struct mcp_hand *find_settled(struct mcp *m)
{
    list_each (it, &m->hands) {
        struct mcp_hand *h = list_item(it, struct mcp_hand, node);
        if (is_settled(h))
            return h;
    }
    return NULL;
}

/* To look may end a server, which reviews. */
void mcp_hands_review(struct mcp *m)
{
    struct mcp_hand *h;
    m->reviews_again = true;
    if (m->reviews)
        return;
    m->reviews = true;
    while (m->reviews_again) {
        m->reviews_again = false;
        while ((h = find_settled(m)) != NULL)
            tell_ready(h);
    }
    m->reviews = false;
}

struct mcp_hand *mcp_hand_open(struct mcp_wish *wish, void (*ready)(void *user), void *user)
{
    struct clock *clock = wish->mcp->o.clock;
    struct mcp_hand *h = xcalloc(sizeof *h);
    *h = (struct mcp_hand){.wish = wish,
                           .ready = ready,
                           .user = user,
                           .opened_ms = clock->now_ms,
                           .patience.fire = on_patience};
    if (is_settled(h)) {
        become_ready(h);
        return h;
    }
    list_push(&wish->mcp->hands, &h->node);
    timer_arm(clock, &h->patience, clock->now_ms + MCP_START_WAIT_MS);
    return h;
}

bool mcp_hand_is_ready(const struct mcp_hand *hand)
{
    return hand->is_ready;
}

const struct tool *const *mcp_hand_tools(const struct mcp_hand *hand, size_t *ret_n)
{
    *ret_n = hand->n;
    return hand->tools;
}

struct str mcp_hand_missing(const struct mcp_hand *hand)
{
    return buf_str(&hand->missing);
}

void mcp_hand_close(struct mcp_hand *hand)
{
    if (!hand)
        return;
    list_remove(&hand->node);
    if (timer_is_armed(&hand->patience))
        timer_disarm(hand->wish->mcp->o.clock, &hand->patience);
    for (size_t i = 0; i < hand->n_lists; i++)
        mcp_list_drop(hand->lists[i]);
    free(hand->lists);
    free(hand->tools);
    buf_done(&hand->missing);
    free(hand);
}
