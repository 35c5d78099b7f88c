/* reload -- reads keys and the certificate again while the gateway runs.
 *
 * Shape:    from the configuration's file only the list auth.keys, then the files that it names,
 *           and those of tls.  Open connections stay: a token is checked once.
 * Thread:   loop; the files are read at once.
 * Owns:     nothing: the server has the new keys.
 * Errors:   when a file cannot be read, or the configuration has any fault, nothing changes, and
 *           the log gets one line.
 */
#ifndef GATEWAY_RELOAD_H
#define GATEWAY_RELOAD_H

struct server;

void reload(struct server *s);

#endif
