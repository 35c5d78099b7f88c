#include "gateway/agents/program_session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gateway/base/folders.h"
#include "gateway/base/log.h"
#include "gateway/processes/sandbox.h"
#include "proto/forms/form.h"

#define DAY_S 86400

static void session_put_folder(const char *data, struct buf *out)
{
    buf_putf(out, "%s/sessions", data);
}

static void session_put_path(const struct program_session *s, struct buf *out)
{
    char conversation[SANDBOX_NAME], agent[SANDBOX_NAME];
    sandbox_name(s->owner, s->conversation_id, conversation);
    sandbox_name(str_of(s->agent), STR(""), agent);
    session_put_folder(s->data, out);
    buf_putf(out, "/%s-%s", conversation, agent);
}

static bool has_turn(struct str turns, struct str task_id)
{
    for (size_t i = 0; i + task_id.n <= turns.n; i += task_id.n + 1)
        if (memcmp(turns.p + i, task_id.p, task_id.n) == 0)
            return true;
    return false;
}

bool program_session_read(const struct program_session *s, struct str turns, struct buf *ret)
{
    struct buf path = {0};
    char text[FORM_SESSION + TASK_ID_LEN + 3];
    session_put_path(s, &path);
    int fd = open(path.bytes, O_RDONLY | O_CLOEXEC);
    buf_done(&path);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    const char *end = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;
    struct str id = {text, end ? (size_t)(end - text) : 0};
    struct str task_id = {end ? end + 1 : NULL, end ? (size_t)(text + n - end) - 1 : 0};
    if (task_id.n && task_id.p[task_id.n - 1] == '\n')
        task_id.n--;
    if (!end || !form_is_session(id))
        return false;
    if (turns.p && task_id.n == TASK_ID_LEN && !str_eq(task_id, s->task_id) &&
        !has_turn(turns, task_id))
        return false;
    buf_putstr(ret, id);
    return true;
}

/* A reader sees the old one or the new one. */
static bool session_replace(const char *path, struct str line)
{
    struct buf part = {0};
    buf_putf(&part, "%s.part", path);
    int fd = open(part.bytes, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = fd >= 0 && write(fd, line.p, line.n) == (ssize_t)line.n;
    if (fd >= 0)
        good &= close(fd) == 0;
    good = good && rename(part.bytes, path) == 0;
    buf_done(&part);
    return good;
}

void program_session_write(const struct program_session *s, struct str id)
{
    struct buf folder = {0}, path = {0}, line = {0};
    ASSERT(form_is_session(id));
    session_put_path(s, &path);
    buf_putstr(&line, id);
    buf_putc(&line, '\n');
    buf_putstr(&line, s->task_id);
    buf_putc(&line, '\n');
    session_put_folder(s->data, &folder);
    if (!folders_make(folder.bytes) || !session_replace(path.bytes, buf_str(&line)))
        log_event_limited(LEVEL_WARN, "agent", "session_not_kept", LOG_TEXT("agent", s->agent),
                          LOG_TEXT("why", strerror(errno)));
    buf_done(&line);
    buf_done(&path);
    buf_done(&folder);
}

void program_session_forget(const struct program_session *s)
{
    struct buf path = {0};
    session_put_path(s, &path);
    (void)unlink(path.bytes);
    buf_done(&path);
}

void program_sessions_prune(const char *data, int64_t days)
{
    struct buf folder = {0};
    struct stat st;
    time_t now = time(NULL);
    session_put_folder(data, &folder);
    DIR *dir = opendir(folder.bytes);
    buf_done(&folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            now - st.st_mtime > days * DAY_S)
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
}
