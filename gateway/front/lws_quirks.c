#include "gateway/front/lws_quirks.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <strings.h>

#include "gateway/front/address.h"
#include "gateway/front/http.h"
#include "gateway/front/ws.h"

/* libwebsockets' own function of a name that this program redefines. */
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

/* libwebsockets answers an Upgrade to anything but websocket with 403 and HTML, or with HTTP/2; a
 * server may ignore the offer (RFC 9110 section 7.8).  It drops the connection at byte 255 of the
 * extensions. */
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

/* libwebsockets calls this for an unknown method, a broken escape, and a path without a slash; its
 * own answer is 403 with HTML. */
int lws_return_http_status(struct lws *wsi, unsigned int code, const char *html_body)
{
    (void)code;
    (void)html_body;
    http_refuse_head(wsi);
    return 0;
}

/* libwebsockets calls this, which is exported but not public, to end a connection whose bytes it
 * cannot process: a NUL in the path, a head longer than its buffer, too many headers.  It sends the
 * peer nothing. */
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

/* libwebsockets puts the NUL into the path without counting it.  A NUL at the end shows because the
 * version should follow there; before a query or a second part of the path it cannot be seen. */
bool lws_quirk_path_has_nul(struct lws *wsi, const char *path, size_t len)
{
    static const enum lws_token_indexes methods[] = {WSI_TOKEN_GET_URI, WSI_TOKEN_HEAD_URI};
    size_t first = 0;
    for (size_t i = 0; i < countof(methods); i++)
        first += (size_t)lws_hdr_fragment_length(wsi, methods[i], 0);
    bool is_all = first == len && lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_URI_ARGS) <= 0;
    return memchr(path, 0, first) || (is_all && path[len + 1] == 0);
}

bool lws_quirk_line_is_whole(struct lws *wsi)
{
    char version[16] = "";
    return lws_hdr_copy(wsi, version, sizeof version, WSI_TOKEN_HTTP) > 0 &&
           strncmp(version, "HTTP/1.", 7) == 0;
}

bool lws_quirk_path_is_whole(struct lws *wsi, enum lws_token_indexes method, bool *names_task)
{
    int n = lws_hdr_total_length(wsi, method), i = 1;
    char *rest = xcalloc((size_t)(n > 0 ? n : 0) + 1);
    for (; lws_hdr_copy_fragment(wsi, rest, n + 1, method, i) >= 0; i++)
        *names_task = *names_task || strstr(rest, "/tasks/");
    free(rest);
    return i == 1;
}

#define PROTOCOL_LIST 127
#define PROTOCOL_NAME 63

static bool offers(struct lws *wsi, const char *protocol)
{
    char offered[PROTOCOL_LIST];
    int n = lws_hdr_total_length(wsi, WSI_TOKEN_PROTOCOL);
    if (n <= 0)
        return true;
    if (lws_hdr_copy(wsi, offered, sizeof offered, WSI_TOKEN_PROTOCOL) < 0)
        return false;
    for (char *at = offered; *at;) {
        at += strspn(at, " ,\t");
        size_t len = strcspn(at, " ,\t");
        if (len == strlen(protocol) && strncmp(at, protocol, len) == 0)
            return true;
        if (len >= PROTOCOL_NAME)
            return false;
        at += len;
    }
    return false;
}

const char *lws_quirk_refuses(struct lws *wsi, const char *wanted, const char *const served[][2],
                              size_t n)
{
    bool some = lws_hdr_total_length(wsi, WSI_TOKEN_PROTOCOL) > 0, good = true;
    const char *refusal = NULL;
    for (size_t i = 0; i < n; i++) {
        bool is_wanted = strcmp(served[i][0], wanted) == 0;
        good = good && (is_wanted ? offers(wsi, wanted) : !(some && offers(wsi, served[i][0])));
        refusal = is_wanted ? served[i][1] : refusal;
    }
    return good ? NULL : refusal;
}

/* --- what it sends unasked (4.1.6) ------------------------------------------------------------ */

/* libwebsockets calls this on a ping, which it answers when the socket is next writable.  A message
 * written at once would overtake the pong. */
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

void lws_quirk_set_version(unsigned char *head)
{
    memcpy(head, "HTTP/1.1", 8);
}

void lws_quirk_write_close(struct lws *wsi, enum close_code code, const char *why)
{
    unsigned char frame[LWS_PRE + 128];
    unsigned char *p = frame + LWS_PRE;
    size_t n = strlen(why);
    p[0] = 0x88;
    p[1] = (unsigned char)(2 + n);
    p[2] = (unsigned char)(code >> 8);
    p[3] = (unsigned char)(code & 255);
    memcpy(p + 4, why, n);
    lws_write(wsi, p, 4 + n, LWS_WRITE_RAW);
}

/* --- how it lives and ends (4.1.6) ------------------------------------------------------------ */

const lws_retry_bo_t lws_quirk_no_timers = {0};

void lws_quirk_destroy(struct front *f)
{
    if (!f->lws)
        return;
    lws_context_destroy(f->lws);
    for (int extra = 0; f->n_wsi > 0 || extra < 3; extra++) {
        uv_run(f->loop, UV_RUN_NOWAIT);
        if (extra > 100000)
            break;
    }
    if (f->lws)
        lws_context_destroy(f->lws);
}
