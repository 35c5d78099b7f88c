/* Between the look-up of a file and the commit of the chat that names it, the file may end: it
 * expires, or retention or a delete takes it.  All of these are staged here, on the loop.  So a
 * chat looks when everything that was staged before is on disk, is marked when something else ends
 * files meanwhile, and then looks again: in the turn that stages it, its files are there, and what
 * is staged later sees that it names them. */
#include "core/call.h"
#include "core/task.h"
#include "proto/parts.h"

struct op *chat_files_end(struct hub *h, const struct op *op)
{
    list_each (it, &h->naming) {
        struct call *c = list_item(it, struct call, naming);
        if (!op->owner.p || (str_eq(op->owner, str_of(c->owner->name)) &&
                             str_eq(op->conversation_id, c->req.conversation_id)))
            c->files.ended = true;
    }
    return journal_put(&h->journal, op);
}

/* --- the look-up ------------------------------------------------------------------------------ */

static void look_up_next(struct call *c);

/* One answer for a foreign, a missing and a malformed id. */
static void on_chat_file(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (status == STORE_NOT_FOUND) {
        c->files.refuse(c, ERR_NOT_FOUND, "no such file");
        return;
    }
    if (status == STORE_CORRUPT) {
        hub_tell_damage(c->hub, "", 0);
        c->files.refuse(c, ERR_INTERNAL, "this conversation's data in the store is damaged");
        return;
    }
    if (status < 0) {
        c->files.refuse(c, ERR_OVERLOADED, STORE_CANNOT_BE_READ);
        return;
    }
    buf_puts(&c->out, c->at ? "," : "[");
    buf_puts(&c->out, "{\"type\":\"file\"");
    file_put(&c->out, &answer->files[0]);
    buf_putc(&c->out, '}');
    c->at++;
    look_up_next(c);
}

static void on_settled(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    if (status < 0) {
        c->files.refuse(c, ERR_OVERLOADED, "the store did not accept it");
        return;
    }
    buf_clear(&c->out);
    c->at = 0;
    c->files.ended = false;
    look_up_next(c);
}

static void look_up_all(struct call *c)
{
    if (!list_is_in(&c->naming))
        list_push(&c->hub->naming, &c->naming);
    call_wait(c, on_settled);
}

/* Copies the parts up to the next file, and asks for that. */
static void look_up_next(struct call *c)
{
    struct js_doc *doc = &c->hub->doc;
    struct buf id = {0};
    if (!js_parse(doc, c->files.parts.p, c->files.parts.n, JS_OURS))
        UNREACHABLE();
    uint32_t i = js_first(doc, 0);
    for (size_t n = 0; n < c->at; n++)
        i = js_next(doc, i);
    for (; i < js_end(doc, 0); i = js_next(doc, i), c->at++) {
        struct str file_id = part_file_id(doc, i, &id);
        if (file_id.p) {
            struct str conversation = c->req.conversation_id;
            call_query(c,
                       &(struct query){.kind = QUERY_FILE,
                                       .conversation_id = conversation.p ? conversation : STR(""),
                                       .key = file_id},
                       on_chat_file);
            buf_done(&id);
            return;
        }
        buf_puts(&c->out, c->at ? "," : "[");
        js_copy(doc, i, &c->out);
    }
    buf_putc(&c->out, ']');
    buf_done(&id);
    if (c->files.ended)
        look_up_all(c);
    else
        c->files.then(c);
}

void chat_files_find(struct call *c, struct str parts, void (*then)(struct call *c),
                     void (*refuse)(struct call *c, enum error e, const char *message))
{
    c->files.parts = parts;
    c->files.then = then;
    c->files.refuse = refuse;
    look_up_all(c);
}

bool chat_files_are_found(const struct call *c, struct str parts)
{
    return !parts_have_file(parts) || (c->files.parts.p == parts.p && !c->files.ended);
}

/* --- the commit ------------------------------------------------------------------------------- */

void chat_files_use(struct call *c, struct task *t, struct str parts)
{
    struct js_doc *doc = &c->hub->doc;
    struct buf id = {0};
    list_remove(&c->naming);
    if (!parts_have_file(parts) || !js_parse(doc, parts.p, parts.n, JS_OURS))
        return;
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i)) {
        struct str file_id = part_file_id(doc, i, &id);
        if (file_id.p)
            journal_put(&c->hub->journal,
                        &(struct op){.kind = OP_FILE_USE,
                                     .owner = str_of(c->owner->name),
                                     .conversation_id = str_of(c->conversation->id),
                                     .task_id = task_id_of(t),
                                     .key = file_id});
    }
    buf_done(&id);
}
