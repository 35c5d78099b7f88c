#include "gateway/front/outgoing.h"

#include "gateway/base/fault.h"
#include "gateway/front/deflate.h"
#include "gateway/front/frame.h"
#include "gateway/front/tcp.h"

/* Only text is compressed. */
static void write_message(struct conn *c, struct buf *out, enum ws_form as)
{
    static const enum lws_write_protocol forms[] = {
        [WS_TEXT] = LWS_WRITE_TEXT, [WS_BINARY] = LWS_WRITE_BINARY, [WS_FRAMES] = LWS_WRITE_RAW};
    struct front *f = c->front;
    struct str message = {out->bytes + LWS_PRE, out->len - LWS_PRE}, frame = STR_NULL;
    if (c->peer.deflate.bits && as == WS_TEXT)
        frame = deflate_frame(f->deflate, c->peer.deflate, &c->deflated, message);
    struct str sent = frame.p ? frame : message;
    f->bytes_out += sent.n;
    if (FAULT(SEND) ||
        lws_write(c->wsi, (unsigned char *)sent.p, sent.n, frame.p ? LWS_WRITE_RAW : forms[as]) < 0)
        ws_cut(c); /* after a failed write nothing may follow: there would be a gap */
}

bool outgoing_is_due(const struct conn *c)
{
    return c->kind ? c->kind->has_output(c) : session_has_output(&c->session);
}

/* A message or, to a reader that is alone and has been sent everything so far, two in one write: it
 * is woken half as often. */
static bool fill_frames(struct conn *c, struct buf *out)
{
    bool two = c->front->is_alone && tcp_has_sent(lws_get_socket_fd(c->wsi));
    size_t begun = out->len;
    for (int i = 0; i == 0 || (i == 1 && two && outgoing_is_due(c)); i++) {
        size_t at = frame_begin(out);
        if (session_fill(&c->session, out, MAX_MESSAGE_OUT))
            frame_end(out, at);
        else
            out->len = at;
    }
    return out->len > begun;
}

static bool fill_message(struct conn *c, struct buf *out, enum ws_form *ret_as)
{
    *ret_as = c->kind || c->peer.deflate.bits ? WS_TEXT : WS_FRAMES;
    if (c->kind)
        return c->kind->fill(c, out, ret_as);
    return c->peer.deflate.bits ? session_fill(&c->session, out, MAX_MESSAGE_OUT)
                                : fill_frames(c, out);
}

void outgoing_write(struct conn *c)
{
    struct buf *out = &c->front->out;
    enum ws_form as;
    out->len = LWS_PRE;
    if (fill_message(c, out, &as))
        write_message(c, out, as);
}
