/* proxy_header -- the head of a connection in which a proxy names the client.
 *
 * Shape:    haproxy's PROXY protocol, version 1 (a line) and 2 (binary), from
 *           https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt.  Pure: bytes in, a verdict
 *           out.
 * Thread:   any.
 */
#ifndef GATEWAY_FRONT_PROXY_HEADER_H
#define GATEWAY_FRONT_PROXY_HEADER_H

#include "gateway/base/net.h"

#define PROXY_HEADER_MAX 2048 /* bytes of version 2, its TLVs included; of version 1: 107 */

enum proxy_verdict {
    PROXY_MORE, /* a header so far, and all of the bytes belong to it */
    PROXY_DONE, /* ret_bytes of them are the header */
    PROXY_BAD,
};

/* ret_says_who: it names a client (otherwise the proxy speaks for itself: LOCAL, UNKNOWN). */
enum proxy_verdict proxy_header_read(struct str bytes, size_t *ret_bytes, bool *ret_says_who,
                                     struct net_address *ret_client);

#endif
