#include "core/map.h"

#include <stdlib.h>

#define ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = ROTL(v[1], 13) ^ v[0];
    v[0] = ROTL(v[0], 32);
    v[2] += v[3];
    v[3] = ROTL(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = ROTL(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = ROTL(v[1], 17) ^ v[2];
    v[2] = ROTL(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
}

/* Hashes the parts in order, each ended by a word with its length, so that ("ab","c") and
 * ("a","bc") differ. */
static uint64_t hash_key(const uint64_t secret[2], const struct map_key *key)
{
    uint64_t v[4] = {secret[0] ^ 0x736f6d6570736575ULL, secret[1] ^ 0x646f72616e646f6dULL,
                     secret[0] ^ 0x6c7967656e657261ULL, secret[1] ^ 0x7465646279746573ULL};
    for (size_t i = 0; i < countof(key->part); i++) {
        struct str s = key->part[i];
        while (s.n >= 8) {
            uint64_t word;
            memcpy(&word, s.p, 8);
            sip_word(v, word);
            s.p += 8;
            s.n -= 8;
        }
        uint64_t last = (uint64_t)key->part[i].n << 56;
        if (s.n)
            memcpy(&last, s.p, s.n);
        sip_word(v, last);
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void map_init(struct map *m, const uint64_t secret[2],
              struct map_key (*key_of)(const struct map_node *))
{
    *m = (struct map){.mask = 15, .secret = {secret[0], secret[1]}, .key_of = key_of};
    m->slots = xcalloc((m->mask + 1) * sizeof *m->slots);
}

void map_done(struct map *m)
{
    free(m->slots);
    m->slots = NULL;
}

static bool key_eq(const struct map_key *a, const struct map_key *b)
{
    return str_eq(a->part[0], b->part[0]) && str_eq(a->part[1], b->part[1]) &&
           str_eq(a->part[2], b->part[2]);
}

struct map_node *map_find(const struct map *m, struct map_key key)
{
    uint64_t hash = hash_key(m->secret, &key);
    for (struct map_node *node = m->slots[hash & m->mask]; node; node = node->next) {
        if (node->hash != hash)
            continue;
        struct map_key have = m->key_of(node);
        if (key_eq(&have, &key))
            return node;
    }
    return NULL;
}

static void map_grow(struct map *m)
{
    size_t mask = m->mask * 2 + 1;
    struct map_node **slots = xcalloc((mask + 1) * sizeof *slots);
    for (size_t i = 0; i <= m->mask; i++) {
        for (struct map_node *node = m->slots[i], *next; node; node = next) {
            next = node->next;
            node->next = slots[node->hash & mask];
            slots[node->hash & mask] = node;
        }
    }
    free(m->slots);
    m->slots = slots;
    m->mask = mask;
}

void map_put(struct map *m, struct map_node *node)
{
    struct map_key key = m->key_of(node);
    if (m->n > m->mask)
        map_grow(m);
    node->hash = hash_key(m->secret, &key);
    node->next = m->slots[node->hash & m->mask];
    m->slots[node->hash & m->mask] = node;
    m->n++;
}

void map_remove(struct map *m, struct map_node *node)
{
    struct map_node **at = &m->slots[node->hash & m->mask];
    while (*at != node) {
        ASSERT(*at);
        at = &(*at)->next;
    }
    *at = node->next;
    node->next = NULL;
    m->n--;
}

void map_each(struct map *m, void (*visit)(struct map_node *node, void *arg), void *arg)
{
    for (size_t i = 0; i <= m->mask; i++) {
        for (struct map_node *node = m->slots[i], *next; node; node = next) {
            next = node->next;
            visit(node, arg);
        }
    }
}
