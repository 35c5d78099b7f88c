#include "gateway/store/store_nodes.h"

unsigned store_view_count(const struct store_view *v, int64_t incarnation)
{
    unsigned n = 0;
    for (unsigned i = 0; i < N_SLOTS; i++)
        n += v->home[i] == incarnation;
    return n;
}

struct counted {
    unsigned slots[STORE_NODES_MAX], free;
};

static void count_slots(const struct store_view *v, struct counted *ret)
{
    *ret = (struct counted){0};
    for (unsigned i = 0; i < N_SLOTS; i++) {
        ret->free += v->home[i] == 0;
        for (size_t k = 0; v->home[i] != 0 && k < v->n; k++)
            ret->slots[k] += v->nodes[k].incarnation == v->home[i];
    }
}

/* Nobody's slots belong to the sum: somebody is below the mean as long as there are any. */
static void deal(const struct store_view *v, const struct counted *counted, int64_t incarnation,
                 struct store_deal *ret)
{
    const unsigned *slots = counted->slots;
    unsigned nth = 0;
    bool lives = false;
    *ret = (struct store_deal){.least = INT64_MAX, .free = counted->free};
    for (size_t i = 0; i < v->n; i++) {
        const struct store_node *node = &v->nodes[i];
        int64_t weight = (int64_t)slots[i] + node->load;
        bool is_it = node->incarnation == incarnation;
        ret->have = is_it ? slots[i] : ret->have;
        if (node->state != NODE_LIVES)
            continue;
        ret->by_load = ret->by_load || node->load > 0;
        ret->sum += weight;
        ret->fewest = weight < ret->least ? slots[i] : ret->fewest;
        ret->least = weight < ret->least ? weight : ret->least;
        nth = is_it ? ret->n : nth;
        ret->weight = is_it ? weight : ret->weight;
        lives = lives || is_it;
        ret->n++;
    }
    ret->sum += ret->free;
    ret->share = lives ? N_SLOTS / ret->n + (nth < N_SLOTS % ret->n) : 0;
}

void store_view_deal(const struct store_view *v, int64_t incarnation, struct store_deal *ret)
{
    struct counted counted;
    count_slots(v, &counted);
    deal(v, &counted, incarnation, ret);
}

/* A node's lack to the mean, times their number; 0: none. */
static int64_t lack(const struct store_deal *d)
{
    int64_t n = d->sum - d->weight * (int64_t)d->n;
    return d->share > 0 && n > 0 ? n : 0;
}

unsigned store_view_claims(const struct store_view *v, int64_t incarnation)
{
    struct counted counted;
    struct store_deal us, other;
    int64_t all = 0;
    count_slots(v, &counted);
    deal(v, &counted, incarnation, &us);
    if (!us.by_load) {
        unsigned lacks = us.share > us.have ? us.share - us.have : 0;
        return lacks < us.free ? lacks : us.free;
    }
    if (lack(&us) == 0)
        return 0;
    for (size_t i = 0; i < v->n; i++) {
        deal(v, &counted, v->nodes[i].incarnation, &other);
        all += lack(&other);
    }
    ASSERT(all > 0); /* ours is among them */
    return (unsigned)((us.free * lack(&us) + all - 1) / all);
}
