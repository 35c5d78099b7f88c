/* tool_http_get -- the tool that reads a web page, for agents that may use it.
 *
 * Shape:    http_get_init makes a struct tool; struct http_get stays the caller's and must outlive
 *           it.
 * Safety:   a guarded fetch (fetch.h): only public addresses, checked after name resolution and on
 *           each redirect, and those in allow.
 * Limits:   HTTP_GET_BYTES of a reply, the rest is cut off; HTTP_GET_MS in all; five redirects;
 *           text only.
 * Thread:   loop.
 * Owns:     a job, until stop, which closes its connection.
 */
#ifndef GATEWAY_TOOLS_TOOL_HTTP_GET_H
#define GATEWAY_TOOLS_TOOL_HTTP_GET_H

#include "core/tool.h"
#include "gateway/fetch/fetch.h"

#define HTTP_GET_BYTES (128 * 1024)
#define HTTP_GET_MS 30000

struct http_get {
    struct fetcher *fetcher;
    struct fetch_options options;
    struct tool tool;
};

void http_get_init(struct http_get *h, struct fetcher *fetcher, const struct net *allow,
                   size_t n_allow);

#endif
