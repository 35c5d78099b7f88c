/* Design.  A misspelt key gets an error that names the one that it most resembles. */
#include <strings.h>

#include "gateway/config/config_keys.h"

/* How many characters must be changed, added or removed: the Levenshtein distance. */
static size_t distance_of(struct str a, struct str b)
{
    size_t row[65];

    a.n = a.n < 64 ? a.n : 64;
    b.n = b.n < 64 ? b.n : 64;
    for (size_t j = 0; j <= b.n; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t change = diagonal + (strncasecmp(&a.p[i - 1], &b.p[j - 1], 1) != 0);
            diagonal = row[j];
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < other ? change : other;
        }
    }
    return row[b.n];
}

struct nearest {
    const struct key_table *home; /* the unknown key's table: its siblings come first */
    struct str name;
    size_t score;
    struct buf path; /* the best match so far */
};

static void find_nearest(struct nearest *n, const struct key_table *table, struct str prefix)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct key *key = &table->keys[i];
        size_t score = 2 * distance_of(n->name, str_of(key->name)) + (table != n->home ? 3 : 0);
        if (score < n->score) {
            n->score = score;
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

void key_put_nearest(const struct key_table *table, const char *name, struct buf *out)
{
    struct nearest n = {.home = table, .name = str_of(name), .score = SIZE_MAX};

    find_nearest(&n, &config_table, STR(""));
    buf_putstr(out, buf_str(&n.path));
    buf_done(&n.path);
}
