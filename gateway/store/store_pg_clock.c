/* The wall clock at a start, against the server's.  No lease and no order depends on it, but what
 * somebody names as a time does: a token ends, a schedule is due.  A gateway whose clock is far off
 * does not join while another one serves: it is of no need there, and whoever starts it is told.
 * Where nobody else gives a sign of life it joins all the same, because to refuse would turn a
 * wrong clock, which may be the server's, into an outage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/store/store_pg_private.h"

#define LOOK_MS 200

struct clock_look {
    struct store_view view;
    char names[STORE_NODES_MAX][48];
};

static int look(struct store_pg *s, struct clock_look *ret)
{
    int64_t last_moved = -1;
    *ret = (struct clock_look){0};
    return pg_view_read(&s->writer, &ret->view, ret->names, &last_moved);
}

static bool is_off(const struct store_pg *s, const struct store_view *v)
{
    int64_t most = (int64_t)s->o.clock_off_s * 1000;
    return v->clock_off_ms > most || v->clock_off_ms < -most;
}

/* Processes of this machine have its clock too: "NAME-2" beside "NAME". */
static bool is_elsewhere(const struct store_pg *s, const struct store_node *node)
{
    size_t n = strlen(s->node);
    bool is_ours = strncmp(node->name, s->node, n) == 0 &&
                   (node->name[n] == 0 || (s->o.is_crew && node->name[n] == '-'));
    return node->state == NODE_LIVES && !is_ours;
}

static bool has_others(const struct store_pg *s, const struct store_view *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (is_elsewhere(s, &v->nodes[i]))
            return true;
    return false;
}

/* One that has given a sign since then; NULL: none. */
static const struct store_node *find_beating(const struct store_pg *s, const struct store_view *now,
                                             const struct store_view *then)
{
    for (size_t i = 0; i < now->n; i++)
        for (size_t k = 0; k < then->n; k++)
            if (now->nodes[i].incarnation == then->nodes[k].incarnation &&
                now->nodes[i].beat != then->nodes[k].beat && is_elsewhere(s, &now->nodes[i]))
                return &now->nodes[i];
    return NULL;
}

/* For a lease; nobody begins within it but those who find the same. */
static int watch_others(struct store_pg *s, const struct clock_look *first, struct clock_look *now,
                        char *ret_error)
{
    int64_t until = pg_boot_ms() + pg_lease_ms(s);
    const struct store_node *other;
    log_event(LEVEL_WARN, "store", "clock_is_wrong", LOG_INT("ms", first->view.clock_off_ms),
              LOG_TEXT("why", "this machine's clock and the server's differ: are there others?"));
    while (pg_boot_ms() < until) {
        uv_sleep(LOOK_MS);
        int status = look(s, now);
        if (status < 0 || !is_off(s, &now->view) || !has_others(s, &now->view))
            return status;
        other = find_beating(s, &now->view, &first->view);
        if (!other)
            continue;
        snprintf(ret_error, STORE_ERROR_TEXT,
                 "this machine's clock and the server's are %lld s apart, and \"%.80s\" serves: "
                 "set the clock, or cluster.clock_off_s",
                 llabs(now->view.clock_off_ms) / 1000, other->name);
        return STORE_BUSY;
    }
    return STORE_OK;
}

int pg_clock_check(struct store_pg *s, char ret_error[STORE_ERROR_TEXT])
{
    if (s->o.clock_off_s == 0)
        return STORE_OK;
    struct clock_look *first = xalloc(sizeof *first), *now = xalloc(sizeof *now);
    int status = look(s, first);
    if (status == STORE_OK && is_off(s, &first->view) && has_others(s, &first->view))
        status = watch_others(s, first, now, ret_error);
    free(first);
    free(now);
    if (status < 0 && !ret_error[0])
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot join the cluster: %.200s", s->writer.error);
    return status;
}
