/* stream_form -- whether a reply is an event stream: by what it says, not by its content type
 * alone.
 *
 * Why:      servers send an event stream as application/json, as text/plain or as nothing at all,
 *           and a JSON object (most often an error) as text/event-stream.
 * Thread:   any.
 */
#ifndef GATEWAY_FETCH_STREAM_FORM_H
#define GATEWAY_FETCH_STREAM_FORM_H

#include "proto/buf.h"

enum stream_form { FORM_UNKNOWN, FORM_EVENTS, FORM_TEXT };

/* Of a Content-Type, whatever case and parameters it has. */
bool stream_form_says_events(struct str content_type);
/* Keeps what a reply begins with, but for a byte order mark and white space, until it is known what
 * it is.  FORM_UNKNOWN: more is needed; at the reply's end that is FORM_TEXT. */
enum stream_form stream_form_begin(bool says_events, struct buf *kept, struct str bytes);

#endif
