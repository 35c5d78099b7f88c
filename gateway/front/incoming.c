#include "gateway/front/incoming.h"

#include <stdlib.h>

#include "gateway/base/log.h"
#include "gateway/front/deflate.h"
#include "gateway/front/extension.h"
#include "proto/js.h"
#include "proto/limits.h"

#define BLOCKS_OF_A_LINE 128 /* take as long as a line */

static size_t message_limit(const struct conn *c)
{
    const struct config *config = c->front->config;
    if (c->kind && c->stranger && c->kind->hello_bytes)
        return c->kind->hello_bytes;
    if (c->kind)
        return c->kind->most_bytes ? c->kind->most_bytes : config->rim_limits.face_bytes;
    size_t limit = config->limits.message_bytes;
    if (c->session.state == SESSION_HELLO && limit > MAX_HELLO_MESSAGE)
        return MAX_HELLO_MESSAGE;
    return limit;
}

/* False: a forbidden frame. */
static bool begin_piece(struct conn *c)
{
    bool is_new_frame = c->frame_ended;
    c->frame_ended = !lws_remaining_packet_payload(c->wsi);
    if (!lws_is_first_fragment(c->wsi))
        return !is_new_frame || !extension_marks(c->wsi);
    c->message_is_binary = lws_frame_is_binary(c->wsi);
    c->message_is_deflated = extension_marks(c->wsi);
    return true;
}

void incoming_done(struct conn *c)
{
    if (!c->incoming)
        return;
    buf_done(&c->incoming->bytes);
    free(c->incoming);
    c->incoming = NULL;
}

static void incoming_fail(struct conn *c, enum close_code code)
{
    incoming_done(c);
    session_close(&c->session, code);
}

/* No close code would tell the client that it did nothing wrong, and may return. */
static void incoming_give_up(struct conn *c)
{
    log_event_limited(LEVEL_WARN, "ws", "no_memory", LOG_TEXT("for", "a compressed message"));
    ws_cut(c);
}

/* Checks the text so far: only the character at its end may be incomplete. */
static bool may_become_text(const struct conn *c, struct incoming *in)
{
    if (c->message_is_binary || c->message_is_deflated || in->bytes.len == 0)
        return true;
    struct str rest = {in->bytes.bytes + in->n_checked, in->bytes.len - in->n_checked};
    rest.n -= utf8_begun(rest);
    in->n_checked += rest.n;
    return utf8_valid(rest);
}

/* The first n_checked bytes are known to be UTF-8. */
static void deliver(struct conn *c, struct str message, size_t n_checked)
{
    struct str rest = {message.p + n_checked, message.n - n_checked};
    if (!c->message_is_binary && !utf8_valid(rest))
        incoming_fail(c, CLOSE_INVALID);
    else if (c->kind)
        c->kind->receive(c, message);
    else if (c->message_is_binary)
        session_receive_binary(&c->session);
    else
        session_receive(&c->session, message);
}

static void expand(struct conn *c, struct str payload)
{
    struct buf text = {0};
    enum deflate_result result =
        deflate_expand(c->front->deflate, payload, message_limit(c), &text);
    session_charge(&c->session, (uint32_t)(deflate_blocks(c->front->deflate) / BLOCKS_OF_A_LINE));
    switch (result) {
    case DEFLATE_OK: deliver(c, buf_str(&text), 0); break;
    case DEFLATE_TOO_BIG: incoming_fail(c, CLOSE_TOO_BIG); break;
    case DEFLATE_BROKEN: incoming_fail(c, CLOSE_INVALID); break;
    case DEFLATE_NO_MEMORY: incoming_give_up(c); break;
    }
    buf_done(&text);
}

static void end_message(struct conn *c, struct str message, size_t n_checked)
{
    if (c->message_is_deflated)
        expand(c, message);
    else
        deliver(c, message, n_checked);
}

static void take_part(struct conn *c, const char *piece, size_t len)
{
    if (!c->incoming)
        c->incoming = xcalloc(sizeof *c->incoming);
    buf_put(&c->incoming->bytes, piece, len);
    if (!may_become_text(c, c->incoming))
        incoming_fail(c, CLOSE_INVALID);
}

void incoming_take(struct conn *c, const char *piece, size_t len)
{
    if (!begin_piece(c)) {
        incoming_fail(c, CLOSE_PROTOCOL);
        return;
    }
    size_t left = lws_remaining_packet_payload(c->wsi), limit = message_limit(c);
    bool whole = lws_is_final_fragment(c->wsi) && !left;
    size_t begun = c->incoming ? c->incoming->bytes.len : 0;
    if (begun + len + left > (c->message_is_deflated ? deflate_most(limit) : limit)) {
        incoming_fail(c, CLOSE_TOO_BIG);
        return;
    }
    if (!whole) {
        take_part(c, piece, len);
    } else if (!c->incoming) {
        end_message(c, (struct str){piece, len}, 0);
    } else {
        struct incoming in = *c->incoming;
        free(c->incoming);
        c->incoming = NULL;
        buf_put(&in.bytes, piece, len);
        end_message(c, buf_str(&in.bytes), in.n_checked);
        buf_done(&in.bytes);
    }
}
