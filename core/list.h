/* list -- the only linked list: intrusive, circular, doubly linked.
 *
 * Shape:    a head is a struct list that list_init made empty; a node that is in no list is zeroed
 *           or was taken out by list_remove, and list_is_in tells.
 * Thread:   any; one at a time.
 */
#ifndef CORE_LIST_H
#define CORE_LIST_H

#include "proto/base.h"

struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *head)
{
    head->next = head->prev = head;
}
static inline bool list_is_empty(const struct list *head)
{
    return head->next == head;
}
static inline bool list_is_single(const struct list *head)
{
    return head->next != head && head->next == head->prev;
}
static inline bool list_is_in(const struct list *node)
{
    return node->next != NULL;
}
static inline void list_push(struct list *head, struct list *node) /* at the end */
{
    ASSERT(!list_is_in(node));
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}
static inline void list_push_front(struct list *head, struct list *node)
{
    list_push(head->next, node);
}
static inline void list_remove(struct list *node) /* does nothing for a node in no list */
{
    if (!node->next)
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = NULL;
}
static inline struct list *list_pop(struct list *head) /* the first; NULL when empty */
{
    if (list_is_empty(head))
        return NULL;
    struct list *node = head->next;
    list_remove(node);
    return node;
}
/* Moves all nodes of from to the end of to. */
static inline void list_splice(struct list *to, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#define list_item(node, type, member) container_of(node, type, member)
/* The current node may be removed inside the loop; no other node may. */
#define list_each(it, head)                                                   \
    for (struct list *it = (head)->next, *it##_next = it->next; it != (head); \
         it = it##_next, it##_next = it->next)

#endif
