#include "gateway/front/lws_quirks.h"

#include <dlfcn.h>
#include <strings.h>

#include "gateway/front/address.h"
#include "gateway/front/http.h"

/* libwebsockets' function of a name that the program defines itself. */
static void *hidden(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    ASSERT(function);
    return function;
}

/* --- headers that it must not see (4.1.6) ----------------------------------------------------- */

static bool is_websocket_offer(struct lws *wsi)
{
    char first[sizeof "websocket"] = "";
    return lws_hdr_copy_fragment(wsi, first, sizeof first, WSI_TOKEN_UPGRADE, 0) >= 0 &&
           strcasecmp(first, "websocket") == 0;
}

/* It answers an Upgrade to anything but websocket with 403 and HTML, or by HTTP/2; a server may
 * ignore the offer (RFC 9110 7.8).  It drops the connection at byte 255 of the extensions. */
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

/* --- heads that it does not read (4.1.6) ------------------------------------------------------ */

/* It calls this for an unknown method, a broken escape, and a path without a slash; its own answer
 * is 403 with HTML. */
int lws_return_http_status(struct lws *wsi, unsigned int code, const char *html_body)
{
    (void)code;
    (void)html_body;
    http_refuse_head(wsi);
    return 0;
}

/* It calls this, which is exported but not public, to end a connection whose bytes it cannot take:
 * a NUL in the path, a head longer than its buffer, too many headers.  It says nothing to the
 * peer. */
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

/* It puts the NUL into the path without counting it.  A NUL at the end shows because the version
 * should follow there; before a query or a second part of the path it cannot be seen. */
bool lws_quirk_path_has_nul(struct lws *wsi, const char *path, size_t len)
{
    static const enum lws_token_indexes methods[] = {WSI_TOKEN_GET_URI, WSI_TOKEN_HEAD_URI};
    size_t first = 0;
    for (size_t i = 0; i < countof(methods); i++)
        first += (size_t)lws_hdr_fragment_length(wsi, methods[i], 0);
    bool is_all = first == len && lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_URI_ARGS) <= 0;
    return memchr(path, 0, first) || (is_all && path[len + 1] == 0);
}

/* --- what it sends by itself (4.1.6) ---------------------------------------------------------- */

/* It calls this on a ping, which it answers when the socket is next writable.  A message written at
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
