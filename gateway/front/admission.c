#include "gateway/front/admission.h"

#include <strings.h>

#include "gateway/base/header_list.h"
#include "gateway/base/log.h"
#include "gateway/base/origin.h"
#include "gateway/front/address.h"
#include "gateway/front/admin.h"
#include "gateway/front/echo.h"
#include "gateway/front/http.h"
#include "gateway/front/lws_quirks.h"
#include "proto/str.h"

static bool is_version_13(struct lws *wsi)
{
    char version[8] = "";
    return lws_hdr_copy(wsi, version, sizeof version, WSI_TOKEN_VERSION) == 2 &&
           memcmp(version, "13", 2) == 0;
}

/* A proxy may drop the header; libwebsockets would hang up. */
static bool connection_names_upgrade(struct lws *wsi)
{
    char value[128] = ""; /* lws has no room for more */
    lws_hdr_copy(wsi, value, sizeof value, WSI_TOKEN_CONNECTION);
    for (struct str list = str_of(value); list.n > 0;) {
        struct str one = header_list_next(&list, ',');
        if (one.n == strlen("upgrade") && str_begins_nocase(one, STR("upgrade")))
            return true;
    }
    return false;
}

const struct ws_kind *admission_kind(const struct front *f, const char *path)
{
#ifdef HOLDFAST_ECHO
    if (strcmp(path, echo_kind.path) == 0)
        return &echo_kind;
#endif
    for (size_t i = 0; i < f->n_ws_kinds; i++)
        if (strcmp(path, f->ws_kinds[i].path) == 0)
            return &f->ws_kinds[i];
    return NULL;
}

/* NULL when the offer is good. */
static const char *refuse_subprotocol(struct lws *wsi, const struct ws_kind *kind)
{
    static const char *const served[][2] = {
        {WS_SUBPROTOCOL, "the subprotocol is " WS_SUBPROTOCOL ", in a list of less than 127 bytes"},
        {WS_WORKER_SUBPROTOCOL, "the subprotocol is " WS_WORKER_SUBPROTOCOL},
        {WS_NO_SUBPROTOCOL, "there is no subprotocol here"}};
    return lws_quirk_refuses(wsi, kind && kind->subprotocol ? kind->subprotocol : WS_SUBPROTOCOL,
                             served, countof(served));
}

int admission_decide(struct front *f, struct lws *wsi)
{
    char path[64] = "";
    if (admin_is(wsi))
        return http_refuse(wsi, 400, ERR_UNSUPPORTED, "the operator's socket has no WebSocket");
    if (!lws_quirk_line_is_whole(wsi))
        return http_refuse(wsi, 400, ERR_BAD_REQUEST, "the request line is incomplete");
    lws_hdr_copy(wsi, path, sizeof path, WSI_TOKEN_GET_URI);
    const struct ws_kind *kind = admission_kind(f, path);
    if (strcmp(path, "/v1/ws") != 0 && !kind)
        return http_refuse(wsi, 404, ERR_NOT_FOUND, "the WebSocket is at /v1/ws");
    if (lws_hdr_total_length(wsi, WSI_TOKEN_KEY) <= 0) /* lws would read it anyway */
        return http_refuse(wsi, 400, ERR_BAD_REQUEST, "Sec-WebSocket-Key is missing");
    if (!connection_names_upgrade(wsi))
        return http_refuse(wsi, 400, ERR_BAD_REQUEST, "Connection does not say upgrade");
    if (!is_version_13(wsi)) /* RFC 6455 section 4.4 */
        return http_refuse(wsi, 426, ERR_UNSUPPORTED, "Sec-WebSocket-Version must be 13");
    if (http_check_origin(f, wsi) != ORIGIN_OK)
        return http_refuse(wsi, 403, ERR_UNAUTHORIZED, "this origin or host is not allowed");
    const char *refusal = refuse_subprotocol(wsi, kind);
    if (refusal)
        return http_refuse(wsi, 400, ERR_UNSUPPORTED, refusal);
    struct address *a = address_get(f, wsi);
    bool full = address_is_full(f, a, true) || f->phase == FRONT_CLOSING;
    address_forget(f, a);
    if (full) {
        f->refusals[REFUSED_CONNECTIONS]++;
        log_event_limited(LEVEL_WARN, "ws", "refused", LOG_TEXT("why", "too many connections"));
        return http_refuse(wsi, 503, ERR_OVERLOADED, "too many connections");
    }
    return 0;
}
