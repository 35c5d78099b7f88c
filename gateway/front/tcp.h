/* tcp -- the kernel's knowledge about a connection.
 *
 * Thread:   any.
 */
#ifndef GATEWAY_FRONT_TCP_H
#define GATEWAY_FRONT_TCP_H

#include "proto/base.h"

/* A reader that takes nothing for this long is cut off: first a session, which collects pushes,
 * then an event stream, which is only a cursor.  The progress of a reader of 1 KiB/s shows every 25
 * s (listener.c). */
#define SLOW_AFTER_MS 30000
#define SLOW_EVENTS_AFTER_MS 40000

/* Bytes that the peer's kernel has acknowledged so far; 0 when unknown. */
uint64_t tcp_bytes_acked(int fd);

/* The kernel takes so many bytes that it cannot send yet, and then up to a segment of its own (64
 * KiB).  What is on its way does not count. */
#define TCP_UNSENT_BYTES 65536
void tcp_bound_unsent(int fd);
/* Whether all that the kernel has taken is on its way; false when unknown. */
bool tcp_has_sent(int fd);

/* How long ago the last byte arrived, in ms; -1 when unknown. */
msec_t tcp_silent_ms(int fd);

/* Whether there is something to read, including that the peer has closed its side. */
bool tcp_has_input(int fd);

#endif
