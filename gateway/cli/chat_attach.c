/* Files that go along with the next question: they are sent at once, and named when it is asked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "gateway/cli/chat_private.h"
#include "gateway/cli/chat_transfer.h"

struct chat_attachment {
    struct chat *chat;
    struct chat_transfer *transfer; /* NULL: it is there */
    char *name, *file_id;
    int64_t size;
    bool is_dropped; /* nobody wants it any more */
};

/* --- one of them ------------------------------------------------------------------------------ */

static void attachment_free(struct chat_attachment *a)
{
    chat_transfer_free(a->transfer);
    free(a->name);
    free(a->file_id);
    free(a);
}

static void take_off(struct chat *c, const struct chat_attachment *a)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->n_attached; i++)
        if (c->attached[i] != a)
            c->attached[kept++] = c->attached[i];
    c->n_attached = kept;
}

static bool read_file_id(struct chat_attachment *a, struct str part)
{
    struct js_doc doc = {0};
    struct buf id = {0};
    if (js_parse(&doc, part.p, part.n, JS_AGENT) && js_get(&doc, 0, "file_id"))
        js_value(&doc, js_get(&doc, 0, "file_id"), &id);
    a->file_id = id.len ? buf_take(&id) : NULL;
    js_done(&doc);
    return a->file_id != NULL;
}

/* The questions that wait were meant for after it. */
static void tell_failure(struct chat *c, const char *name, const char *why)
{
    struct buf text = {0};
    buf_putf(&text, "%s is not attached: %s", name, why);
    if (c->o->talks) {
        chat_show_aside(&c->show, "%s", text.bytes);
        chat_talk_take_back(c);
    } else {
        chat_give_up(c, text.bytes);
    }
    buf_done(&text);
}

static void on_attached(void *arg, struct chat_transfer *t)
{
    struct chat_attachment *a = arg;
    struct chat *c = a->chat;
    const char *why = chat_transfer_error(t);
    bool is_there =
        !why && !chat_transfer_was_stopped(t) && read_file_id(a, chat_transfer_answer(t));
    a->transfer = NULL;
    if (a->is_dropped || c->state == CHAT_OVER) {
        if (!a->is_dropped)
            take_off(c, a);
        attachment_free(a);
    } else if (is_there) {
        chat_show_aside(&c->show, "· %s is attached", a->name);
    } else {
        take_off(c, a);
        tell_failure(c, a->name, why ? why : "it was stopped");
        attachment_free(a);
    }
    chat_transfer_free(t);
    if (c->state != CHAT_OVER && !chat_attach_is_busy(c))
        chat_attach_ready(c);
}

/* --- all of them ------------------------------------------------------------------------------ */

bool chat_attach_is_busy(const struct chat *c)
{
    for (size_t i = 0; i < c->n_attached; i++)
        if (c->attached[i]->transfer)
            return true;
    return false;
}

void chat_attach_ready(struct chat *c)
{
    if (c->o->talks)
        chat_talk_go_on(c);
    else if (c->state == CHAT_IDLE)
        chat_ask(c);
}

static void keep_attachment(struct chat *c, struct chat_transfer *t)
{
    struct chat_attachment *a = xcalloc(sizeof *a);
    a->chat = c;
    a->transfer = t;
    a->name = xstrdup(str_of(chat_transfer_name(t)));
    a->size = chat_transfer_size(t);
    c->attached = xrealloc(c->attached, (c->n_attached + 1) * sizeof *c->attached);
    c->attached[c->n_attached++] = a;
    chat_show_aside(&c->show, "· sending %s (%" PRId64 " bytes)", a->name, a->size);
    chat_transfer_start(t, &c->loop, on_attached, a);
}

/* A conversation begins with its first file too. */
static void name_conversation(struct chat *c)
{
    uint32_t random[4] = {0};
    char name[33];
    if (c->conversation)
        return;
    (void)!getrandom(random, sizeof random, 0);
    snprintf(name, sizeof name, "%08x%08x%08x%08x", random[0], random[1], random[2], random[3]);
    c->conversation = xstrdup(str_of(name));
}

void chat_attach(struct chat *c, const char *path)
{
    char *why = NULL;
    if (c->n_attached == CHAT_ATTACHED) {
        tell_failure(c, path, "a question has at most 32 files");
        return;
    }
    name_conversation(c);
    const struct chat_transfer_order order = {
        .url = &c->o->url, .token = c->token, .conversation = c->conversation, .path = path};
    struct chat_transfer *t = chat_transfer_open(&order, &why);
    if (t)
        keep_attachment(c, t);
    else
        tell_failure(c, path, why);
    free(why);
}

void chat_attach_put_message(const struct chat *c, struct buf *request)
{
    if (c->n_attached == 0) {
        js_put_field(request, "message", buf_str(&c->message));
        return;
    }
    js_put_key(request, "message");
    buf_puts(request, "[{");
    js_put_field(request, "type", STR("text"));
    js_put_field(request, "text", buf_str(&c->message));
    for (size_t i = 0; i < c->n_attached; i++) {
        buf_puts(request, "},{");
        js_put_field(request, "type", STR("file"));
        js_put_field(request, "file_id", str_of(c->attached[i]->file_id));
    }
    buf_puts(request, "}]");
}

void chat_attach_asked(struct chat *c)
{
    for (size_t i = 0; i < c->n_attached; i++) {
        struct chat_attachment *a = c->attached[i];
        ASSERT(!a->transfer);
        chat_save_know(c, str_of(a->file_id), str_of(a->name), a->size);
        attachment_free(a);
    }
    c->n_attached = 0;
}

bool chat_attach_stop(struct chat *c)
{
    bool any = false;
    for (size_t i = 0; i < c->n_attached; i++)
        if (c->attached[i]->transfer) {
            chat_transfer_stop(c->attached[i]->transfer);
            any = true;
        }
    return any;
}

void chat_attach_drop(struct chat *c)
{
    for (size_t i = 0; i < c->n_attached; i++) {
        struct chat_attachment *a = c->attached[i];
        a->is_dropped = true;
        if (a->transfer)
            chat_transfer_stop(a->transfer); /* on_attached frees it */
        else
            attachment_free(a);
    }
    c->n_attached = 0;
}
