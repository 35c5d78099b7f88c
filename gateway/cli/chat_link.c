#include "gateway/cli/chat_link.h"

#include <libwebsockets.h>
#include <stdlib.h>

#include "gateway/base/deadline.h"
#include "proto/limits.h"

#define DEFAULT_PATH "/v1/ws"
#define MAX_LINE (2u * MAX_EVENT_LINE) /* no gateway sends a longer message */
#define CERTIFICATES "/etc/ssl/certs/ca-certificates.crt"

/* --- the address ------------------------------------------------------------------------------ */

static bool read_port(const char *text, uint16_t *ret)
{
    char *end;
    long port = strtol(text, &end, 10);
    if (end == text || *end || port < 1 || port > 65535)
        return false;
    *ret = (uint16_t)port;
    return true;
}

/* host, host:port, [v6] or [v6]:port */
static bool read_authority(char *text, struct chat_url *ret)
{
    char *port = strrchr(text, ':'), *host = text, *bracket = NULL;
    if (*text == '[') {
        bracket = strchr(text, ']');
        if (!bracket)
            return false;
        port = bracket[1] == ':' ? bracket + 1 : NULL;
        if (bracket[1] && !port)
            return false;
        *bracket = 0;
        host++;
    }
    if (port && !read_port(port + 1, &ret->port))
        return false;
    if (port)
        *port = 0;
    ret->host = xstrdup(str_of(host));
    return *host != 0;
}

bool chat_url_read(const char *text, struct chat_url *ret)
{
    static const struct {
        const char *scheme;
        bool is_tls;
    } schemes[] = {{"ws://", false}, {"wss://", true}, {"http://", false}, {"https://", true}};
    for (size_t i = 0; i < countof(schemes); i++) {
        size_t n = strlen(schemes[i].scheme);
        if (strncmp(text, schemes[i].scheme, n) != 0)
            continue;
        *ret = (struct chat_url){.is_tls = schemes[i].is_tls, .port = schemes[i].is_tls ? 443 : 80};
        const char *path = text + n + strcspn(text + n, "/");
        char *authority = xstrdup((struct str){text + n, (size_t)(path - text) - n});
        bool good = read_authority(authority, ret);
        ret->path = xstrdup(str_of(path[0] && path[1] ? path : DEFAULT_PATH));
        free(authority);
        if (!good)
            chat_url_done(ret);
        return good;
    }
    return false;
}

void chat_url_done(struct chat_url *url)
{
    free(url->host);
    free(url->path);
    *url = (struct chat_url){0};
}

/* --- input ------------------------------------------------------------------------------------ */

static void tell_lines(struct chat_link *link)
{
    struct str rest = buf_str(&link->in);
    while (rest.n > 0 && !link->is_over) {
        const char *newline = memchr(rest.p, '\n', rest.n);
        size_t n = newline ? (size_t)(newline - rest.p) : rest.n;
        if (n > 0)
            link->ops->on_line(link->arg, (struct str){rest.p, n});
        rest.p += n + (newline != NULL);
        rest.n -= n + (newline != NULL);
    }
    buf_clear(&link->in);
}

static int on_receive(struct chat_link *link, struct lws *wsi, const void *bytes, size_t n)
{
    if (link->in.len + n > MAX_LINE)
        return -1;
    buf_put(&link->in, bytes, n);
    if (lws_is_final_fragment(wsi) && lws_remaining_packet_payload(wsi) == 0)
        tell_lines(link);
    return link->is_over ? -1 : 0;
}

static void on_end(struct chat_link *link, const char *why)
{
    int code = link->close_code;
    if (!link->is_trying)
        return;
    link->is_trying = false;
    link->wsi = NULL;
    link->is_open = false;
    link->close_code = 0;
    buf_clear(&link->in);
    buf_clear(&link->out);
    if (!link->is_over)
        link->ops->on_closed(link->arg, code, why);
}

/* One line is one message. */
static int on_writable(struct chat_link *link, struct lws *wsi)
{
    const char *newline = link->out.len ? memchr(link->out.bytes, '\n', link->out.len) : NULL;
    if (!newline)
        return 0;
    size_t n = (size_t)(newline - link->out.bytes);
    struct buf message = {0};
    buf_reserve(&message, LWS_PRE + n);
    memcpy(message.bytes + LWS_PRE, link->out.bytes, n);
    int sent = lws_write(wsi, (unsigned char *)message.bytes + LWS_PRE, n, LWS_WRITE_TEXT);
    buf_done(&message);
    buf_consume(&link->out, n + 1);
    if (sent < 0)
        return -1;
    if (link->out.len)
        lws_callback_on_writable(wsi);
    return 0;
}

static int on_open(struct chat_link *link)
{
    link->is_open = true;
    if (!link->is_over)
        link->ops->on_open(link->arg);
    return link->is_over ? -1 : 0;
}

static int on_peer_close(struct chat_link *link, const unsigned char *body, size_t n)
{
    if (n >= 2)
        link->close_code = body[0] << 8 | body[1];
    return 0;
}

/* The library names the step that failed; a person wants to know what is missing. */
static const char *plain_words(const char *why)
{
    static const struct {
        const char *said, *means;
    } words[] = {
        {"closed before established", "nothing listens there; is \"holdfast serve\" running?"},
        {"connect failed", "nothing listens there; is \"holdfast serve\" running?"},
        {"cannot connect", "there is no such host"},
        {"upgrade response", "it answers, but not as a gateway: is the path /v1/ws, or none?"},
        {"connect SSL err", "TLS failed: its certificate is not trusted (SSL_CERT_FILE names your "
                            "own), or it does not speak TLS (then ws://)"},
    };
    if (!why)
        return "no answer";
    for (size_t i = 0; i < countof(words); i++)
        if (strstr(why, words[i].said))
            return words[i].means;
    return why;
}

static int on_lws(struct lws *wsi, enum lws_callback_reasons why, void *user, void *in, size_t len)
{
    struct chat_link *link = lws_context_user(lws_get_context(wsi));
    (void)user;
    switch (why) {
    case LWS_CALLBACK_WSI_CREATE: link->n_wsi++; return 0;
    case LWS_CALLBACK_WSI_DESTROY: link->n_wsi--; return 0;
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR: on_end(link, plain_words(in)); return 0;
    case LWS_CALLBACK_CLIENT_ESTABLISHED: return on_open(link);
    case LWS_CALLBACK_CLIENT_RECEIVE: return on_receive(link, wsi, in, len);
    case LWS_CALLBACK_CLIENT_WRITEABLE: return on_writable(link, wsi);
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE: return on_peer_close(link, in, len);
    case LWS_CALLBACK_CLIENT_CLOSED: on_end(link, "the connection broke"); return 0;
    default: return 0;
    }
}

/* --- its life --------------------------------------------------------------------------------- */

const char *chat_link_certificates(void)
{
    const char *named = getenv("SSL_CERT_FILE");
    return named && *named ? named : CERTIFICATES;
}

static const struct lws_protocols protocols[] = {
    {.name = "holdfast.v1", .callback = on_lws, .rx_buffer_size = 65536},
    {0},
};

/* A gateway that is silent this long is gone; it pings every 20 s by itself. */
static const lws_retry_bo_t validity = {.secs_since_valid_ping = 25, .secs_since_valid_hangup = 40};

bool chat_link_init(struct chat_link *link, uv_loop_t *loop, const struct chat_url *url,
                    const struct chat_link_ops *ops, void *arg)
{
    void *loops[] = {loop};
    *link = (struct chat_link){.loop = loop, .url = url, .ops = ops, .arg = arg};
    lws_set_log_level(0, NULL);
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN,
        .foreign_loops = loops,
        .pcontext = &link->context,
        .protocols = protocols,
        .options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_VALIDATE_UTF8 |
                   (url->is_tls ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT : 0),
        .retry_and_idle_policy = &validity,
        .client_ssl_ca_filepath = url->is_tls ? chat_link_certificates() : NULL,
        .user = link,
    };
    link->context = lws_create_context(&info);
    return link->context != NULL;
}

void chat_link_connect(struct chat_link *link)
{
    const struct chat_url *url = link->url;
    struct buf host = {0};
    buf_putf(&host, strchr(url->host, ':') ? "[%s]:%d" : "%s:%d", url->host, url->port);
    struct lws_client_connect_info info = {
        .context = link->context,
        .address = url->host,
        .port = url->port,
        .ssl_connection = url->is_tls ? LCCSCF_USE_SSL : 0,
        .path = url->path,
        .host =
            url->is_tls ? url->host : host.bytes, /* over TLS it is the certificate's name too */
        .protocol = protocols[0].name,
        .alpn = "http/1.1",
        .pwsi = &link->wsi,
        .retry_and_idle_policy = &validity,
    };
    link->is_trying = true;
    if (!lws_client_connect_via_info(&info))
        on_end(link,
               plain_words("cannot connect")); /* unless the callback has reported it already */
    buf_done(&host);
}

void chat_link_send(struct chat_link *link, struct str line)
{
    if (!link->is_open)
        return;
    buf_putstr(&link->out, line);
    buf_putc(&link->out, '\n');
    lws_callback_on_writable(link->wsi);
}

void chat_link_drop(struct chat_link *link)
{
    if (link->is_trying && link->wsi)
        deadline_now(link->wsi);
}

/* Destroy, run the loop until every wsi is gone, destroy again: as the server does. */
void chat_link_done(struct chat_link *link)
{
    link->is_over = true;
    if (link->context)
        lws_context_destroy(link->context);
    for (int extra = 0; link->n_wsi > 0 || extra < 3; extra++) {
        uv_run(link->loop, UV_RUN_NOWAIT);
        if (extra > 100000)
            break;
    }
    if (link->context)
        lws_context_destroy(link->context);
    buf_done(&link->in);
    buf_done(&link->out);
}
