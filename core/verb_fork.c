/* fork: a new conversation of one path of another.  The path is read upwards, then what is known of
 * its tasks, then its files; then all of it is one batch. */
#include "core/call.h"
#include "core/graft.h"
#include "proto/parts.h"

#define FORK_TASKS 1000 /* tasks of a look; the newest first */

static const char is_in_use[] = "there is a conversation with the id \"to\" already";

/* --- the new conversation --------------------------------------------------------------------- */

void graft_begin(struct call *c, struct str id)
{
    char made[TASK_ID_LEN + 1];
    if (!id.p)
        hub_new_id(c->hub, made);
    c->conversation = conversation_ref(c->hub, c->owner, id.p ? id : str_of(made));
}

bool graft_may_begin(struct call *c)
{
    struct retention_refusal full;
    const char *why = retention_refuses(&c->hub->retention, str_of(c->owner->name), &full);
    if (why) {
        c->hub->stats.limit_hits[full.is_all ? LIMIT_STORE : LIMIT_STORE_PER_OWNER]++;
        c->retry_after_ms = full.retry_after_ms;
        call_fail(c, ERR_OVERLOADED, why);
    } else if (c->conversation->grafting || c->conversation->deleting ||
               !list_is_empty(&c->conversation->tasks)) {
        call_fail(c, ERR_CONFLICT, is_in_use);
    } else if (c->owner->n_grafts >= MAX_GRAFTS_PER_OWNER || c->hub->n_grafts >= MAX_GRAFTS) {
        c->hub->stats.limit_hits[LIMIT_GRAFTS]++;
        call_fail(c, ERR_OVERLOADED, "too many forks and imports are under way");
    } else {
        c->graft = graft_new();
        c->conversation->grafting = c;
        c->owner->n_grafts++;
        c->hub->n_grafts++;
        return true;
    }
    return false;
}

void graft_over(struct call *c)
{
    c->conversation->grafting = NULL;
    c->owner->n_grafts--;
    c->hub->n_grafts--;
    graft_free(c->graft);
}

bool graft_is_new(struct call *c, int status)
{
    if (status == STORE_NOT_FOUND && list_is_empty(&c->conversation->tasks))
        return true;
    if (status == 0 || status == STORE_NOT_FOUND)
        call_fail(c, ERR_CONFLICT, is_in_use);
    else
        call_store_failed(c, status);
    return false;
}

static void on_grafted(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    struct buf line = {0};
    if (status < 0) {
        call_write_failed(c);
        return;
    }
    reply_begin(c, &line, c->req.verb == VERB_FORK ? "forked" : "imported");
    js_put_field(&line, "conversation_id", str_of(c->conversation->id));
    js_put_int(&line, "messages", (int64_t)c->graft->n_messages);
    buf_putc(&line, '}');
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

void graft_end(struct call *c)
{
    struct str title = c->req.title.p ? c->req.title : str_of(c->graft->title);
    const struct agent *agent = hub_find_agent(c->hub, str_of(c->graft->agent));
    if (!agent) /* it is not configured here (any more) */
        agent = hub_find_agent(c->hub, STR_NULL);
    graft_put(c->graft, &(struct graft_place){
                            .to = c->conversation, .title = title, .agent = str_of(agent->name)});
    list_remove(&c->naming);
    call_wait(c, on_grafted);
}

/* --- files ------------------------------------------------------------------------------------ */

static void fork_next_file(struct call *c);

static void on_fork_file(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (status < 0 && status != STORE_NOT_FOUND)
        call_store_failed(c, status);
    else if (status == 0 && !graft_add_file(c->graft, &answer->files[0]))
        call_fail(c, ERR_TOO_LARGE, graft_is_full);
    else
        fork_next_file(c);
}

/* c->at: the message whose files are looked up; c->n: how many of them were. */
static struct str fork_next_id(struct call *c, struct buf *id)
{
    struct js_doc *doc = &c->hub->doc;
    for (; c->at < c->graft->n_messages; c->at++, c->n = 0) {
        struct str parts = c->graft->messages[c->at].record.parts;
        uint32_t n = 0;
        if (!parts_have_file(parts) || !js_parse(doc, parts.p, parts.n, JS_OURS))
            continue;
        for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i), n++) {
            struct str found = n < c->n ? STR_NULL : part_file_id(doc, i, id);
            if (!found.p)
                continue;
            c->n = n + 1;
            return found;
        }
    }
    return STR_NULL;
}

/* A file that ends meanwhile may have been found (chat_files.c): then all are looked up again. */
static void fork_next_file(struct call *c)
{
    struct buf id = {0};
    struct str next = fork_next_id(c, &id);
    if (next.p) {
        call_query(c,
                   &(struct query){
                       .kind = QUERY_FILE, .conversation_id = c->req.conversation_id, .key = next},
                   on_fork_file);
    } else if (c->files.ended) {
        c->files.ended = false;
        c->graft->n_files = c->at = c->n = 0;
        fork_next_file(c);
    } else {
        graft_end(c);
    }
    buf_done(&id);
}

static void fork_files(struct call *c)
{
    const char *wrong = graft_check(c->graft);
    if (wrong) { /* parts of it were removed while it was read */
        call_fail(c, ERR_NOT_FOUND, NO_SUCH_CONVERSATION);
        return;
    }
    c->at = c->n = 0;
    list_push(&c->hub->naming, &c->naming);
    fork_next_file(c);
}

/* --- tasks ------------------------------------------------------------------------------------ */

static void fork_ask_tasks(struct call *c, struct str before);

static void on_fork_tasks(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (status < 0 && status != STORE_NOT_FOUND) {
        call_store_failed(c, status);
        return;
    }
    bool fits = true;
    for (size_t i = 0; i < answer->n_tasks && fits; i++)
        fits = graft_add_task(c->graft, &answer->tasks[i]);
    if (answer->more && fits) /* tasks that there is no room for are told by their messages */
        fork_ask_tasks(c, answer->tasks[answer->n_tasks - 1].task_id);
    else
        fork_files(c);
}

static void fork_ask_tasks(struct call *c, struct str before)
{
    call_query(c,
               &(struct query){.kind = QUERY_TASKS,
                               .conversation_id = c->req.conversation_id,
                               .turns = true,
                               .before = before,
                               .limit = FORK_TASKS},
               on_fork_tasks);
}

/* --- the path --------------------------------------------------------------------------------- */

static void on_fork_path(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    bool fits = true;
    if (status < 0 && status != STORE_NOT_FOUND) {
        call_store_failed(c, status);
        return;
    }
    for (size_t i = answer->n_messages; i > 0 && fits; i--)
        fits = graft_add_message(c->graft, &answer->messages[i - 1]);
    if (!fits) {
        call_fail(c, ERR_TOO_LARGE, graft_is_full);
    } else if (answer->more && answer->n_messages) {
        call_query(c,
                   &(struct query){.kind = QUERY_PATH,
                                   .conversation_id = c->req.conversation_id,
                                   .before = answer->messages[0].message_id,
                                   .limit = LIST_MAX},
                   on_fork_path);
    } else if (c->graft->n_messages == 0) {
        call_fail(c, ERR_NOT_FOUND, NO_SUCH_MESSAGE);
    } else {
        graft_turn(c->graft);
        fork_ask_tasks(c, STR_NULL);
    }
}

static void fork_path(struct call *c, struct str from)
{
    call_query(c,
               &(struct query){.kind = QUERY_PATH,
                               .conversation_id = c->req.conversation_id,
                               .key = from,
                               .limit = LIST_MAX},
               on_fork_path);
}

static void on_fork_turn(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    const struct message_record *m = status == 0 ? turn_find(answer, c->req.message_id) : NULL;
    if (status < 0 && status != STORE_NOT_FOUND)
        call_store_failed(c, status);
    else if (!m)
        call_fail(c, ERR_NOT_FOUND, NO_SUCH_MESSAGE);
    else
        fork_path(c, m->message_id);
}

/* --- the source ------------------------------------------------------------------------------- */

static void on_fork_source(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (status == STORE_NOT_FOUND) {
        call_fail(c, ERR_NOT_FOUND, NO_SUCH_CONVERSATION);
        return;
    }
    if (status < 0) {
        call_store_failed(c, status);
        return;
    }
    const struct conversation_record *r = &answer->conversations[0];
    graft_name(c->graft, r->title, r->agent);
    if (!c->req.message_id.p) {
        fork_path(c, STR_NULL);
        return;
    }
    call_query(c,
               &(struct query){.kind = QUERY_TURN,
                               .conversation_id = c->req.conversation_id,
                               .key = c->req.message_id},
               on_fork_turn);
}

static void on_fork_target(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    (void)answer;
    if (graft_is_new(c, status))
        call_query(
            c,
            &(struct query){.kind = QUERY_CONVERSATION, .conversation_id = c->req.conversation_id},
            on_fork_source);
}

void verb_fork(struct call *c)
{
    graft_begin(c, c->req.to);
    if (!graft_may_begin(c))
        return;
    call_query(
        c,
        &(struct query){.kind = QUERY_CONVERSATION, .conversation_id = str_of(c->conversation->id)},
        on_fork_target);
}
