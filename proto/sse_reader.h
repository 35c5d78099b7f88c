/* sse_reader -- a reader of Server-Sent Events, by WHATWG's rules (HTML Standard, sections 9.2.5
 * "Parsing an event stream" and 9.2.6 "Interpreting an event stream").
 *
 * Shape:    takes bytes in pieces of any size, cut anywhere, even within a character or between CR
 *           and LF; gives one event a call.  A zeroed struct is a reader at the start of a stream.
 * Thread:   any; one at a time.
 * Owns:     its buffers; sse_reader_done frees them.  An event's spans are valid until the next
 *           call, and as long as the bytes that were handed in.
 * Errors:   SSE_TOO_LONG, from then on always: one event has more than max bytes.
 * Differs:  bytes pass unchanged, where the standard replaces broken UTF-8 with U+FFFD: the reader
 *           of the data repairs it (js.h does).  The standard drops an event that the end of the
 *           stream cuts off; sse_reader_last returns it, because some servers omit the last empty
 *           line, and the data itself shows whether it is whole.  A field "error", which the
 *           standard does not know, is the data of an event of that name, because llama.cpp's
 *           server sends it.
 */
#ifndef PROTO_SSE_READER_H
#define PROTO_SSE_READER_H

#include "proto/buf.h"

#define SSE_MAX_EVENT (4 * 1024 * 1024) /* when max is 0 */
#define SSE_SENT_ID 256                 /* bytes of an id that is sent back */

struct sse_reader {
    size_t max;           /* bytes of one event, its line ends included; 0: SSE_MAX_EVENT */
    int64_t retry_ms;     /* what the stream last requested; 0: nothing */
    struct buf line;      /* the beginning of a line whose end has not come */
    struct buf data;      /* of the event under way, each line with an LF */
    struct buf event, id; /* id stays from event to event */
    bool begun;           /* past the first line, which may have a byte order mark */
    bool after_cr;        /* an LF directly after belongs to the previous line end */
    bool is_out;          /* the event was returned: the next call begins a new one */
    bool broken;
};

struct sse_event {
    struct str event; /* "message" when the stream gives none */
    struct str data;
    struct str id; /* the last one received, "" for none */
};

/* Whether an id can be the value of a header Last-Event-ID. */
bool sse_id_can_be_sent(struct str id);

enum sse_result { SSE_MORE, SSE_EVENT, SSE_TOO_LONG };

/* Takes bytes from the front of *in: up to the end of the next event, or all of them (SSE_MORE). */
enum sse_result sse_reader_next(struct sse_reader *s, struct str *in, struct sse_event *ret)
    MUST_USE;
/* After the end of the stream: the event that lacks its empty line, or SSE_MORE when there is
 * none. */
enum sse_result sse_reader_last(struct sse_reader *s, struct sse_event *ret) MUST_USE;
void sse_reader_done(
    struct sse_reader *s); /* frees; leaves a reader at the start of a stream, max as it was */

#endif
