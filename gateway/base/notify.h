/* notify -- tells the service manager (systemd's Type=notify) the gateway's state.
 *
 * Shape:    one datagram to the socket that NOTIFY_SOCKET names; without it, nothing.  The gateway
 *           needs no more of sd_notify(3), so it needs no library.
 * Thread:   any.
 * Errors:   none: a manager that does not listen is no reason to stop.
 */
#ifndef GATEWAY_BASE_NOTIFY_H
#define GATEWAY_BASE_NOTIFY_H

/* Lines in the format of sd_notify, such as "READY=1\nSTATUS=…". */
void notify_manager(const char *state);

#endif
