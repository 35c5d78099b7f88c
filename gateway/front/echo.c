#include "gateway/front/echo.h"

#ifdef HOLDFAST_ECHO

#include <stdlib.h>

#include "core/list.h"
#include "gateway/front/address.h"
#include "gateway/front/ws.h"
#include "proto/buf.h"

struct message {
    struct list at;
    bool is_binary;
    struct buf bytes; /* behind LWS_PRE */
};

struct echo {
    struct message *coming; /* NULL between messages */
    struct list going;
};

static void message_free(struct message *m)
{
    if (m)
        buf_done(&m->bytes);
    free(m);
}

static struct message *message_new(bool is_binary)
{
    struct message *m = xcalloc(sizeof *m);
    m->is_binary = is_binary;
    memset(buf_reserve(&m->bytes, LWS_PRE), 0, LWS_PRE);
    m->bytes.len = LWS_PRE;
    return m;
}

static int receive(struct echo *e, struct lws *wsi, const void *piece, size_t len)
{
    if (!e->coming)
        e->coming = message_new(lws_frame_is_binary(wsi));
    buf_put(&e->coming->bytes, piece, len);
    if (!lws_is_final_fragment(wsi) || lws_remaining_packet_payload(wsi))
        return 0;
    list_push(&e->going, &e->coming->at);
    e->coming = NULL;
    lws_callback_on_writable(wsi);
    return 0;
}

static int send_next(struct echo *e, struct lws *wsi)
{
    struct list *at = lws_partial_buffered(wsi) ? NULL : list_pop(&e->going);
    if (at) {
        struct message *m = list_item(at, struct message, at);
        lws_write(wsi, (unsigned char *)m->bytes.bytes + LWS_PRE, m->bytes.len - LWS_PRE,
                  m->is_binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT);
        message_free(m);
    }
    if (!list_is_empty(&e->going) || lws_partial_buffered(wsi))
        lws_callback_on_writable(wsi);
    return 0;
}

static int closed(struct echo *e, struct lws *wsi)
{
    for (struct list *at; (at = list_pop(&e->going)) != NULL;)
        message_free(list_item(at, struct message, at));
    message_free(e->coming);
    free(e);
    ((struct peer *)lws_get_opaque_user_data(wsi))->echo = NULL;
    return 0;
}

static bool is_ours(struct lws *wsi)
{
    char path[16] = "";
    return lws_hdr_copy(wsi, path, sizeof path, WSI_TOKEN_GET_URI) > 0 &&
           strcmp(path, "/v1/echo") == 0;
}

static bool adopt(struct lws *wsi)
{
    if (!is_ours(wsi))
        return false;
    struct peer *p = lws_get_opaque_user_data(wsi);
    struct echo *e = p ? xcalloc(sizeof *e) : NULL;
    if (!e)
        return false;
    list_init(&e->going);
    p->echo = e;
    return true;
}

bool echo_takes(struct lws *wsi, enum lws_callback_reasons why, void *in, size_t len,
                int *ret_result)
{
    *ret_result = 0;
    if (why == LWS_CALLBACK_HTTP_CONFIRM_UPGRADE && adopt(wsi))
        return true;
    struct peer *p = wsi ? lws_get_opaque_user_data(wsi) : NULL;
    struct echo *e = p ? p->echo : NULL;
    if (!e)
        return false;
    switch (why) {
    case LWS_CALLBACK_RECEIVE: *ret_result = receive(e, wsi, in, len); return true;
    case LWS_CALLBACK_SERVER_WRITEABLE: *ret_result = send_next(e, wsi); return true;
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
        *ret_result = ws_refuse_close(wsi, in, len);
        return true;
    case LWS_CALLBACK_WSI_CREATE:
    case LWS_CALLBACK_WSI_DESTROY: return false; /* counted with all others */
    case LWS_CALLBACK_CLOSED: *ret_result = closed(e, wsi); return true;
    case LWS_CALLBACK_CONFIRM_EXTENSION_OKAY: *ret_result = 1; return true; /* it speaks none */
    default: return true;
    }
}

#else

/* An empty file is no C. */
typedef int echo_is_off;

#endif
