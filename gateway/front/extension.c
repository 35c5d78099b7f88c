#include "gateway/front/extension.h"

#include "gateway/front/address.h"
#include "gateway/front/deflate.h"
#include "gateway/front/lws_quirks.h"

/* NOLINTNEXTLINE(readability-function-size): libwebsockets' type of callback */
static int on_extension(struct lws_context *context, const struct lws_extension *extension,
                        struct lws *wsi, enum lws_extension_callback_reasons why, void *user,
                        void *in, size_t len)
{
    static const struct lws_ext_options none[] = {{0}};
    (void)context;
    (void)extension;
    (void)wsi;
    (void)user;
    (void)len;
    if (why == LWS_EXT_CB_CONSTRUCT)
        *(const struct lws_ext_options **)in = none;
    return 0; /* as if there was no extension */
}

const struct lws_extension extension_list[] = {{.name = DEFLATE_NAME, .callback = on_extension},
                                               {0}};

int extension_confirm(struct lws *wsi)
{
    struct peer *peer = lws_get_opaque_user_data(wsi);
    char offers[EXTENSION_OFFERS_MOST + 1];
    int n = lws_hdr_copy(wsi, offers, sizeof offers, WSI_TOKEN_EXTENSIONS);
    struct deflate_terms terms;
    if (!peer || n <= 0 ||
        !deflate_offer((struct str){offers, (size_t)n}, peer->n_offers++, &terms))
        return 1;
    peer->deflate = terms;
    return 0;
}

int extension_answer(struct lws *wsi, struct lws_process_html_args *args)
{
    static const char written[] = "\r\nSec-WebSocket-Extensions: " DEFLATE_NAME "\r\n";
    struct deflate_terms terms = extension_terms(wsi);
    if (!terms.bits)
        return 0;
    char *end = args->p - strlen("\r\n");
    if (memcmp(args->p - strlen(written), written, strlen(written)) != 0)
        return 1; /* another libwebsockets: no connection, rather than a wrong one */
    int room = args->max_len + 2;
    int n = lws_snprintf(end, (size_t)room, "%s; client_no_context_takeover",
                         terms.takes_over ? "" : "; server_no_context_takeover");
    if (terms.bits < 15)
        n += lws_snprintf(end + n, (size_t)(room - n), "; server_max_window_bits=%u", terms.bits);
    n += lws_snprintf(end + n, (size_t)(room - n), "\r\n");
    args->p = end + n;
    return 0;
}

struct deflate_terms extension_terms(struct lws *wsi)
{
    const struct peer *peer = lws_get_opaque_user_data(wsi);
    return peer ? peer->deflate : (struct deflate_terms){0};
}

bool extension_marks(struct lws *wsi)
{
    return lws_get_reserved_bits(wsi) & 0x40;
}
