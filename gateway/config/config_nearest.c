/* Design.  A misspelt key gets an error that names the one that it most resembles, if it does. */
#include "gateway/base/nearest.h"
#include "gateway/config/config_keys.h"

struct nearest {
    const struct key_table *home; /* the unknown key's table: its siblings come first */
    struct str name;
    size_t score, distance;
    struct buf path; /* the best match so far */
};

static void find_nearest(struct nearest *n, const struct key_table *table, struct str prefix)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct key *key = &table->keys[i];
        size_t distance = nearest_distance(n->name, str_of(key->name));
        size_t score = 2 * distance + (table != n->home ? 3 : 0);
        if (score < n->score) {
            n->score = score;
            n->distance = distance;
            buf_clear(&n->path);
            buf_putstr(&n->path, prefix);
            buf_puts(&n->path, key->name);
        }
        if (!key->table)
            continue;
        struct buf below = {0};
        buf_putstr(&below, prefix);
        buf_putf(&below, key->type == KEY_LIST ? "%s[]." : "%s.", key->name);
        find_nearest(n, key->table, buf_str(&below));
        buf_done(&below);
    }
}

bool key_put_nearest(const struct key_table *table, const char *name, struct buf *out)
{
    struct nearest n = {.home = table, .name = str_of(name), .score = SIZE_MAX};

    find_nearest(&n, &config_table, STR(""));
    bool near = n.distance <= NEAREST_SLIP || n.distance <= n.name.n / 3;
    if (near)
        buf_putstr(out, buf_str(&n.path));
    buf_done(&n.path);
    return near;
}
