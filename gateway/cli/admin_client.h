/* admin_client -- `holdfast admin`: one request to the socket of a gateway on this machine.
 *
 * Thread:   main; the program does nothing else.
 * Errors:   the exit code: 0 for success, 1 for a refusal or without a gateway, 2 for usage.
 */
#ifndef GATEWAY_CLI_ADMIN_CLIENT_H
#define GATEWAY_CLI_ADMIN_CLIENT_H

/* arguments: those after "admin" and the options; for_s 0: until it is lifted. */
int admin_run(const char *socket_path, int argc, char **arguments, long long for_s);

#endif
