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
    unsigned bits;
    if (!peer || n <= 0 || !deflate_offer((struct str){offers, (size_t)n}, peer->n_offers++, &bits))
        return 1;
    peer->deflate_bits = (uint8_t)bits;
    return 0;
}

int extension_answer(struct lws *wsi, struct lws_process_html_args *args)
{
    static const char written[] = "\r\nSec-WebSocket-Extensions: " DEFLATE_NAME "\r\n";
    unsigned bits = extension_bits(wsi);
    if (!bits)
        return 0;
    char *end = args->p - strlen("\r\n");
    if (memcmp(args->p - strlen(written), written, strlen(written)) != 0)
        return 1; /* another libwebsockets: no connection, rather than a wrong one */
    int room = args->max_len + 2;
    int n =
        lws_snprintf(end, (size_t)room, "; server_no_context_takeover; client_no_context_takeover");
    if (bits < 15)
        n += lws_snprintf(end + n, (size_t)(room - n), "; server_max_window_bits=%u", bits);
    n += lws_snprintf(end + n, (size_t)(room - n), "\r\n");
    args->p = end + n;
    return 0;
}

unsigned extension_bits(struct lws *wsi)
{
    const struct peer *peer = lws_get_opaque_user_data(wsi);
    return peer ? peer->deflate_bits : 0;
}

bool extension_marks(struct lws *wsi)
{
    return lws_get_reserved_bits(wsi) & 0x40;
}
