#include "gateway/chat_token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_TOKEN 8192

/* The directory, each part of it made when missing; or nothing. */
static bool put_dir(struct buf *out)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/')
        buf_putf(out, "%s/holdfast", state);
    else if (home && *home == '/')
        buf_putf(out, "%s/.local/state/holdfast", home);
    else
        return false;
    for (char *slash = out->bytes; slash;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = 0;
        bool good = mkdir(out->bytes, 0700) == 0 || errno == EEXIST;
        if (slash)
            *slash = '/';
        if (!good)
            return false;
    }
    return true;
}

static bool put_path(const struct chat_url *url, struct buf *out)
{
    if (!put_dir(out))
        return false;
    buf_puts(out, "/chat-");
    for (const char *c = url->host; *c; c++)
        buf_putc(out, strchr(":/%", *c) ? '_' : *c);
    buf_putf(out, "-%d.token", url->port);
    return true;
}

static char *read_token(const char *path)
{
    char token[MAX_TOKEN];
    struct stat st;
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_mode & 077)
        fprintf(stderr, "holdfast: %s is not used: others than its owner may read it\n", path);
    else
        n = read(fd, token, sizeof token);
    close(fd);
    return n > 0 && n < MAX_TOKEN ? xstrdup((struct str){token, (size_t)n}) : NULL;
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
    if (put_path(url, &path) && token.n < MAX_TOKEN) {
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
