#include "gateway/front/echo.h"

#ifdef HOLDFAST_ECHO

#include <stdlib.h>

#include "core/hub.h"

#define ECHO_MOST (64u << 20) /* bytes of a message */

struct message {
    struct list at;
    bool is_binary;
    struct buf bytes;
};

static struct list *echoes(const struct conn *c)
{
    return c->own;
}

/* The connection needs no hello. */
static void echo_opened(struct conn *c, struct lws *wsi)
{
    struct owner *nobody = owner_ref(c->front->hub, STR("\x01"
                                                        "echo"));
    (void)wsi;
    c->own = xcalloc(sizeof(struct list));
    list_init(echoes(c));
    session_adopt(&c->session, &(struct asker){.owner = nobody, .quota = nobody});
    owner_unref(c->front->hub, nobody);
}

static void message_free(struct message *m)
{
    buf_done(&m->bytes);
    free(m);
}

static void echo_closed(struct conn *c)
{
    for (struct list *at; (at = list_pop(echoes(c))) != NULL;)
        message_free(list_item(at, struct message, at));
    free(c->own);
}

static void echo_receive(struct conn *c, struct str message)
{
    struct message *m = xcalloc(sizeof *m);
    m->is_binary = c->message_is_binary;
    buf_putstr(&m->bytes, message);
    list_push(echoes(c), &m->at);
    session_wake(&c->session);
}

static bool echo_fill(struct conn *c, struct buf *out, enum ws_form *ret_as)
{
    struct list *at = list_pop(echoes(c));
    if (!at)
        return false;
    struct message *m = list_item(at, struct message, at);
    buf_putstr(out, buf_str(&m->bytes));
    *ret_as = m->is_binary ? WS_BINARY : WS_TEXT;
    message_free(m);
    return true;
}

static bool echo_has_output(const struct conn *c)
{
    return !list_is_empty(echoes(c));
}

const struct ws_kind echo_kind = {
    .path = "/v1/echo",
    .most_bytes = ECHO_MOST,
    .opened = echo_opened,
    .receive = echo_receive,
    .fill = echo_fill,
    .has_output = echo_has_output,
    .closed = echo_closed,
};

#else

/* ISO C forbids an empty file. */
typedef int echo_is_off;

#endif
