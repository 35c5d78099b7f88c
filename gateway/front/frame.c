#include "gateway/front/frame.h"

#define HEAD_USUAL 4 /* of 126 to 65,535 bytes: then the text is where it belongs already */

size_t frame_head(char ret[FRAME_HEAD_MOST], unsigned char first, size_t n)
{
    size_t bytes = n < 126 ? 0 : n <= UINT16_MAX ? 2 : 8;
    size_t at = FRAME_HEAD_MOST - 2 - bytes;
    ret[at] = (char)first;
    ret[at + 1] = (char)(bytes == 0 ? n : bytes == 2 ? 126 : 127);
    for (size_t i = 0; i < bytes; i++)
        ret[at + 2 + i] = (char)(n >> (8 * (bytes - 1 - i)));
    return at;
}

void frame_put(struct buf *out, struct str text)
{
    char head[FRAME_HEAD_MOST];
    size_t at = frame_head(head, FRAME_TEXT, text.n);
    buf_put(out, head + at, sizeof head - at);
    buf_putstr(out, text);
}

size_t frame_begin(struct buf *out)
{
    size_t at = out->len;
    (void)buf_reserve(out, FRAME_HEAD_MOST);
    out->len += HEAD_USUAL;
    return at;
}

void frame_end(struct buf *out, size_t at)
{
    char head[FRAME_HEAD_MOST];
    size_t n = out->len - at - HEAD_USUAL;
    size_t from = frame_head(head, FRAME_TEXT, n), bytes = sizeof head - from;
    if (bytes != HEAD_USUAL) {
        (void)buf_reserve(out, FRAME_HEAD_MOST);
        memmove(out->bytes + at + bytes, out->bytes + at + HEAD_USUAL, n);
        out->len = at + bytes + n;
    }
    memcpy(out->bytes + at, head + from, bytes);
}
