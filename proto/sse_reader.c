#include "proto/sse_reader.h"

/* Design.  A line is taken as soon as its end is seen: a CR ends it at once, and an LF that comes
 * next, maybe in another piece, is skipped.  So no event waits for a byte that need not come.  A
 * line that lies whole in the input is not copied. */

/* memchr would search past the line's end: a stream of CRs alone would cost quadratic time. */
static size_t line_length(struct str text)
{
    size_t n = 0;
    while (n < text.n && text.p[n] != '\n' && text.p[n] != '\r')
        n++;
    return n;
}

static void skip(struct str *text, size_t n)
{
    text->p += n;
    text->n -= n;
}

static void take_retry(struct sse_reader *s, struct str value)
{
    int64_t ms = 0;
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9')
            return;
        if (ms < INT64_MAX / 100)
            ms = ms * 10 + (value.p[i] - '0');
    }
    if (value.n)
        s->retry_ms = ms;
}

static void set(struct buf *to, struct str value)
{
    buf_clear(to);
    buf_putstr(to, value);
}

static void take_field(struct sse_reader *s, struct str name, struct str value)
{
    if (str_eq(name, STR("data"))) {
        buf_putstr(&s->data, value);
        buf_putc(&s->data, '\n');
    } else if (str_eq(name, STR("event"))) {
        set(&s->event, value);
    } else if (str_eq(name, STR("error"))) {
        set(&s->event, name);
        buf_putstr(&s->data, value);
        buf_putc(&s->data, '\n');
    } else if (str_eq(name, STR("id"))) {
        if (value.n == 0 || !memchr(value.p, '\0', value.n))
            set(&s->id, value);
    } else if (str_eq(name, STR("retry"))) {
        take_retry(s, value);
    }
}

/* True when the line completed an event that has data. */
static bool sse_take_line(struct sse_reader *s, struct str line)
{
    if (!s->begun && line.n >= 3 && memcmp(line.p, "\xEF\xBB\xBF", 3) == 0)
        skip(&line, 3);
    s->begun = true;
    if (line.n == 0) {
        if (s->data.len == 0)
            buf_clear(&s->event);
        return s->data.len > 0;
    }
    const char *colon = memchr(line.p, ':', line.n);
    struct str name = {line.p, colon ? (size_t)(colon - line.p) : line.n};
    if (name.n == 0)
        return false; /* a comment */
    struct str value = line;
    skip(&value, name.n + (colon != NULL));
    if (value.n && value.p[0] == ' ')
        skip(&value, 1);
    take_field(s, name, value);
    return false;
}

/* Takes the n bytes before a line end, and that line end. */
static bool end_line(struct sse_reader *s, struct str *in, size_t n)
{
    struct str line = {in->p, n};
    s->after_cr = in->p[n] == '\r';
    skip(in, n + 1);
    if (s->line.len) {
        buf_putstr(&s->line, line);
        line = buf_str(&s->line);
    }
    bool is_event = sse_take_line(s, line);
    buf_clear(&s->line);
    return is_event;
}

static enum sse_result hand_out(struct sse_reader *s, struct sse_event *ret)
{
    s->is_out = true;
    *ret = (struct sse_event){.event = s->event.len ? buf_str(&s->event) : STR("message"),
                              .data = {s->data.bytes, s->data.len - 1},
                              .id = buf_str(&s->id)};
    return SSE_EVENT;
}

static void sse_begin(struct sse_reader *s)
{
    if (!s->is_out)
        return;
    s->is_out = false;
    buf_clear(&s->data);
    buf_clear(&s->event);
}

bool sse_id_can_be_sent(struct str id)
{
    bool good = id.n > 0 && id.n <= SSE_SENT_ID;
    for (size_t i = 0; good && i < id.n; i++)
        good = (unsigned char)id.p[i] > ' ' && (unsigned char)id.p[i] < 0x7f;
    return good;
}

enum sse_result sse_reader_next(struct sse_reader *s, struct str *in, struct sse_event *ret)
{
    sse_begin(s);
    while (in->n && !s->broken) {
        if (s->after_cr) {
            s->after_cr = false;
            if (in->p[0] == '\n') {
                skip(in, 1);
                continue;
            }
        }
        size_t n = line_length(*in);
        if (s->line.len + s->data.len + n >= (s->max ? s->max : SSE_MAX_EVENT)) {
            s->broken = true;
            break;
        }
        if (n == in->n) {
            buf_put(&s->line, in->p, n);
            skip(in, n);
            break;
        }
        if (end_line(s, in, n))
            return hand_out(s, ret);
    }
    return s->broken ? SSE_TOO_LONG : SSE_MORE;
}

enum sse_result sse_reader_last(struct sse_reader *s, struct sse_event *ret)
{
    sse_begin(s);
    if (s->broken)
        return SSE_TOO_LONG;
    if (s->line.len)
        (void)sse_take_line(s, buf_str(&s->line));
    buf_clear(&s->line);
    return s->data.len ? hand_out(s, ret) : SSE_MORE;
}

void sse_reader_done(struct sse_reader *s)
{
    buf_done(&s->line);
    buf_done(&s->data);
    buf_done(&s->event);
    buf_done(&s->id);
    *s = (struct sse_reader){.max = s->max};
}
