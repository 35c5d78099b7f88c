/* The nodes and the slots, as the tables have them. */
#include <stdio.h>
#include <time.h>

#include "gateway/store/store_pg_private.h"

static void copy_text(char *to, size_t bytes, struct str from)
{
    snprintf(to, bytes, "%.*s", (int)(from.n < bytes ? from.n : bytes - 1), from.p ? from.p : "");
}

static int64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int view_nodes(struct pg_conn *conn, struct store_view *v, char names[STORE_NODES_MAX][48])
{
    struct pg_call c;
    PGresult *r;
    int64_t asked = wall_ms();
    pg_begin(&c, conn, PG_NODES);
    int status = pg_ask(&c, &r);
    int64_t told = wall_ms();
    int n = status == STORE_OK ? PQntuples(r) : 0;
    v->n = 0;
    if (n > 0) { /* however long the answer took, its clock stood between the two */
        int64_t theirs = pg_col_int(r, 0, 12);
        v->clock_off_ms = asked > theirs ? asked - theirs : told < theirs ? told - theirs : 0;
    }
    for (int i = 0; i < n && v->n < STORE_NODES_MAX; i++) {
        struct str life = pg_col(r, i, 6);
        v->epoch = pg_col_int(r, i, 9) > 1 ? pg_col_int(r, i, 9) : 0; /* 1: as it was made */
        if (life.n != PG_LIFE_BYTES)                                  /* an import's */
            continue;
        struct store_node *node = &v->nodes[v->n];
        *node = (struct store_node){.incarnation = pg_col_int(r, i, 0),
                                    .beat = pg_col_int(r, i, 4),
                                    .state = (enum node_state)pg_col_int(r, i, 5),
                                    .load = (uint32_t)pg_col_int(r, i, 11)};
        copy_text(node->name, sizeof node->name, pg_col(r, i, 1));
        copy_text(node->link, sizeof node->link, pg_col(r, i, 7));
        copy_text(node->version, sizeof node->version, pg_col(r, i, 8));
        pg_node_name(node->incarnation, life.p, names[v->n++]);
    }
    PQclear(r);
    return status;
}

static int view_slots(struct pg_conn *conn, struct store_view *v, int64_t *last)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, conn, PG_SLOTS_SINCE);
    pg_int(&c, *last);
    int status = pg_ask(&c, &r);
    int n = status == STORE_OK ? PQntuples(r) : 0;
    for (int i = 0; i < n; i++) {
        int64_t slot = pg_col_int(r, i, 0), moved = pg_col_int(r, i, 2);
        if (slot < 0 || slot >= N_SLOTS)
            continue;
        v->home[slot] = pg_col_int(r, i, 1);
        v->moved[slot] = moved;
        *last = moved > *last ? moved : *last;
    }
    PQclear(r);
    return status;
}

/* A number of a move is taken under a lock that lasts to the move's end, so none comes behind. */
int pg_view_read(struct pg_conn *conn, struct store_view *view, char names[STORE_NODES_MAX][48],
                 int64_t *last_moved)
{
    int status = view_nodes(conn, view, names);
    return status < 0 ? status : view_slots(conn, view, last_moved);
}

int pg_unconfirmed(struct pg_conn *conn, const char *history, int64_t *ret)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, conn, PG_UNCONFIRMED);
    pg_text(&c, str_of(history));
    int status = pg_ask(&c, &r);
    *ret = status == STORE_OK ? pg_col_int(r, 0, 0) : 1;
    PQclear(r);
    return status;
}
