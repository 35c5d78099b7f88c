/* map -- a hash table of intrusive nodes, keyed by a short list of strings.
 *
 * Shape:    the key is up to three spans (owner, conversation, task): the owner is part of every
 *           key (promise 5).  A node keeps its hash; the table compares keys through the callback.
 * Thread:   any; one at a time.
 * Why:      SipHash-2-4 (Aumasson and Bernstein) with a secret per process, because clients choose
 *           conversation ids and could otherwise fill one bucket.
 */
#ifndef CORE_MAP_H
#define CORE_MAP_H

#include "proto/base.h"

struct map_key {
    struct str part[3];
};

struct map_node {
    struct map_node *next;
    uint64_t hash;
};

struct map {
    struct map_node **slots;
    size_t n, mask;
    uint64_t secret[2];
    struct map_key (*key_of)(const struct map_node *node);
};

void map_init(struct map *m, const uint64_t secret[2],
              struct map_key (*key_of)(const struct map_node *));
void map_done(struct map *m); /* the table, not the nodes */
struct map_node *map_find(const struct map *m, struct map_key key);
void map_put(struct map *m, struct map_node *node); /* its key must not be in the map */
void map_remove(struct map *m, struct map_node *node);
/* Calls visit for each node; visit may remove that node, but no other. */
void map_each(struct map *m, void (*visit)(struct map_node *node, void *arg), void *arg);

#endif
