#include "gateway/base/secret_line.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <unistd.h>

/* Reads a line of up to max bytes, and one byte more when it is longer. */
static const char *read_some(int fd, size_t max, struct buf *ret)
{
    char *room = buf_reserve(ret, max); /* allocated once: a buffer that grows leaves copies */
    ssize_t n;
    do {
        n = read(fd, room + ret->len, max - ret->len);
        if (n > 0)
            ret->len += (size_t)n;
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 ? strerror(errno) : NULL;
}

static const char *judge(const struct buf *line, size_t max)
{
    if (line->len == 0)
        return "the first line is empty";
    if (line->len > max)
        return "the first line is too long";
    return memchr(line->bytes, 0, line->len) ? "the first line contains a NUL" : NULL;
}

const char *secret_line_read(const char *file, size_t max, struct buf *ret)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return strerror(errno);
    const char *wrong = read_some(fd, max + 2, ret); /* the end of a line may take two bytes */
    close(fd);
    if (wrong)
        return wrong;
    const char *end = memchr(ret->bytes, '\n', ret->len);
    if (end)
        ret->len = (size_t)(end - ret->bytes);
    if (ret->len > 0 && ret->bytes[ret->len - 1] == '\r')
        ret->len--;
    ret->bytes[ret->len] = 0;
    return judge(ret, max);
}

void secret_line_done(struct buf *secret)
{
    if (secret->bytes)
        OPENSSL_cleanse(secret->bytes, secret->cap);
    buf_done(secret);
}
