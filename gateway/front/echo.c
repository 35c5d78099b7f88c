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

bool echo_is_asked(struct lws *wsi)
{
    char path[16] = "";
    return lws_hdr_copy(wsi, path, sizeof path, WSI_TOKEN_GET_URI) > 0 &&
           strcmp(path, "/v1/echo") == 0;
}

void echo_open(struct conn *c, struct lws *wsi)
{
    list_init(&c->echoes);
    c->is_echo = echo_is_asked(wsi);
    if (!c->is_echo)
        return;
    struct owner *nobody = owner_ref(c->front->hub, STR("\x01"
                                                        "echo"));
    session_adopt(&c->session, nobody, nobody, 0);
    owner_unref(c->front->hub, nobody);
}

static void message_free(struct message *m)
{
    buf_done(&m->bytes);
    free(m);
}

void echo_close(struct conn *c)
{
    for (struct list *at; (at = list_pop(&c->echoes)) != NULL;)
        message_free(list_item(at, struct message, at));
}

size_t echo_limit(const struct conn *c, size_t limit)
{
    return c->is_echo ? ECHO_MOST : limit;
}

bool echo_takes(struct conn *c, struct str message)
{
    if (!c->is_echo)
        return false;
    struct message *m = xcalloc(sizeof *m);
    m->is_binary = c->message_is_binary;
    buf_putstr(&m->bytes, message);
    list_push(&c->echoes, &m->at);
    session_wake(&c->session);
    return true;
}

bool echo_fill(struct conn *c, struct buf *out, enum lws_write_protocol *ret_as)
{
    struct list *at = list_pop(&c->echoes);
    if (!at)
        return false;
    struct message *m = list_item(at, struct message, at);
    buf_putstr(out, buf_str(&m->bytes));
    *ret_as = m->is_binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT;
    message_free(m);
    return true;
}

bool echo_has_output(const struct conn *c)
{
    return !list_is_empty(&c->echoes);
}

#else

/* An empty file is no C. */
typedef int echo_is_off;

#endif
