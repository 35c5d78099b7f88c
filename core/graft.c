#include "core/graft.h"

#include <stdio.h>
#include <stdlib.h>

#define MESSAGE_BYTES 256 /* of a message besides its texts, against the bound */

const char graft_is_full[] = "the conversation has more than 5,000 messages, or 8 MiB of text";

struct graft *graft_new(void)
{
    return xcalloc(sizeof(struct graft));
}

void graft_free(struct graft *g)
{
    if (!g)
        return;
    arena_done(&g->chunks);
    free(g->messages);
    free(g->known);
    free(g->files);
    free(g->file_keys);
    free(g->tasks);
    free(g->title);
    free(g->agent);
    free(g);
}

/* --- what is added ---------------------------------------------------------------------------- */

static void *graft_grow(void *rows, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return rows;
    *cap = *cap ? *cap * 2 : 16;
    return xrealloc(rows, *cap * size);
}

static bool has_room(struct graft *g, size_t rows, size_t bytes)
{
    if (rows >= MAX_GRAFT_MESSAGES || g->bytes + bytes + MESSAGE_BYTES > MAX_GRAFT_BYTES)
        return false;
    g->bytes += bytes + MESSAGE_BYTES;
    return true;
}

bool graft_add_message(struct graft *g, const struct message_record *m)
{
    if (!has_room(g, g->n_messages, m->content.n + m->parts.n))
        return false;
    g->messages = graft_grow(g->messages, g->n_messages, &g->cap_messages, sizeof *g->messages);
    struct message_record *to = &g->messages[g->n_messages].record;
    g->messages[g->n_messages++] = (struct graft_message){.parent = GRAFT_NONE, .task = GRAFT_NONE};
    *to = (struct message_record){.message_id = arena_str(&g->chunks, m->message_id),
                                  .parent_id = arena_str(&g->chunks, m->parent_id),
                                  .task_id = arena_str(&g->chunks, m->task_id),
                                  .content = arena_str(&g->chunks, m->content),
                                  .parts = arena_str(&g->chunks, m->parts),
                                  .role = m->role,
                                  .partial = m->partial,
                                  .created_at = m->created_at};
    return true;
}

bool graft_add_task(struct graft *g, const struct task_record *t)
{
    if (!has_room(g, g->n_known, t->state.error_message.n))
        return false;
    g->known = graft_grow(g->known, g->n_known, &g->cap_known, sizeof *g->known);
    g->known[g->n_known++] = (struct task_record){
        .task_id = arena_str(&g->chunks, t->task_id),
        .agent = arena_str(&g->chunks, t->agent),
        .created_at = t->created_at,
        .state = {.status = t->state.status,
                  .error = t->state.error,
                  .error_message = arena_str(&g->chunks, t->state.error_message)}};
    return true;
}

bool graft_add_file(struct graft *g, const struct file_record *f)
{
    if (!has_room(g, g->n_files, f->name.n))
        return false;
    size_t cap = g->cap_files;
    g->files = graft_grow(g->files, g->n_files, &cap, sizeof *g->files);
    g->file_keys = graft_grow(g->file_keys, g->n_files, &g->cap_files, sizeof *g->file_keys);
    struct file_record *to = &g->files[g->n_files];
    g->file_keys[g->n_files++] = arena_str(&g->chunks, f->file_id);
    *to = (struct file_record){.name = arena_str(&g->chunks, f->name),
                               .media_type = arena_str(&g->chunks, f->media_type),
                               .sha256 = arena_str(&g->chunks, f->sha256),
                               .blob = arena_str(&g->chunks, f->blob),
                               .size = f->size,
                               .created_at = f->created_at};
    return true;
}

void graft_name(struct graft *g, struct str title, struct str agent)
{
    free(g->title);
    free(g->agent);
    g->title = title.p ? xstrdup(title) : NULL;
    g->agent = agent.p ? xstrdup(agent) : NULL;
}

void graft_turn(struct graft *g)
{
    for (size_t i = 0, j = g->n_messages; i + 1 < j; i++, j--) {
        struct graft_message last = g->messages[j - 1];
        g->messages[j - 1] = g->messages[i];
        g->messages[i] = last;
    }
}

static int str_order(struct str a, struct str b)
{
    int order = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static int graft_order(const void *a, const void *b)
{
    const struct message_record *x = &((const struct graft_message *)a)->record;
    const struct message_record *y = &((const struct graft_message *)b)->record;
    if (x->created_at != y->created_at)
        return x->created_at < y->created_at ? -1 : 1;
    return str_order(x->message_id, y->message_id);
}

void graft_sort(struct graft *g)
{
    if (g->n_messages)
        qsort(g->messages, g->n_messages, sizeof *g->messages, graft_order);
}

/* --- what is wrong ---------------------------------------------------------------------------- */

/* An id, and where it is: to be sorted and searched. */
struct named {
    struct str id;
    size_t at;
};

static int named_order(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = str_order(x->id, y->id);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

static size_t find_named(const struct named *all, size_t n, struct str id)
{
    size_t from = 0, to = n;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (str_order(all[middle].id, id) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from < n && str_eq(all[from].id, id) ? all[from].at : GRAFT_NONE;
}

static const char *wrong_with(struct graft *g, const char *what, struct str id)
{
    snprintf(g->wrong, sizeof g->wrong, "%s: %.*s", what, (int)(id.n < 64 ? id.n : 64), id.p);
    return g->wrong;
}

static const char *find_parents(struct graft *g, const struct named *all)
{
    for (size_t i = 0; i < g->n_messages; i++) {
        struct graft_message *m = &g->messages[i];
        if (!m->record.parent_id.p)
            continue;
        m->parent = find_named(all, g->n_messages, m->record.parent_id);
        if (m->parent == GRAFT_NONE)
            return wrong_with(g, "a message has a parent that is not there", m->record.message_id);
    }
    return NULL;
}

/* Walks up from each message to one that was seen: a message that is met again on the same walk is
 * below itself. */
static const char *find_circle(struct graft *g)
{
    size_t *seen = xcalloc(g->n_messages * sizeof *seen + 1);
    const char *wrong = NULL;
    for (size_t i = 0; i < g->n_messages && !wrong; i++) {
        size_t at = i;
        for (; at != GRAFT_NONE && !seen[at]; at = g->messages[at].parent)
            seen[at] = i + 1;
        if (at != GRAFT_NONE && seen[at] == i + 1)
            wrong =
                wrong_with(g, "a message is its own ancestor", g->messages[at].record.message_id);
    }
    free(seen);
    return wrong;
}

/* A store lists the siblings of each message that it takes: there are not so many. */
static const char *find_crowd(struct graft *g)
{
    size_t *under = xcalloc((g->n_messages + 1) * sizeof *under); /* the last: without a parent */
    const char *wrong = NULL;
    for (size_t i = 0; i < g->n_messages && !wrong; i++) {
        const struct graft_message *m = &g->messages[i];
        if (++under[m->parent == GRAFT_NONE ? g->n_messages : m->parent] > MAX_SIBLINGS)
            wrong = wrong_with(g, "more than 256 messages have one parent", m->record.message_id);
    }
    free(under);
    return wrong;
}

static const char *find_wrong(struct graft *g)
{
    struct named *all = xcalloc(g->n_messages * sizeof *all + 1);
    const char *wrong = NULL;
    for (size_t i = 0; i < g->n_messages; i++)
        all[i] = (struct named){g->messages[i].record.message_id, i};
    qsort(all, g->n_messages, sizeof *all, named_order);
    for (size_t i = 1; i < g->n_messages && !wrong; i++)
        if (str_eq(all[i - 1].id, all[i].id))
            wrong = wrong_with(g, "two messages have one id", all[i].id);
    if (!wrong)
        wrong = find_parents(g, all);
    free(all);
    if (!wrong)
        wrong = find_circle(g);
    return wrong ? wrong : find_crowd(g);
}

/* --- tasks ------------------------------------------------------------------------------------ */

static size_t add_task(struct graft *g, size_t question, bool is_again)
{
    g->tasks[g->n_tasks] =
        (struct graft_task){.question = question, .answer = GRAFT_NONE, .is_again = is_again};
    return g->n_tasks++;
}

/* A question begins a task.  Its first answer, unless that names another task, ends it; each
 * further one is a task of its own, which answers once more. */
static size_t task_for(struct graft *g, size_t i)
{
    struct graft_message *m = &g->messages[i];
    if (m->record.role != ROLE_ASSISTANT)
        return m->record.role == ROLE_USER || m->record.task_id.p ? add_task(g, i, false)
                                                                  : GRAFT_NONE;
    struct graft_message *q = m->parent == GRAFT_NONE ? NULL : &g->messages[m->parent];
    if (!q || q->task == GRAFT_NONE || q->record.role == ROLE_ASSISTANT)
        return GRAFT_NONE;
    bool is_other =
        m->record.task_id.p && q->record.task_id.p && !str_eq(m->record.task_id, q->record.task_id);
    size_t task = q->task;
    if (is_other || g->tasks[task].answer != GRAFT_NONE)
        task = add_task(g, m->parent, true);
    g->tasks[task].answer = i;
    return task;
}

static void find_tasks(struct graft *g)
{
    free(g->tasks);
    g->tasks = xcalloc(g->n_messages * sizeof *g->tasks + 1);
    g->n_tasks = 0;
    for (size_t i = 0; i < g->n_messages; i++)
        if (g->messages[i].record.role != ROLE_ASSISTANT)
            g->messages[i].task = task_for(g, i);
    for (size_t i = 0; i < g->n_messages; i++)
        if (g->messages[i].record.role == ROLE_ASSISTANT)
            g->messages[i].task = task_for(g, i);
}

/* The source's id of a task is that of the message that it has written. */
static void find_known(struct graft *g)
{
    struct named *all = xcalloc(g->n_known * sizeof *all + 1);
    for (size_t i = 0; i < g->n_known; i++)
        all[i] = (struct named){g->known[i].task_id, i};
    qsort(all, g->n_known, sizeof *all, named_order);
    for (size_t i = 0; i < g->n_tasks; i++) {
        struct graft_task *t = &g->tasks[i];
        struct str id = g->messages[t->is_again ? t->answer : t->question].record.task_id;
        t->known = id.p ? find_named(all, g->n_known, id) : GRAFT_NONE;
    }
    free(all);
}

const char *graft_check(struct graft *g)
{
    const char *wrong = find_wrong(g);
    if (wrong)
        return wrong;
    find_tasks(g);
    find_known(g);
    return NULL;
}
