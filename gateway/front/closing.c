#include "gateway/front/closing.h"

#include <sys/socket.h>

#include "gateway/base/deadline.h"
#include "gateway/front/extension.h"
#include "gateway/front/lws_quirks.h"
#include "proto/js.h"

void closing_begin(struct conn *c)
{
    deadline_set(c->wsi, CLOSE_WAIT_S);
    c->state = CONN_CLOSING;
    ws_unstall(c);
}

void closing_say(struct conn *c)
{
    enum close_code code = c->session.close_code;
    lws_quirk_write_close(c->wsi, code, close_text(code));
    closing_begin(c);
}

/* False, with ret_code set, when it is malformed. lws would echo half a code, and codes from 5000
 * on (RFC 6455 sections 5.5.1, 7.4). */
static bool is_close(struct lws *wsi, const unsigned char *payload, size_t len,
                     enum close_code *ret_code)
{
    *ret_code = CLOSE_PROTOCOL;
    if (len == 1 || extension_marks(wsi))
        return false;
    if (len == 0)
        return true;
    if ((payload[0] << 8 | payload[1]) >= 5000)
        return false;
    *ret_code = CLOSE_INVALID;
    return utf8_valid((struct str){(const char *)payload + 2, len - 2});
}

/* Nothing after the peer's close frame is carried out (F53); lws would still deliver it. */
int closing_answer(struct conn *c, const unsigned char *payload, size_t len)
{
    enum close_code code;
    if (c->state != CONN_OPEN)
        return 1; /* the echo of our close frame: no second one */
    if (!is_close(c->wsi, payload, len, &code)) {
        lws_quirk_write_close(c->wsi, code, "");
        return 1;
    }
    closing_begin(c);
    return 0;
}

/* libwebsockets 4.1.6 fails the connection (RFC 6455 section 7.1.7): it sends its close frame in
 * the next turn, then waits 5 s for the peer's.  It cannot read that one, because it stopped inside
 * another frame. */
int closing_dropped(struct conn *c)
{
    if (!c || c->state != CONN_OPEN || lws_get_close_length(c->wsi) <= 0)
        return 0;
    closing_begin(c);
    ws_stall(c, &c->front->failed);
    return 0;
}

/* So our side ends after that close frame; the peer sees it and ends its own. */
void closing_turn(struct front *f)
{
    list_each (it, &f->failed) {
        struct stall *stall = list_item(it, struct stall, node);
        struct conn *c = stall->conn;
        bool is_over = stall->close_was_due && !lws_partial_buffered(c->wsi);
        stall->close_was_due = true;
        if (!is_over)
            continue;
        ws_unstall(c);
        shutdown(lws_get_socket_fd(c->wsi), SHUT_WR);
    }
}
