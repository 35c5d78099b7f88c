/* stream_form -- tells an event stream from other replies by content, not by content type alone.
 *
 * Why:      servers send an event stream as application/json, as text/plain or without a type, and
 *           a JSON object (most often an error) as text/event-stream.
 * Thread:   any.
 */
#ifndef GATEWAY_FETCH_STREAM_FORM_H
#define GATEWAY_FETCH_STREAM_FORM_H

#include "proto/buf.h"

enum stream_form { FORM_UNKNOWN, FORM_EVENTS, FORM_TEXT };

/* For a Content-Type in any case and with any parameters. */
bool stream_form_says_events(struct str content_type);
/* Keeps the beginning of a reply, without a byte order mark and white space, until its form is
 * known.  FORM_UNKNOWN: more is needed; at the reply's end that means FORM_TEXT. */
enum stream_form stream_form_begin(bool says_events, struct buf *kept, struct str bytes);

#endif
