/* The metrics of links. */
#include <inttypes.h>

#include "gateway/links/links.h"

struct link_row {
    struct buf *out;
    const char *name;
};

static void links_put_node(const struct link_row *row, const char *node)
{
    buf_putf(row->out, "%s{node=\"", row->name);
    for (; *node; node++) {
        if (*node == '"' || *node == '\\')
            buf_putc(row->out, '\\');
        buf_putc(row->out, *node);
    }
}

static void put_up(void *arg, const char *node, bool up, int64_t rtt_us)
{
    const struct link_row *row = arg;
    (void)rtt_us;
    links_put_node(row, node);
    buf_putf(row->out, "\"} %d\n", up);
}

static void put_rtt(void *arg, const char *node, bool up, int64_t rtt_us)
{
    const struct link_row *row = arg;
    if (!up || rtt_us < 0)
        return;
    links_put_node(row, node);
    buf_putf(row->out, "\"} %" PRId64 ".%06" PRId64 "\n", rtt_us / 1000000, rtt_us % 1000000);
}

static void links_up(struct links *l, const struct link_row *row)
{
    links_each(l, put_up, (void *)row);
}

static void links_rtt(struct links *l, const struct link_row *row)
{
    links_each(l, put_rtt, (void *)row);
}

static void links_put(const struct link_row *row, const char *labels, uint64_t value)
{
    buf_putf(row->out, "%s%s %" PRIu64 "\n", row->name, labels, value);
}

static void links_sessions(struct links *l, const struct link_row *row)
{
    links_put(row, "{as=\"front\"}", links_stats_of(l)->away);
    links_put(row, "{as=\"home\"}", links_stats_of(l)->remote);
    links_put(row, "{as=\"pipe\"}", links_stats_of(l)->pipes);
}

static void links_bytes(struct links *l, const struct link_row *row)
{
    links_put(row, "{direction=\"in\"}", links_stats_of(l)->bytes_in);
    links_put(row, "{direction=\"out\"}", links_stats_of(l)->bytes_out);
}

static void links_requests(struct links *l, const struct link_row *row)
{
    const struct links_stats *st = links_stats_of(l);
    links_put(row, "{outcome=\"asked\"}", st->requests_out);
    links_put(row, "{outcome=\"carried_out\"}", st->requests_in);
    links_put(row, "{outcome=\"moved\"}", st->moved);
    links_put(row, "{outcome=\"lost\"}", st->lost);
}

static void links_ends(struct links *l, const struct link_row *row)
{
    static const char *const labels[] = {
#define X(name, label) "{why=\"" label "\"}",
        LINK_END_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < countof(labels); i++)
        links_put(row, labels[i], links_stats_of(l)->ends[i]);
}

static const struct {
    const char *name, *kind, *help;
    void (*write)(struct links *l, const struct link_row *row);
} rows[] = {
    {"holdfast_cluster_link_up", "gauge", "Whether the link to another node is open.", links_up},
    {"holdfast_cluster_link_rtt_seconds", "gauge", "The last round trip to another node.",
     links_rtt},
    {"holdfast_cluster_link_sessions", "gauge",
     "Sessions on links: of clients here, and of clients elsewhere; and files under way.",
     links_sessions},
    {"holdfast_cluster_link_bytes_total", "counter", "Bytes on links.", links_bytes},
    {"holdfast_cluster_link_requests_total", "counter",
     "Requests on links, those for owners who had moved, and those whose answer never came.",
     links_requests},
    {"holdfast_cluster_link_ends_total", "counter", "Ends of links, by the cause.", links_ends},
};

void links_write_metrics(struct links *l, struct buf *out)
{
    for (size_t i = 0; i < countof(rows); i++) {
        const struct link_row row = {out, rows[i].name};
        buf_putf(out, "# HELP %s %s\n# TYPE %s %s\n", rows[i].name, rows[i].help, rows[i].name,
                 rows[i].kind);
        rows[i].write(l, &row);
    }
}
