#include "gateway/cli/admin_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "gateway/cli/admin_console.h"
#include "gateway/cli/usage.h"
#include "gateway/front/admin.h"

struct ask {
    const char *method, *path, *owner; /* owner NULL: it is in the body */
    struct buf body;
};

static int connect_to(const char *path)
{
    struct sockaddr_un at;
    int dir = -1, fd = -1;
    if (unix_address(path, &at, &dir))
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    if (fd < 0)
        fprintf(stderr, "holdfast: no gateway answers at %s: %s\n", path, strerror(errno));
    if (dir >= 0)
        close(dir);
    return fd;
}

static void put_owner(struct buf *out, const char *owner)
{
    buf_puts(out, "Holdfast-Owner: ");
    for (; *owner; owner++) {
        unsigned char c = (unsigned char)*owner;
        if (c > ' ' && c < 0x7f && c != '%')
            buf_putc(out, *owner);
        else
            buf_putf(out, "%%%02x", c);
    }
    buf_puts(out, "\r\n");
}

static bool send_all(int fd, struct str bytes)
{
    while (bytes.n > 0) {
        ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes.p += n;
        bytes.n -= (size_t)n;
    }
    return true;
}

static void send_request(int fd, const struct ask *a)
{
    struct buf out = {0};
    buf_putf(&out, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", a->method,
             a->path);
    if (a->owner)
        put_owner(&out, a->owner);
    if (a->body.len)
        buf_putf(&out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", a->body.len);
    buf_puts(&out, "\r\n");
    buf_putstr(&out, buf_str(&a->body));
    (void)send_all(fd, buf_str(&out)); /* a failure shows when the answer is read */
    buf_done(&out);
}

/* Prints what follows the head as it arrives: an event stream is shown while it lasts. */
static int show(int fd)
{
    char piece[65536];
    struct buf head = {0};
    int status = 0;
    for (ssize_t n; (n = recv(fd, piece, sizeof piece, 0)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        if (status) {
            fwrite(piece, 1, (size_t)n, stdout);
            fflush(stdout);
            continue;
        }
        buf_put(&head, piece, (size_t)n);
        const char *end = memmem(head.bytes, head.len, "\r\n\r\n", 4);
        if (!end || head.len < 12)
            continue;
        status = (int)strtol(head.bytes + 9, NULL, 10);
        fwrite(end + 4, 1, head.len - (size_t)(end + 4 - head.bytes), stdout);
        fflush(stdout);
    }
    buf_done(&head);
    if (!status)
        fprintf(stderr, "holdfast: the gateway did not answer\n");
    else
        putchar('\n');
    return status >= 200 && status < 300 ? 0 : 1;
}

static bool read_arguments(int argc, char **argv, long long for_s, struct ask *ret)
{
    static const struct {
        const char *word, *method, *path, *member; /* of the body; NULL: there is none */
    } words[] = {{"kick", "POST", "/v1/admin/kick", "owner"},
                 {"revoke", "POST", "/v1/admin/revoke", "owner"},
                 {"unrevoke", "POST", "/v1/admin/unrevoke", "owner"},
                 {"revocations", "GET", "/v1/admin/revocations", NULL},
                 {"nodes", "GET", "/v1/admin/nodes", NULL},
                 {"workers", "GET", "/v1/admin/workers", NULL},
                 {"drain", "POST", "/v1/admin/workers/drain", "worker"},
                 {"drain", "POST", "/v1/admin/drain", NULL},
                 {"drain-node", "POST", "/v1/admin/drain", "node"},
                 {"state", "GET", "/v1/admin/state", NULL},
                 {"watch", "GET", "/v1/admin/watch", NULL},
                 {"undrain", "POST", "/v1/admin/workers/undrain", "worker"}};
    if (argc >= 4 && argc <= 5 && strcmp(argv[0], "as") == 0) {
        *ret = (struct ask){.owner = argv[1], .method = argv[2], .path = argv[3]};
        if (argc == 5)
            buf_puts(&ret->body, argv[4]);
        return argv[3][0] == '/' && !strpbrk(argv[3], " \r\n") && !strpbrk(argv[2], " \r\n");
    }
    for (size_t i = 0; i < countof(words); i++) {
        if (argc != (words[i].member ? 2 : 1) || strcmp(argv[0], words[i].word) != 0)
            continue;
        *ret = (struct ask){.method = words[i].method, .path = words[i].path};
        if (!words[i].member)
            return true;
        buf_putc(&ret->body, '{');
        js_put_field(&ret->body, words[i].member, str_of(argv[1]));
        if (for_s && strcmp(argv[0], "revoke") == 0)
            js_put_int(&ret->body, "for_s", for_s);
        buf_putc(&ret->body, '}');
        return true;
    }
    return false;
}

int admin_run(const char *socket_path, int argc, char **arguments, long long for_s)
{
    struct ask a = {0};
    int code = 2;
    bool is_console = argc == 1 && strcmp(arguments[0], "console") == 0;
    if (!is_console && !read_arguments(argc, arguments, for_s, &a)) {
        code = usage_fail_verb("admin", argc > 0 ? arguments[0] : NULL);
    } else if (!socket_path) {
        fprintf(stderr, "holdfast: admin.socket is \"\" in the configuration\n");
    } else {
        int fd =
            connect_to(socket_path); /* for a console too: it tells at once that there is none */
        code = 1;
        if (fd >= 0 && is_console) {
            close(fd);
            code = admin_console_run(socket_path);
        } else if (fd >= 0) {
            send_request(fd, &a);
            code = show(fd);
            close(fd);
        }
    }
    buf_done(&a.body);
    return code;
}
