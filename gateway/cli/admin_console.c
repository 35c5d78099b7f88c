#include "gateway/cli/admin_console.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "gateway/cli/console_head.h"
#include "gateway/front/admin.h"
#include "proto/str.h"

#define SECRET_BYTES 32
#define SECRET_TEXT (2 * SECRET_BYTES + 1)
#define MOST_CLIENTS 64
#define HEAD_MS 30000         /* for a whole request */
#define PILE_BYTES (1u << 20) /* for a reader who is slower than the gateway */
#define BACKLOG 16

struct console {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_signal_t sigint, sigterm;
    const char *socket_path;
    int port;
    unsigned n_clients;
    bool token_was_used;
    char token[SECRET_TEXT], secret[SECRET_TEXT];
};

/* A browser's connection, and the one to the gateway that answers it. */
struct client {
    struct console *console;
    uv_tcp_t down;
    uv_pipe_t up;
    uv_timer_t late;
    struct buf in; /* the request */
    unsigned n_handles;
    bool has_up, is_asked, is_closing, is_held;
};

struct sending {
    uv_write_t request;
    struct client *client;
    bool is_last;
    struct buf bytes;
};

/* --- secrets ---------------------------------------------------------------------------------- */

static bool make_secret(char ret[SECRET_TEXT])
{
    unsigned char bytes[SECRET_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* Takes the same time wherever they differ. */
static bool is_secret(struct str text, const char secret[SECRET_TEXT])
{
    unsigned char differ = 0;
    if (text.n != SECRET_TEXT - 1)
        return false;
    for (size_t i = 0; i < text.n; i++)
        differ |= (unsigned char)(text.p[i] ^ secret[i]);
    return differ == 0;
}

static bool is_bearer(const struct client *c, struct str authorization)
{
    static const char scheme[] = "Bearer ";
    return c->console->token_was_used && str_begins_nocase(authorization, str_of(scheme)) &&
           is_secret(str_from(authorization, sizeof scheme - 1), c->console->secret);
}

/* --- closing ---------------------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct client *c = handle->data;
    if (--c->n_handles > 0)
        return;
    c->console->n_clients--;
    buf_done(&c->in);
    free(c);
}

static void client_close(struct client *c)
{
    if (c->is_closing)
        return;
    c->is_closing = true;
    uv_close((uv_handle_t *)&c->down, on_handle_closed);
    uv_close((uv_handle_t *)&c->late, on_handle_closed);
    if (c->has_up)
        uv_close((uv_handle_t *)&c->up, on_handle_closed);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void on_from_gateway(uv_stream_t *up, ssize_t n, const uv_buf_t *bytes);
static void give_room(uv_handle_t *handle, size_t want, uv_buf_t *ret);

static void on_sent(uv_write_t *request, int status)
{
    struct sending *s = container_of(request, struct sending, request);
    struct client *c = s->client;
    bool is_over = status < 0 || s->is_last;
    buf_done(&s->bytes);
    free(s);
    if (is_over) {
        client_close(c);
    } else if (c->is_held && !c->is_closing &&
               uv_stream_get_write_queue_size((uv_stream_t *)&c->down) < PILE_BYTES) {
        c->is_held = false;
        uv_read_start((uv_stream_t *)&c->up, give_room, on_from_gateway);
    }
}

/* Takes ownership of the bytes. */
static void client_send(struct client *c, uv_stream_t *to, struct buf bytes, bool is_last)
{
    struct sending *s = xcalloc(sizeof *s);
    s->client = c;
    s->bytes = bytes;
    s->is_last = is_last;
    uv_buf_t one = uv_buf_init(s->bytes.bytes, (unsigned)s->bytes.len);
    if (uv_write(&s->request, to, &one, 1, on_sent) < 0) {
        buf_done(&s->bytes);
        free(s);
        client_close(c);
    }
}

static void client_answer(struct client *c, int status, struct str body)
{
    struct buf out = {0};
    buf_putf(&out,
             "HTTP/1.1 %d \r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
             "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
             "Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n",
             status, body.n);
    buf_putstr(&out, body);
    uv_read_stop((uv_stream_t *)&c->down);
    client_send(c, (uv_stream_t *)&c->down, out, true);
}

static void client_refuse(struct client *c, int status, const char *why)
{
    struct buf body = {0};
    buf_puts(&body, "{\"error\":{");
    js_put_field(&body, "code", STR("refused"));
    js_put_field(&body, "message", str_of(why));
    buf_puts(&body, "}}");
    client_answer(c, status, buf_str(&body));
    buf_done(&body);
}

/* --- to the gateway and back ------------------------------------------------------------------ */

static void give_room(uv_handle_t *handle, size_t want, uv_buf_t *ret)
{
    (void)handle;
    *ret = uv_buf_init(xalloc(want), (unsigned)want);
}

static void on_from_gateway(uv_stream_t *up, ssize_t n, const uv_buf_t *bytes)
{
    struct client *c = up->data;
    struct buf piece = {0};
    if (n > 0)
        buf_put(&piece, bytes->base, (size_t)n);
    free(bytes->base);
    if (n > 0)
        client_send(c, (uv_stream_t *)&c->down, piece, false);
    else if (n < 0)
        client_send(c, (uv_stream_t *)&c->down, (struct buf){0}, true); /* behind what is pending */
    if (n > 0 && uv_stream_get_write_queue_size((uv_stream_t *)&c->down) >= PILE_BYTES) {
        c->is_held = true;
        uv_read_stop(up);
    }
}

static bool connect_up(struct client *c)
{
    struct sockaddr_un at;
    int dir = -1, fd = -1;
    if (unix_address(c->console->socket_path, &at, &dir))
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) == 0;
    if (dir >= 0)
        close(dir);
    if (!good && fd >= 0)
        close(fd);
    if (!good)
        return false;
    uv_pipe_init(&c->console->loop, &c->up, 0);
    c->up.data = c;
    c->has_up = true;
    c->n_handles++;
    return uv_pipe_open(&c->up, fd) == 0;
}

static void pass_on(struct client *c, const struct console_head *head)
{
    struct buf out = {0};
    if (!connect_up(c)) {
        client_refuse(c, 502, "the gateway does not answer at its socket");
        return;
    }
    console_head_put(head, &out);
    buf_put(&out, c->in.bytes + head->head_bytes, head->length);
    client_send(c, (uv_stream_t *)&c->up, out, false);
    uv_read_start((uv_stream_t *)&c->up, give_room, on_from_gateway);
}

/* --- requests --------------------------------------------------------------------------------- */

/* {"token":"…"} → {"secret":"…"}, once. */
static void log_in(struct client *c, const struct console_head *head)
{
    struct js_doc doc = {0};
    struct buf token = {0}, body = {0};
    struct console *console = c->console;
    const char *at = c->in.bytes + head->head_bytes;
    uint32_t node = js_parse(&doc, at, head->length, JS_CLIENT) && js_type(&doc, 0) == JS_OBJECT
                        ? js_get(&doc, 0, "token")
                        : 0;
    if (node && js_type(&doc, node) == JS_STRING)
        js_value(&doc, node, &token);
    bool is_right = is_secret(buf_str(&token), console->token) && !console->token_was_used;
    if (is_right) {
        console->token_was_used = true;
        explicit_bzero(console->token, sizeof console->token);
        buf_putc(&body, '{');
        js_put_field(&body, "secret", str_of(console->secret));
        buf_putc(&body, '}');
        client_answer(c, 200, buf_str(&body));
    } else {
        client_refuse(c, 401, "this token is not valid, or was used: start the console again");
    }
    js_done(&doc);
    buf_done(&token);
    buf_done(&body);
}

static void take_request(struct client *c, const struct console_head *head)
{
    if (str_eq(head->path, STR("/login")) && str_eq(head->method, STR("POST")))
        log_in(c, head);
    else if (console_head_is_page(head))
        pass_on(c, head); /* the page itself has no secrets */
    else if (!is_bearer(c, head->bearer))
        client_refuse(c, 401, "the console's secret is missing");
    else if (str_begins(head->path, STR("/v1/")))
        pass_on(c, head);
    else
        client_refuse(c, 404, "there is nothing here");
}

/* The request is whole, or cannot be read. */
static void look_at_request(struct client *c)
{
    struct console_head head;
    const char *why = "", *end = memmem(c->in.bytes, c->in.len, "\r\n\r\n", 4);
    if (!end) {
        if (c->in.len > CONSOLE_HEAD_MAX)
            client_refuse(c, 431, "the head is too long");
        return;
    }
    int status = console_head_read(buf_str(&c->in), &head, &why);
    if (status == 0)
        status = console_head_check(&head, c->console->port, &why);
    if (status == 0 && c->in.len < head.head_bytes + head.length)
        return;
    c->is_asked = true;
    uv_timer_stop(&c->late);
    if (status == 0)
        take_request(c, &head);
    else
        client_refuse(c, status, why);
}

static void on_from_browser(uv_stream_t *down, ssize_t n, const uv_buf_t *bytes)
{
    struct client *c = down->data;
    if (n > 0 && !c->is_asked)
        buf_put(&c->in, bytes->base, (size_t)n);
    free(bytes->base);
    if (n < 0)
        client_close(c);
    else if (n > 0 && !c->is_asked)
        look_at_request(c);
}

static void on_request_late(uv_timer_t *timer)
{
    client_close(timer->data);
}

static void on_client(uv_stream_t *listener, int status)
{
    struct console *console = listener->data;
    struct client *c = xcalloc(sizeof *c);
    c->console = console;
    console->n_clients++;
    c->n_handles = 2;
    uv_tcp_init(&console->loop, &c->down);
    uv_timer_init(&console->loop, &c->late);
    c->down.data = c->late.data = c;
    if (status < 0 || uv_accept(listener, (uv_stream_t *)&c->down) < 0 ||
        console->n_clients > MOST_CLIENTS) {
        client_close(c);
        return;
    }
    uv_timer_start(&c->late, on_request_late, HEAD_MS, 0);
    uv_read_start((uv_stream_t *)&c->down, give_room, on_from_browser);
}

/* --- start and end ---------------------------------------------------------------------------- */

static void console_on_signal(uv_signal_t *signal, int number)
{
    struct console *console = signal->data;
    (void)number;
    uv_stop(&console->loop);
}

static bool console_listen(struct console *console)
{
    struct sockaddr_in at;
    struct sockaddr_storage got;
    int n = sizeof got;
    uv_ip4_addr("127.0.0.1", 0, &at);
    uv_tcp_init(&console->loop, &console->listener);
    console->listener.data = console;
    if (uv_tcp_bind(&console->listener, (const struct sockaddr *)&at, 0) < 0 ||
        uv_listen((uv_stream_t *)&console->listener, BACKLOG, on_client) < 0 ||
        uv_tcp_getsockname(&console->listener, (struct sockaddr *)&got, &n) < 0)
        return false;
    console->port = ntohs(((struct sockaddr_in *)&got)->sin_port);
    return true;
}

static void close_any(uv_handle_t *handle, void *arg)
{
    const struct console *console = arg;
    bool is_own = handle == (const uv_handle_t *)&console->listener || handle->type == UV_SIGNAL;
    if (uv_is_closing(handle))
        return;
    if (is_own)
        uv_close(handle, NULL);
    else
        client_close(handle->data);
}

static void console_watch(struct console *console, uv_signal_t *signal, int number)
{
    uv_signal_init(&console->loop, signal);
    signal->data = console;
    uv_signal_start(signal, console_on_signal, number);
}

int admin_console_run(const char *socket_path)
{
    struct console console = {.socket_path = socket_path};
    uv_loop_init(&console.loop);
    bool good = make_secret(console.token) && make_secret(console.secret);
    good = console_listen(&console) && good;
    console_watch(&console, &console.sigint, SIGINT);
    console_watch(&console, &console.sigterm, SIGTERM);
    if (good) {
        printf("Open http://127.0.0.1:%d/console/#token=%s\n", console.port, console.token);
        printf("It works once, in one tab of a browser on this machine. Ctrl-C ends it.\n");
        fflush(stdout);
        uv_run(&console.loop, UV_RUN_DEFAULT);
    } else {
        fprintf(stderr, "holdfast: the console cannot listen on 127.0.0.1: %s\n", strerror(errno));
    }
    uv_walk(&console.loop, close_any, &console);
    while (uv_run(&console.loop, UV_RUN_DEFAULT))
        ;
    uv_loop_close(&console.loop);
    explicit_bzero(console.secret, sizeof console.secret);
    return good ? 0 : 1;
}
