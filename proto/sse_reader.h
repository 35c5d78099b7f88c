/* sse_reader -- a reader of Server-Sent Events, by WHATWG's rules (HTML Standard, sections 9.2.5
 * "Parsing an event stream" and 9.2.6 "Interpreting an event stream").
 *
 * Shape:    bytes in, in pieces of any size, cut anywhere, also within a character or between CR
 *           and LF; events out, one a call.  A zeroed struct is a reader at the start of a stream.
 * Thread:   any; one at a time.
 * Owns:     its buffers; sse_reader_done frees them.  An event's spans are good until the next
 *           call, and as long as the bytes that were handed in.
 * Errors:   SSE_TOO_LONG, from then on always: one event has more than max bytes.
 * Differs:  bytes pass as they are, where the standard puts U+FFFD for what is not UTF-8: whoever
 *           reads the data repairs it (js.h does).  And the standard drops what the end of the
 *           stream cuts off; sse_reader_last hands it out, since there are servers that leave out
 *           the last empty line, and the data itself says whether it is whole.  And a field
 *           "error", of which the standard knows nothing, is the data of an event of that name:
 *           llama.cpp's server says so.
 */
#ifndef PROTO_SSE_READER_H
#define PROTO_SSE_READER_H

#include "proto/buf.h"

#define SSE_MAX_EVENT (4 * 1024 * 1024) /* when max is 0 */

struct sse_reader {
    size_t max;           /* bytes of one event, its line ends included; 0: SSE_MAX_EVENT */
    int64_t retry_ms;     /* what the stream last asked for; 0: nothing */
    struct buf line;      /* the beginning of a line whose end has not come */
    struct buf data;      /* of the event under way, each line with an LF */
    struct buf event, id; /* id stays from event to event */
    bool begun;           /* past the first line, which may have a byte order mark */
    bool after_cr;        /* an LF right now belongs to the line end before it */
    bool is_out;          /* the event was handed out: the next call begins a new one */
    bool broken;
};

struct sse_event {
    struct str event; /* "message" when the stream names none */
    struct str data;
    struct str id; /* the last that was said, "" for none */
};

enum sse_result { SSE_MORE, SSE_EVENT, SSE_TOO_LONG };

/* Takes bytes from the front of *in: up to the end of the next event, or all of them (SSE_MORE). */
enum sse_result sse_reader_next(struct sse_reader *s, struct str *in, struct sse_event *ret)
    MUST_USE;
/* The stream has ended: the event that had no empty line behind it, or SSE_MORE when there is
 * none. */
enum sse_result sse_reader_last(struct sse_reader *s, struct sse_event *ret) MUST_USE;
void sse_reader_done(
    struct sse_reader *s); /* frees; leaves a reader at the start of a stream, max as it was */

#endif
