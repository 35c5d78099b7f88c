/* notify -- tells the service manager (systemd's Type=notify) how far the gateway is.
 *
 * Shape:    one datagram to the socket that NOTIFY_SOCKET names; without it, nothing.  This is all
 *           of sd_notify(3) that is needed, so no library is.
 * Thread:   any.
 * Errors:   none: a manager that does not listen is no reason to stop.
 */
#ifndef GATEWAY_NOTIFY_H
#define GATEWAY_NOTIFY_H

/* Lines as sd_notify takes them, such as "READY=1\nSTATUS=…". */
void notify_manager(const char *state);

#endif
