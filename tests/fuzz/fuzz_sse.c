/* Any bytes as an event stream, cut into pieces whose length the first byte gives: the same events
 * as whole, and as a reader that is written down from the standard, line after line. */
#include "proto/sse_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void note(struct buf *seen, struct str event, struct str text, struct str id)
{
    buf_putf(seen, "%zu %zu %zu ", event.n, text.n, id.n);
    buf_putstr(seen, event);
    buf_putstr(seen, text);
    buf_putstr(seen, id);
}

static void read_in_pieces(struct str text, size_t piece, struct buf *seen)
{
    struct sse_reader s = {0};
    struct sse_event e;
    while (text.n) {
        struct str in = {text.p, text.n < piece ? text.n : piece};
        text = (struct str){text.p + in.n, text.n - in.n};
        while (sse_reader_next(&s, &in, &e) == SSE_EVENT)
            note(seen, e.event, e.data, e.id);
        ASSERT(in.n == 0);
    }
    if (sse_reader_last(&s, &e) == SSE_EVENT)
        note(seen, e.event, e.data, e.id);
    sse_reader_done(&s);
}

struct naive {
    struct buf data, event, id;
    struct buf *seen;
};

static void naive_dispatch(struct naive *n)
{
    if (n->data.len)
        note(n->seen, n->event.len ? buf_str(&n->event) : STR("message"),
             (struct str){n->data.bytes, n->data.len - 1}, buf_str(&n->id));
    buf_clear(&n->data);
    buf_clear(&n->event);
}

static void naive_line(struct naive *n, struct str line)
{
    size_t colon = 0;
    while (colon < line.n && line.p[colon] != ':')
        colon++;
    struct str name = {line.p, colon};
    size_t from = colon < line.n ? colon + 1 : colon;
    from += from < line.n && line.p[from] == ' ';
    struct str value = {line.p + from, line.n - from};
    if (line.n == 0)
        naive_dispatch(n);
    else if (str_eq(name, STR("data"))) {
        buf_putstr(&n->data, value);
        buf_putc(&n->data, '\n');
    } else if (str_eq(name, STR("error"))) {
        buf_clear(&n->event);
        buf_puts(&n->event, "error");
        buf_putstr(&n->data, value);
        buf_putc(&n->data, '\n');
    } else if (str_eq(name, STR("event"))) {
        buf_clear(&n->event);
        buf_putstr(&n->event, value);
    } else if (str_eq(name, STR("id")) && !(value.n && memchr(value.p, 0, value.n))) {
        buf_clear(&n->id);
        buf_putstr(&n->id, value);
    }
}

static void read_naively(struct str text, struct buf *seen)
{
    struct naive n = {.seen = seen};
    size_t at = text.n >= 3 && memcmp(text.p, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (at < text.n) {
        size_t end = at;
        while (end < text.n && text.p[end] != '\n' && text.p[end] != '\r')
            end++;
        naive_line(&n, (struct str){text.p + at, end - at});
        at = end + 1 + (end + 1 < text.n && text.p[end] == '\r' && text.p[end + 1] == '\n');
    }
    naive_dispatch(&n);
    buf_done(&n.data);
    buf_done(&n.event);
    buf_done(&n.id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str text = {(const char *)data + 1, size - 1};
    struct buf whole = {0}, pieces = {0}, naive = {0};
    read_in_pieces(text, size, &whole);
    read_in_pieces(text, data[0] ? data[0] : 1, &pieces);
    read_naively(text, &naive);
    ASSERT(str_eq(buf_str(&whole), buf_str(&pieces)));
    ASSERT(str_eq(buf_str(&whole), buf_str(&naive)));
    buf_done(&whole);
    buf_done(&pieces);
    buf_done(&naive);
    return 0;
}
