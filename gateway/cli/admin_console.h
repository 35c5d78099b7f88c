/* admin_console -- `holdfast admin console`: a page for the operator, on a port of this machine.
 *
 * Shape:    listens on 127.0.0.1 until it is stopped, and hands requests on to the gateway's
 *           operator's socket, one on a connection.  The printed address has a token in its
 *           fragment, which no server and no log gets to see.  It counts once: the page changes it
 *           for a secret that it keeps in the memory of its tab, and that each request carries.
 *           There are no cookies, so no other page can make a browser send what counts; a name that
 *           is rebound to this address is refused by its Host.
 * Thread:   main; the program does nothing else.
 * Errors:   the exit code: 0 when it was stopped, 1 without a port or a gateway.
 */
#ifndef GATEWAY_CLI_ADMIN_CONSOLE_H
#define GATEWAY_CLI_ADMIN_CONSOLE_H

int admin_console_run(const char *socket_path);

#endif
