/* face_kit -- a face under test: what its stream says of events, and what its exchange asks.
 *
 * Shape:    a file that includes it fills `stream` (by a face's `make`) or `x`, tells events, and
 *           reads `got`: a line for each message, after the name of its event where it has one.
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_FACE_KIT_H
#define TESTS_SUPPORT_FACE_KIT_H

#include "proto/faces/exchange.h"
#include "tests/support/t.h"

#define TID "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define TS 1795953600007 /* 2026-11-29T12:00:00.007Z */

static struct buf got;
static struct js_doc doc, reply_doc;
static struct face_stream *stream;
static struct face_exchange x;
static uint64_t told; /* seq of the last event */

static inline void collect(void *arg, const char *name, struct str message)
{
    (void)arg;
    if (name)
        buf_putf(&got, "%s ", name);
    buf_putstr(&got, message);
    buf_putc(&got, '\n');
}

static const struct face_sink sink = {.put = collect};

static inline int face_teardown(void **state)
{
    (void)state;
    face_stream_free(stream);
    stream = NULL;
    exchange_done(&x);
    x = (struct face_exchange){0};
    told = 0;
    buf_done(&got);
    js_done(&doc);
    js_done(&reply_doc);
    return 0;
}

/* A file with more to set up, or to free, defines these before. */
#ifndef FACE_SETUP
#define FACE_SETUP NULL
#endif
#ifndef FACE_TEARDOWN
#define FACE_TEARDOWN face_teardown
#endif
#define TEST(name) cmocka_unit_test_setup_teardown(name, FACE_SETUP, FACE_TEARDOWN)

/* The line of an event, as a session fills it. */
static inline void tell(uint64_t seq, enum event_type type, const char *data)
{
    struct buf line = {0};
    told = seq;
    event_line(&line, TID, seq, TS, type, str_of(data));
    face_stream_lines(stream, &doc, buf_str(&line), &sink);
    buf_done(&line);
}

/* The same for the event after the last one; task.created is the first. */
static inline void tell_next(enum event_type type, const char *data)
{
    tell(type == EVENT_TASK_CREATED ? 1 : told + 1, type, data);
}

/* Everything said since the last call. */
static inline struct str got_now(void)
{
    static struct buf now;
    buf_clear(&now);
    buf_putstr(&now, buf_str(&got));
    buf_clear(&got);
    return buf_str(&now);
}

#endif
