/* http_files -- files over HTTP (PROTOCOL.md section 7): uploads that go on, and downloads.
 *
 * Shape:    routes with a kind of their own (http_api.h).  A download is a piece that is read, then
 *           written, then the next.
 * Thread:   loop.
 * Owns:     x->own of its exchanges; it lives on until a question or a read that is under way ends.
 */
#ifndef GATEWAY_FRONT_HTTP_FILES_H
#define GATEWAY_FRONT_HTTP_FILES_H

#include "gateway/front/http_api.h"

/* A route with a conversation and, as its task, the id of a file. */
extern const struct exchange_kind download_kind;

void http_files_init(struct front *f); /* adds the routes */
void http_files_tick(struct front *f); /* once a second: readers that take nothing */

#endif
