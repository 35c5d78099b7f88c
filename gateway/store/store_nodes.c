#include "gateway/store/store_nodes.h"

unsigned store_view_share(const struct store_view *v, int64_t incarnation)
{
    size_t n = 0, nth = 0;
    bool found = false;
    for (size_t i = 0; i < v->n; i++) {
        if (v->nodes[i].state != NODE_LIVES)
            continue;
        if (v->nodes[i].incarnation == incarnation) {
            nth = n;
            found = true;
        }
        n++;
    }
    return found ? (unsigned)(N_SLOTS / n + (nth < N_SLOTS % n)) : 0;
}

unsigned store_view_count(const struct store_view *v, int64_t incarnation)
{
    unsigned n = 0;
    for (unsigned i = 0; i < N_SLOTS; i++)
        n += v->home[i] == incarnation;
    return n;
}
