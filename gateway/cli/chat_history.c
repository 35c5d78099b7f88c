#include "gateway/cli/chat_history.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/base/folders.h"
#include "proto/str.h"

#define MOST_BYTES (1u << 20) /* of the file; at a start more than that is cut to its newer half */

static bool history_path(struct buf *out)
{
    if (!folders_put_state(out) || !folders_make(out->bytes))
        return false;
    buf_puts(out, "/chat-history");
    return true;
}

static int history_open(int flags)
{
    struct buf path = {0};
    struct stat st;
    int fd = -1;
    if (history_path(&path))
        fd = open(path.bytes, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    buf_done(&path);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_mode & 077)) {
        close(fd); /* other users may read it, or worse: it is not used */
        return -1;
    }
    return fd;
}

static void unescape(struct str kept, struct buf *out)
{
    buf_clear(out);
    for (size_t i = 0; i < kept.n; i++) {
        bool is_escaped = kept.p[i] == '\\' && i + 1 < kept.n;
        i += is_escaped;
        buf_putc(out, is_escaped && kept.p[i] == 'n' ? '\n' : kept.p[i]);
    }
}

static void read_all(int fd, struct buf *out)
{
    for (ssize_t n; out->len <= 2 * MOST_BYTES; out->len += (size_t)n) {
        n = read(fd, buf_reserve(out, 65536), 65536);
        if (n <= 0)
            return;
    }
}

/* Drops the older half, from the beginning of a line; what another talk appends meanwhile is
 * lost. */
static void shorten(int fd, struct buf *all)
{
    const char *at = memchr(all->bytes + all->len / 2, '\n', all->len - all->len / 2);
    if (!at)
        return;
    buf_consume(all, (size_t)(at + 1 - all->bytes));
    if (ftruncate(fd, 0) == 0)
        (void)!pwrite(fd, all->bytes, all->len, 0);
}

void chat_history_load(struct chat_edit *e)
{
    struct buf all = {0}, line = {0};
    int fd = history_open(O_RDWR);
    if (fd < 0)
        return;
    read_all(fd, &all);
    if (all.len > MOST_BYTES)
        shorten(fd, &all);
    close(fd);
    for (struct str rest = buf_str(&all); rest.n > 0;) {
        const char *newline = memchr(rest.p, '\n', rest.n);
        size_t n = newline ? (size_t)(newline - rest.p) : rest.n;
        unescape((struct str){rest.p, n}, &line);
        if (line.len > 0)
            chat_edit_keep(e, buf_str(&line));
        rest = str_from(rest, newline ? n + 1 : n);
    }
    buf_done(&all);
    buf_done(&line);
}

void chat_history_add(struct str line)
{
    struct buf kept = {0};
    int fd = line.n > 0 && line.p[0] != ' ' ? history_open(O_WRONLY | O_APPEND | O_CREAT) : -1;
    if (fd < 0)
        return;
    for (size_t i = 0; i < line.n; i++) {
        if (line.p[i] == '\n' || line.p[i] == '\\')
            buf_putc(&kept, '\\');
        buf_putc(&kept, line.p[i] == '\n' ? 'n' : line.p[i]);
    }
    buf_putc(&kept, '\n');
    (void)!write(fd, kept.bytes, kept.len);
    close(fd);
    buf_done(&kept);
}
