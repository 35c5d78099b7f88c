/* tcp -- what the kernel knows of a connection.
 *
 * Thread:   any.
 */
#ifndef GATEWAY_FRONT_TCP_H
#define GATEWAY_FRONT_TCP_H

#include "proto/base.h"

/* A reader that takes nothing for so long is cut off: one that pushes are kept for, and one that
 * is a cursor alone.  What one of 1 KiB/s takes is seen every 25 s (listener.c). */
#define SLOW_AFTER_MS 30000
#define SLOW_EVENTS_AFTER_MS 40000

/* Bytes that the peer's kernel has acknowledged so far; 0 when that cannot be told. */
uint64_t tcp_bytes_acked(int fd);

/* How long ago the last byte came, in ms; -1 when that cannot be told. */
msec_t tcp_silent_ms(int fd);

/* Whether something lies there to be read, be it that the peer has closed its side. */
bool tcp_has_input(int fd);

#endif
