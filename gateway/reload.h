/* reload -- what is read again while the gateway runs: keys and the certificate.
 *
 * Shape:    of the configuration's file the list auth.keys alone, then what is in the files that it
 *           names, and those of tls.  Open connections stay: a token is checked once.
 * Thread:   loop; the files are read at once.
 * Owns:     nothing: the server has the new keys.
 * Errors:   what cannot be read, or a configuration with any fault, changes nothing, and is one
 *           line in the log.
 */
#ifndef GATEWAY_RELOAD_H
#define GATEWAY_RELOAD_H

struct server;

void reload(struct server *s);

#endif
