#include "gateway/cli/chat_token.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/base/folders.h"

#define FILE_BYTES 8192 /* a guest's token is far shorter */

static bool put_path(const struct chat_url *url, struct buf *out)
{
    if (!folders_put_state(out) || !folders_make(out->bytes))
        return false;
    buf_puts(out, "/chat-");
    for (const char *c = url->host; *c; c++)
        buf_putc(out, strchr(":/%", *c) ? '_' : *c);
    buf_putf(out, "-%d.token", url->port);
    return true;
}

static char *read_token(const char *path)
{
    char token[FILE_BYTES];
    struct stat st;
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_mode & 077)
        fprintf(stderr, "holdfast: %s is not used: other users may read it\n", path);
    else
        n = read(fd, token, sizeof token);
    close(fd);
    return n > 0 && n < FILE_BYTES ? xstrdup((struct str){token, (size_t)n}) : NULL;
}

char *chat_token_load(const struct chat_url *url)
{
    struct buf path = {0};
    char *token = put_path(url, &path) ? read_token(path.bytes) : NULL;
    buf_done(&path);
    return token;
}

void chat_token_save(const struct chat_url *url, struct str token)
{
    struct buf path = {0}, part = {0};
    if (put_path(url, &path) && token.n < FILE_BYTES) {
        buf_putf(&part, "%s.%ld", path.bytes, (long)getpid());
        (void)unlink(part.bytes); /* of an earlier process that was killed here */
        int fd = open(part.bytes, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        bool good = fd >= 0 && write(fd, token.p, token.n) == (ssize_t)token.n;
        if (fd >= 0)
            close(fd);
        if (!good || rename(part.bytes, path.bytes) < 0)
            (void)unlink(part.bytes);
    }
    buf_done(&path);
    buf_done(&part);
}

void chat_token_forget(const struct chat_url *url)
{
    struct buf path = {0};
    if (put_path(url, &path))
        (void)unlink(path.bytes);
    buf_done(&path);
}
