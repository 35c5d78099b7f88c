#include "gateway/front/lws_quirks.h"

#include <dlfcn.h>
#include <strings.h>

#include "gateway/front/address.h"
#include "gateway/front/http.h"

/* The one that the program's own definition hides. */
static void *hidden(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    ASSERT(function);
    return function;
}

/* --- headers that it must not see (4.1.6) ------------------------------------------------------- */

static bool is_websocket_offer(struct lws *wsi)
{
    char first[sizeof "websocket"] = "";
    return lws_hdr_copy_fragment(wsi, first, sizeof first, WSI_TOKEN_UPGRADE, 0) >= 0 &&
           strcasecmp(first, "websocket") == 0;
}

/* An Upgrade to anything but websocket gets a page of HTML and 403, or makes HTTP/2 of the connection; RFC 9110
 * 7.8 lets a server pass over it.  Behind byte 255 of Sec-WebSocket-Extensions the connection ends. */
int lws_hdr_total_length(struct lws *wsi, enum lws_token_indexes h)
{
    static int (*next)(struct lws *, enum lws_token_indexes);
    if (!next)
        next = (int (*)(struct lws *, enum lws_token_indexes))hidden(__func__);
    int n = next(wsi, h);
    if (h == WSI_TOKEN_UPGRADE && n > 0 && !is_websocket_offer(wsi))
        return 0;
    return h == WSI_TOKEN_EXTENSIONS && n > EXTENSION_OFFERS_MOST ? 0 : n;
}

/* --- heads that it does not read (4.1.6) -------------------------------------------------------- */

/* A method or an escape that it does not know, a path without a slash: a page of HTML and 403. */
int lws_return_http_status(struct lws *wsi, unsigned int code, const char *html_body)
{
    (void)code;
    (void)html_body;
    http_refuse_head(wsi);
    return 0;
}

/* It is no public function, but an exported one.  In 4.1.6 this is the end of a connection whose bytes could not
 * be taken: a NUL in the path, a head longer than its buffer, too many headers; without a word. */
void lws_close_free_wsi(struct lws *wsi, enum lws_close_status reason, const char *caller);
void lws_close_free_wsi(struct lws *wsi, enum lws_close_status reason, const char *caller)
{
    static void (*next)(struct lws *, enum lws_close_status, const char *);
    if (!next)
        next = (void (*)(struct lws *, enum lws_close_status, const char *))hidden(__func__);
    const struct peer *p = wsi ? lws_get_opaque_user_data(wsi) : NULL;
    if (p && !p->is_asking && caller && strcmp(caller, "lws_read_h1 bail") == 0)
        http_refuse_head(wsi);
    next(wsi, reason, caller);
}

void lws_quirk_head_is_read(struct lws *wsi)
{
    struct peer *p = lws_get_opaque_user_data(wsi);
    if (p)
        p->is_asking = true;
}

void lws_quirk_awaits_a_head(struct lws *wsi)
{
    struct peer *p = lws_get_opaque_user_data(wsi);
    if (p)
        p->is_asking = false;
}

/* It stands in the path then, but does not count.  Behind the path and its own NUL comes the version; where a
 * second part of the path, or a query, comes between, nothing can be told of its last byte. */
bool lws_quirk_path_has_nul(struct lws *wsi, const char *path, size_t len)
{
    static const enum lws_token_indexes methods[] = {WSI_TOKEN_GET_URI, WSI_TOKEN_HEAD_URI};
    size_t first = 0;
    for (size_t i = 0; i < countof(methods); i++)
        first += (size_t)lws_hdr_fragment_length(wsi, methods[i], 0);
    bool is_all = first == len && lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_URI_ARGS) <= 0;
    return memchr(path, 0, first) || (is_all && path[len + 1] == 0);
}

/* --- what it sends by itself (4.1.6) ------------------------------------------------------------ */

/* It answers a ping when the socket is next writable, and does not tell of it; a message that is written at
 * once would overtake the pong. */
int lws_callback_on_writable(struct lws *wsi)
{
    static int (*next)(struct lws *);
    if (!next)
        next = (int (*)(struct lws *))hidden(__func__);
    struct peer *p = lws_get_opaque_user_data(wsi);
    if (p)
        p->goes_first = true;
    return next(wsi);
}

bool lws_quirk_goes_first(struct lws *wsi)
{
    const struct peer *p = lws_get_opaque_user_data(wsi);
    return p && p->goes_first;
}

void lws_quirk_has_gone(struct lws *wsi)
{
    struct peer *p = lws_get_opaque_user_data(wsi);
    if (p)
        p->goes_first = false;
}
