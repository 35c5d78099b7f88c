/* Stages a graft: new ids in the order of the old ones, parents before their children. */
#include "core/graft.h"
#include "proto/file_head.h"
#include "proto/parts.h"

/* --- files ------------------------------------------------------------------------------------ */

static const struct file_record *find_file(const struct graft *g, struct str id)
{
    for (size_t i = 0; i < g->n_files; i++)
        if (str_eq(g->file_keys[i], id))
            return &g->files[i];
    return NULL;
}

static void graft_put_files(struct graft *g, struct conversation *to)
{
    for (size_t i = 0; i < g->n_files; i++) {
        struct file_record *f = &g->files[i];
        char id[TASK_ID_LEN + 1];
        hub_new_id(to->hub, id);
        f->file_id = arena_str(&g->chunks, str_of(id));
        f->owner = str_of(to->owner->name);
        f->conversation_id = str_of(to->id);
        journal_put(&to->hub->journal, &(struct op){.kind = OP_FILE_PUT, .file = f});
    }
}

/* A file that is not there (any more) becomes its name. */
static void put_lost_file(const struct js_doc *doc, uint32_t part, struct buf *out)
{
    struct buf name = {0};
    uint32_t node = js_get(doc, part, "name");
    buf_putc(&name, '[');
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, &name);
    buf_putc(&name, ']');
    buf_puts(out, "{\"type\":\"text\"");
    js_put_field(out, "text", buf_str(&name));
    buf_putc(out, '}');
    buf_done(&name);
}

static void graft_put_part(const struct graft *g, const struct js_doc *doc, uint32_t part,
                           struct buf *out)
{
    struct buf id = {0};
    struct str named = part_file_id(doc, part, &id);
    const struct file_record *f = named.p ? find_file(g, named) : NULL;
    if (f) {
        buf_puts(out, "{\"type\":\"file\"");
        file_put(out, f);
        buf_putc(out, '}');
    } else if (named.p) {
        put_lost_file(doc, part, out);
    } else {
        js_copy(doc, part, out);
    }
    buf_done(&id);
}

/* The parts of the message with the new ids of their files, and its content by them. */
static void name_files(struct graft *g, struct message_record *m, struct js_doc *doc)
{
    struct buf parts = {0}, content = {0};
    if (!parts_have_file(m->parts) || !js_parse(doc, m->parts.p, m->parts.n, JS_OURS))
        return;
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i)) {
        buf_putc(&parts, parts.len ? ',' : '[');
        graft_put_part(g, doc, i, &parts);
    }
    buf_putc(&parts, ']');
    if (js_parse(doc, parts.bytes, parts.len, JS_OURS))
        parts_put_text(doc, 0, &content);
    m->parts = arena_str(&g->chunks, buf_str(&parts));
    m->content = arena_str(&g->chunks, content.len ? buf_str(&content) : STR(""));
    buf_done(&parts);
    buf_done(&content);
}

static void use_files(struct conversation *to, struct str task_id, struct str parts)
{
    struct js_doc *doc = &to->hub->doc;
    struct buf id = {0};
    if (!parts_have_file(parts) || !js_parse(doc, parts.p, parts.n, JS_OURS))
        return;
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i)) {
        struct str file_id = part_file_id(doc, i, &id);
        if (file_id.p)
            journal_put(&to->hub->journal, &(struct op){.kind = OP_FILE_USE,
                                                        .owner = str_of(to->owner->name),
                                                        .conversation_id = str_of(to->id),
                                                        .task_id = task_id,
                                                        .key = file_id});
    }
    buf_done(&id);
}

/* --- tasks ------------------------------------------------------------------------------------ */

/* The end that the source tells of; else what its messages say.  Retention counts from now. */
static struct task_state ended(const struct graft *g, const struct graft_task *t, int64_t now)
{
    const struct task_record *known = t->known == GRAFT_NONE ? NULL : &g->known[t->known];
    const struct graft_message *answer = t->answer == GRAFT_NONE ? NULL : &g->messages[t->answer];
    bool is_whole = answer && !answer->record.partial;
    struct task_state s = {.status = is_whole ? STATUS_COMPLETED : STATUS_CANCELLED,
                           .progress = -1,
                           .first = 2,
                           .head = 1, /* its events stay where they are */
                           .completed_at = now};
    if (answer)
        s.output = answer->record.content;
    if (!is_whole && known && known->state.status == STATUS_FAILED) {
        s.status = STATUS_FAILED;
        s.error = known->state.error;
        s.error_message = known->state.error_message;
    } else if (!is_whole) {
        s.error = TASK_CANCELLED_ERROR;
        s.error_message = STR("cancelled before its end");
    }
    return s;
}

static void graft_put_task(struct graft *g, struct graft_task *t, const struct graft_place *at)
{
    struct hub *h = at->to->hub;
    const struct task_record *known = t->known == GRAFT_NONE ? NULL : &g->known[t->known];
    const struct graft_message *q = &g->messages[t->question];
    const struct graft_message *from = t->is_again ? &g->messages[t->answer] : q;
    struct task_record r = {.key = hub_new_key(h),
                            .type = q->record.role == ROLE_SYSTEM ? TYPE_NOTICE : TYPE_CHAT,
                            .created_at = from->record.created_at,
                            .owner = str_of(at->to->owner->name),
                            .conversation_id = str_of(at->to->id),
                            .task_id = {t->new_id, TASK_ID_LEN},
                            .agent = known && known->agent.n ? known->agent : at->agent,
                            .question_id = t->is_again ? str_of(q->new_id) : STR_NULL,
                            .input = q->record.content,
                            .parts = q->record.parts,
                            .state = ended(g, t, h->clock.wall_ms)};
    r.state.started_at = r.created_at;
    journal_put(&h->journal, &(struct op){.kind = OP_TASK_NEW, .record = &r});
    use_files(at->to, r.task_id, r.parts);
}

/* --- messages --------------------------------------------------------------------------------- */

static void graft_put_message(struct graft *g, size_t i, const struct graft_place *at)
{
    struct graft_message *m = &g->messages[i];
    struct message_record r = m->record;
    struct graft_task *t = m->task == GRAFT_NONE ? NULL : &g->tasks[m->task];
    bool begins = t && (t->is_again ? t->answer == i : t->question == i);
    if (begins)
        graft_put_task(g, t, at);
    r.message_id = str_of(m->new_id);
    r.parent_id = m->parent == GRAFT_NONE ? STR_NULL : str_of(g->messages[m->parent].new_id);
    r.task_id = t ? str_of(t->new_id) : STR_NULL;
    journal_put(&at->to->hub->journal,
                &(struct op){.kind = OP_MESSAGE,
                             .owner = str_of(at->to->owner->name),
                             .conversation_id = str_of(at->to->id),
                             .message = &r,
                             .place = m->parent == GRAFT_NONE ? PLACE_ROOT : PLACE_UNDER});
    m->is_put = true;
}

/* Its ancestors first, the eldest before the others: a question may be older than the answer that
 * it hangs on. */
static void put_with_parents(struct graft *g, size_t i, const struct graft_place *at)
{
    while (!g->messages[i].is_put) {
        size_t first = i;
        for (size_t up; (up = g->messages[first].parent) != GRAFT_NONE && !g->messages[up].is_put;)
            first = up;
        graft_put_message(g, first, at);
    }
}

static void new_ids(struct graft *g, struct hub *h)
{
    for (size_t i = 0; i < g->n_messages; i++) {
        struct graft_message *m = &g->messages[i];
        struct graft_task *t = m->task == GRAFT_NONE ? NULL : &g->tasks[m->task];
        if (t && !t->new_id[0])
            hub_new_id(h, t->new_id);
        hub_new_id(h, m->new_id);
    }
}

/* The source's current branch is the current one here, too. */
static void put_tip(struct graft *g, const struct graft_place *at)
{
    size_t tip = g->n_messages - 1;
    for (size_t i = 0; g->tip.p && i < g->n_messages; i++)
        if (str_eq(g->messages[i].record.message_id, g->tip))
            tip = i;
    const struct graft_message *m = &g->messages[tip];
    struct graft_task *t = m->task == GRAFT_NONE ? NULL : &g->tasks[m->task];
    bool is_open = t && m->record.role != ROLE_ASSISTANT && t->answer == GRAFT_NONE;
    journal_put(&at->to->hub->journal,
                &(struct op){.kind = OP_BRANCH,
                             .owner = str_of(at->to->owner->name),
                             .conversation_id = str_of(at->to->id),
                             .key = str_of(m->new_id),
                             .task_id = is_open ? str_of(t->new_id) : STR_NULL});
}

void graft_put(struct graft *g, const struct graft_place *at)
{
    struct hub *h = at->to->hub;
    at->to->refs++;
    journal_put(&h->journal, &(struct op){.kind = OP_CONVERSATION,
                                          .done = conversation_op_done,
                                          .ref = at->to,
                                          .owner = str_of(at->to->owner->name),
                                          .conversation_id = str_of(at->to->id),
                                          .title = at->title,
                                          .agent = at->agent,
                                          .at = h->clock.wall_ms});
    graft_put_files(g, at->to);
    for (size_t i = 0; i < g->n_messages; i++)
        name_files(g, &g->messages[i].record, &h->doc);
    new_ids(g, h);
    for (size_t i = 0; i < g->n_messages; i++)
        put_with_parents(g, i, at);
    if (g->n_messages)
        put_tip(g, at);
}
