#include "gateway/agents/exec_input.h"

#include <errno.h>
#include <unistd.h>

static void drop_queue(struct exec_input *i)
{
    buf_done(&i->queue);
    i->queue_at = 0;
}

/* False when nobody will read it. */
static bool queue_write(struct exec_input *i)
{
    while (i->queue_at < i->queue.len) {
        ssize_t n = write(i->in.fd, i->queue.bytes + i->queue_at, i->queue.len - i->queue_at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        i->queue_at += (size_t)n;
        i->message_after -= (size_t)n < i->message_after ? (size_t)n : i->message_after;
    }
    return true;
}

static size_t waiting(const struct exec_input *i)
{
    return i->is_kept ? (size_t)spool_in_waiting(&i->spool) : i->queue.len - i->queue_at;
}

/* Not at each write: the rest may be large. */
static void queue_trim(struct exec_input *i)
{
    if (i->queue_at < i->queue.len / 2)
        return;
    buf_consume(&i->queue, i->queue_at);
    i->queue_at = 0;
}

bool input_flush(struct exec_input *i)
{
    if (i->in.fd < 0)
        return false;
    bool good = i->is_kept ? spool_in_flush(&i->spool) != SPOOL_DEAF : queue_write(i);
    if (!good) {
        watched_close(&i->in);
        i->spool.pipe = -1;
        drop_queue(i);
        return false;
    }
    if (waiting(i) > 0) {
        queue_trim(i);
        watched_start(&i->in, UV_WRITABLE, i->on_ready);
        return true;
    }
    drop_queue(i);
    watched_stop(&i->in);
    if (i->ends && i->has_begun) { /* that was all */
        watched_close(&i->in);
        i->spool.pipe = -1;
    }
    return true;
}

bool input_begin(struct exec_input *i, struct str bytes)
{
    if (i->is_kept && !spool_in_put(&i->spool, 0, HOLD_SAID_RUN, bytes))
        return false;
    if (!i->is_kept)
        buf_putstr(&i->queue, bytes);
    i->has_begun = true;
    input_flush(i);
    return true;
}

static bool put_kept(struct exec_input *i, uint64_t number, uint64_t said, struct str line)
{
    struct buf whole = {0};
    buf_putstr(&whole, line);
    buf_putc(&whole, '\n');
    bool put = spool_in_put(&i->spool, number, said, buf_str(&whole));
    buf_done(&whole);
    return put && input_flush(i);
}

bool input_put(struct exec_input *i, struct str line, size_t max, uint64_t said)
{
    if (i->in.fd < 0 || waiting(i) + line.n + 1 > max)
        return false;
    if (i->is_kept)
        return put_kept(i, 0, said, line);
    buf_putstr(&i->queue, line);
    buf_putc(&i->queue, '\n');
    return input_flush(i);
}

bool input_message(struct exec_input *i, struct str line)
{
    if (i->message.len == 0) {
        if (waiting(i) > 0 || !input_put(i, line, SIZE_MAX, 0))
            return false;
        i->message_after = waiting(i);
        if (i->message_after > 0)
            buf_putstr(&i->message, line);
        return i->message_after == 0;
    }
    ASSERT(str_eq(line, buf_str(&i->message))); /* none overtakes another */
    if (i->in.fd < 0 || i->message_after > 0)
        return false;
    buf_done(&i->message);
    return true;
}

bool input_has_message(const struct exec_input *i)
{
    return i->message.len && i->message_after == 0;
}

bool input_put_at(struct exec_input *i, uint64_t number, struct str line)
{
    if (number <= hold_page_newest(i->spool.page).number)
        return true;
    if (i->in.fd < 0 || waiting(i) + line.n + 1 > i->max)
        return false;
    return put_kept(i, number, 0, line);
}

uint64_t input_told(const struct exec_input *i)
{
    return hold_page_told(i->spool.page, i->spool.position);
}

void input_done(struct exec_input *i)
{
    buf_done(&i->queue);
    buf_done(&i->message);
}
