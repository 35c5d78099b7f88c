/* Notices of sources that are not tasks: told once, wherever the gateway is killed.
 *
 * A task puts its notice in the batch of its end.  A source with its state elsewhere (a process has
 * a folder) has no such batch.  So the fact that it was told is kept as a request key of its owner,
 * in the batch of the notice, and looked up before.  The key is longer than a client's can be, and
 * names the task that began it, so it is removed with the conversation. */
#include "core/notice.h"

#include <stdlib.h>

#include "core/task_parts.h"

struct telling {
    struct hub *hub;
    struct notice_source source; /* owns its strings */
    char *request_key;
    notice_told_fn done;
    void *user;
};

struct notice_put {
    struct list node;
    int64_t notice_key;
    char *owner, *source;
    bool withdrawn;
};

static struct notice_put *find_put(struct hub *h, int64_t notice_key)
{
    list_each (it, &h->notice_puts) {
        struct notice_put *put = list_item(it, struct notice_put, node);
        if (put->notice_key == notice_key)
            return put;
    }
    return NULL;
}

static void drop_put(struct notice_put *put)
{
    list_remove(&put->node);
    free(put->owner);
    free(put->source);
    free(put);
}

bool notice_withdraw_put(struct hub *h, struct str owner, struct str key)
{
    list_each (it, &h->notice_puts) {
        struct notice_put *put = list_item(it, struct notice_put, node);
        if (!str_eq(str_of(put->source), key) || !str_eq(str_of(put->owner), owner))
            continue;
        put->withdrawn = true;
        return true;
    }
    return false;
}

static char *request_key_of(struct str key)
{
    struct buf text = {0};
    buf_putf(&text, "%*s", MAX_REQUEST_KEY + 1, "notice ");
    buf_putstr(&text, key);
    return buf_take(&text);
}

static void notice_source_end(struct telling *t, int status, int64_t notice_key)
{
    t->done(t->user, status, notice_key);
    struct notice_source *s = &t->source;
    struct str *const strings[] = {&s->key,     &s->owner, &s->conversation_id,
                                   &s->task_id, &s->agent, &s->text};
    for (size_t i = 0; i < countof(strings); i++)
        str_free(strings[i]);
    free(t->request_key);
    free(t);
}

static void stage_key(struct hub *h, const struct notice_source *s, struct str request_key)
{
    journal_put(&h->journal, &(struct op){.kind = OP_REQUEST_KEY,
                                          .owner = s->owner,
                                          .conversation_id = s->conversation_id,
                                          .task_id = s->task_id,
                                          .key = request_key,
                                          .at = h->clock.wall_ms});
}

static void on_put_done(const struct op *op, int status);

/* The op holds the reference to the conversation. */
static void stage(struct hub *h, struct conversation *c, const struct notice_source *s,
                  int64_t notice_key, struct str request_key)
{
    struct notice_record n = {.key = notice_key,
                              .silent = s->silent,
                              .owner = s->owner,
                              .conversation_id = s->conversation_id,
                              .agent = s->agent,
                              .text = s->text,
                              .source = s->key};
    struct notice_put *put = xcalloc(sizeof *put);
    put->notice_key = notice_key;
    put->owner = xstrdup(s->owner);
    put->source = xstrdup(s->key);
    list_push(&h->notice_puts, &put->node);
    stage_key(h, s, request_key);
    journal_put(&h->journal, &(struct op){.kind = OP_NOTICE_PUT,
                                          .done = on_put_done,
                                          .ref = c,
                                          .task_id = s->task_id,
                                          .key = request_key,
                                          .notice = &n});
}

/* Whether it was withdrawn meanwhile. */
static bool put_done(struct hub *h, int64_t notice_key)
{
    struct notice_put *put = find_put(h, notice_key);
    ASSERT(put);
    bool withdrawn = put->withdrawn;
    drop_put(put);
    return withdrawn;
}

/* A put that was withdrawn is settled without a notice. */
static void put_failed(struct hub *h, const struct op *op)
{
    struct conversation *c = op->ref;
    const struct notice_record *n = op->notice;
    struct notice_source s = {.key = n->source,
                              .owner = n->owner,
                              .conversation_id = n->conversation_id,
                              .task_id = op->task_id,
                              .agent = n->agent,
                              .text = n->text,
                              .silent = n->silent};
    bool withdrawn = put_done(h, n->key);
    if (h->closing)
        return;
    if (withdrawn) {
        stage_key(h, &s, op->key);
        return;
    }
    c->refs++;
    stage(h, c, &s, n->key, op->key);
}

/* A put that was withdrawn after it was staged is taken again. */
static void on_put_done(const struct op *op, int status)
{
    struct conversation *c = op->ref;
    if (status < 0) {
        put_failed(c->hub, op);
    } else {
        struct notice *n = notice_add(c, op->notice);
        if (put_done(c->hub, op->notice->key))
            notice_take(n);
    }
    conversation_unref(c);
}

static void on_key(void *arg, int status, struct answer *answer)
{
    struct telling *t = arg;
    struct hub *h = t->hub;
    (void)answer;
    if (status != STORE_NOT_FOUND || h->closing) {
        notice_source_end(t, status, 0);
        return;
    }
    if (!slots_has(&h->open, slot_of(t->source.owner))) { /* another process is the home */
        notice_source_end(t, STORE_BUSY, 0);
        return;
    }
    struct owner *owner = owner_ref(h, t->source.owner);
    struct conversation *c = conversation_ref(h, owner, t->source.conversation_id);
    owner_unref(h, owner);
    if (c->deleting) {
        conversation_unref(c);
        notice_source_end(t, STORE_NOT_FOUND, 0);
        return;
    }
    int64_t notice_key = hub_new_key(h);
    stage(h, c, &t->source, notice_key, str_of(t->request_key));
    notice_source_end(t, 0, notice_key);
}

static void notice_source_on_task(void *arg, int status, struct answer *answer)
{
    struct telling *t = arg;
    (void)answer;
    if (status < 0) {
        notice_source_end(t, status, 0);
        return;
    }
    hub_query(
        t->hub,
        &(struct query){.kind = QUERY_KEY, .owner = t->source.owner, .key = str_of(t->request_key)},
        on_key, t);
}

void notice_tell(struct hub *h, const struct notice_source *source, notice_told_fn done, void *user)
{
    struct telling *t = xcalloc(sizeof *t);
    struct buf clean = {0};
    *t = (struct telling){.hub = h, .done = done, .user = user};
    t->source = (struct notice_source){.key = str_own(source->key),
                                       .owner = str_own(source->owner),
                                       .conversation_id = str_own(source->conversation_id),
                                       .task_id = str_own(source->task_id),
                                       .agent = str_own(source->agent),
                                       .text = str_own(task_hide(h, source->text, &clean)),
                                       .kind = source->kind,
                                       .silent = source->silent ||
                                                 notice_is_silent(h, source->agent, source->kind)};
    buf_done(&clean);
    t->request_key = request_key_of(source->key);
    hub_query(h,
              &(struct query){.kind = QUERY_TASK,
                              .owner = t->source.owner,
                              .conversation_id = t->source.conversation_id,
                              .task_id = t->source.task_id},
              notice_source_on_task, t);
}

void notice_settle(struct hub *h, const struct notice_source *source)
{
    char *request_key = request_key_of(source->key);
    if (slots_has(&h->open, slot_of(source->owner)))
        stage_key(h, source, str_of(request_key));
    free(request_key);
}
