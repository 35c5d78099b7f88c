/* http_export -- a conversation out and in as JSON lines over HTTP (PROTOCOL.md section 7).
 *
 * Shape:    an export asks for one page after another, as its reader takes them, and writes their
 *           lines in chunks.  An import reads its body line by line, keeps what it is made of, and
 *           hands that over in one request.
 * Thread:   loop.
 * Owns:     nothing: see struct exchange.
 */
#ifndef GATEWAY_FRONT_HTTP_EXPORT_H
#define GATEWAY_FRONT_HTTP_EXPORT_H

#include "gateway/front/front.h"

void http_export_init(struct front *f); /* adds the routes */

#endif
