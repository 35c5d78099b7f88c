#include "gateway/processes/keep_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/js.h"

#define FILE_BYTES (2 * 1024 * 1024) /* of a spec or a status: a longer file is damaged */
#define RING_HEAD 8                  /* bytes: the total */

/* --- files ------------------------------------------------------------------------------------ */

static bool read_file(int folder, const char *name, struct buf *out)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = -1;
    if (fd < 0)
        return false;
    while (out->len < FILE_BYTES && (n = read(fd, buf_reserve(out, 16384), 16384)) > 0)
        out->len += (size_t)n;
    close(fd);
    return n == 0;
}

static bool write_all(int fd, struct str bytes)
{
    while (bytes.n) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes.p += n;
        bytes.n -= (size_t)n;
    }
    return true;
}

/* Replaces the whole file, or nothing. */
static bool replace_file(int folder, const char *name, struct str bytes)
{
    char fresh[32];
    snprintf(fresh, sizeof fresh, "%s.new", name);
    int fd = openat(folder, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool good = write_all(fd, bytes);
    good &= close(fd) == 0;
    return good && renameat(folder, fresh, folder, name) == 0;
}

static bool keep_read_object(int folder, const char *name, struct buf *text, struct js_doc *doc)
{
    return read_file(folder, name, text) && js_parse(doc, text->bytes, text->len, JS_AGENT) &&
           js_type(doc, 0) == JS_OBJECT;
}

/* --- members ---------------------------------------------------------------------------------- */

static char *take_text(const struct js_doc *doc, const char *key)
{
    uint32_t node = js_get(doc, 0, key);
    struct buf text = {0};
    if (!node || js_type(doc, node) != JS_STRING)
        return NULL;
    js_value(doc, node, &text);
    buf_putc(&text, 0);
    return buf_take(&text);
}

static bool take_bool(const struct js_doc *doc, const char *key)
{
    uint32_t node = js_get(doc, 0, key);
    return node && js_type(doc, node) == JS_TRUE;
}

static int64_t take_int(const struct js_doc *doc, const char *key)
{
    uint32_t node = js_get(doc, 0, key);
    int64_t value = 0;
    return node && js_type(doc, node) == JS_NUMBER && js_int(doc, node, &value) ? value : 0;
}

static void take_texts(const struct js_doc *doc, const char *key, struct keep_texts *ret)
{
    uint32_t node = js_get(doc, 0, key);
    if (!node || js_type(doc, node) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i)) {
        struct buf text = {0};
        if (js_type(doc, i) != JS_STRING)
            continue;
        js_value(doc, i, &text);
        buf_putc(&text, 0);
        ret->list = xrealloc(ret->list, (ret->n + 2) * sizeof(char *));
        ret->list[ret->n++] = buf_take(&text);
        ret->list[ret->n] = NULL;
    }
}

static void put_texts(struct buf *out, const char *key, const struct keep_texts *texts)
{
    js_put_raw(out, key, STR("["));
    for (size_t i = 0; i < texts->n; i++) {
        if (i)
            buf_putc(out, ',');
        js_put_str(out, str_of(texts->list[i]));
    }
    buf_putc(out, ']');
}

/* --- the spec --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t offset;
} bound_members[] = {
    {"memory", offsetof(struct bounds, memory)},
    {"processes", offsetof(struct bounds, processes)},
    {"cpu_s", offsetof(struct bounds, cpu_s)},
    {"file_bytes", offsetof(struct bounds, file)},
    {"folder_bytes", offsetof(struct bounds, folder)},
};

static uint64_t *bound_of(const struct bounds *b, size_t i)
{
    return (uint64_t *)(uintptr_t)((const char *)b + bound_members[i].offset);
}

bool keep_spec_write(int folder, const struct keep_spec *s)
{
    struct buf out = {0};
    buf_putc(&out, '{');
    js_put_field(&out, "owner", str_of(s->owner));
    js_put_field(&out, "conversation_id", str_of(s->conversation_id));
    js_put_field(&out, "task_id", str_of(s->task_id));
    js_put_field(&out, "agent", str_of(s->agent));
    js_put_field(&out, "call", str_of(s->call));
    js_put_field(&out, "command", str_of(s->command));
    put_texts(&out, "argv", &s->argv);
    js_put_field(&out, "cwd", str_of(s->cwd));
    js_put_field(&out, "workdir", str_of(s->workdir));
    js_put_bool(&out, "sandboxed", s->sandboxed);
    js_put_bool(&out, "background", s->background);
    js_put_bool(&out, "pty", s->pty);
    js_put_bool(&out, "notify_on_complete", s->notify_on_complete);
    put_texts(&out, "watch_patterns", &s->watch_patterns);
    js_put_int(&out, "started_at", s->started_at);
    js_put_int(&out, "timeout_ms", s->timeout_ms);
    for (size_t i = 0; i < countof(bound_members); i++)
        js_put_int(&out, bound_members[i].name, (int64_t)*bound_of(&s->bounds, i));
    js_put_field(&out, "folder", str_of(s->folder));
    js_put_field(&out, "cgroup", str_of(s->cgroup));
    js_put_int(&out, "files", s->files);
    buf_puts(&out, "}\n");
    bool good = replace_file(folder, "spec", buf_str(&out));
    buf_done(&out);
    return good;
}

bool keep_spec_read(int folder, struct keep_spec *ret)
{
    struct buf text = {0};
    struct js_doc doc = {0};
    *ret = (struct keep_spec){0};
    bool good = keep_read_object(folder, "spec", &text, &doc);
    if (good) {
        ret->owner = take_text(&doc, "owner");
        ret->conversation_id = take_text(&doc, "conversation_id");
        ret->task_id = take_text(&doc, "task_id");
        ret->agent = take_text(&doc, "agent");
        ret->call = take_text(&doc, "call");
        ret->command = take_text(&doc, "command");
        take_texts(&doc, "argv", &ret->argv);
        ret->cwd = take_text(&doc, "cwd");
        ret->workdir = take_text(&doc, "workdir");
        ret->sandboxed = take_bool(&doc, "sandboxed");
        ret->background = take_bool(&doc, "background");
        ret->pty = take_bool(&doc, "pty");
        ret->notify_on_complete = take_bool(&doc, "notify_on_complete");
        take_texts(&doc, "watch_patterns", &ret->watch_patterns);
        ret->started_at = take_int(&doc, "started_at");
        ret->timeout_ms = take_int(&doc, "timeout_ms");
        for (size_t i = 0; i < countof(bound_members); i++)
            *bound_of(&ret->bounds, i) = (uint64_t)take_int(&doc, bound_members[i].name);
        ret->folder = take_text(&doc, "folder");
        ret->cgroup = take_text(&doc, "cgroup");
        ret->files = take_int(&doc, "files");
        good = ret->owner && ret->conversation_id && ret->task_id && ret->command && ret->argv.n;
    }
    js_done(&doc);
    buf_done(&text);
    if (!good)
        keep_spec_done(ret);
    return good;
}

/* Only its absence says so: that it cannot be looked for does not. */
bool keep_has_spec(int folder)
{
    return faccessat(folder, "spec", F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

void keep_texts_done(struct keep_texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        free(texts->list[i]);
    free(texts->list);
    *texts = (struct keep_texts){0};
}

void keep_spec_done(struct keep_spec *s)
{
    free(s->owner);
    free(s->conversation_id);
    free(s->task_id);
    free(s->agent);
    free(s->call);
    free(s->command);
    keep_texts_done(&s->argv);
    free(s->cwd);
    free(s->workdir);
    free(s->folder);
    free(s->cgroup);
    keep_texts_done(&s->watch_patterns);
    *s = (struct keep_spec){0};
}

/* --- the status ------------------------------------------------------------------------------- */

static const char *const state_names[] = {
    [KEEP_RUNNING] = "running",     [KEEP_EXITED] = "exited",       [KEEP_KILLED] = "killed",
    [KEEP_TIMED_OUT] = "timed_out", [KEEP_FAILED] = "failed_start", [KEEP_LOST] = "lost"};

const char *keep_state_name(enum keep_state state)
{
    return state_names[state];
}

bool keep_status_write(int folder, const struct keep_status *s)
{
    struct buf out = {0};
    buf_putc(&out, '{');
    js_put_field(&out, "state", str_of(state_names[s->state]));
    js_put_int(&out, "keeper", s->keeper);
    js_put_int(&out, "keeper_ticks", (int64_t)s->keeper_ticks);
    js_put_int(&out, "pid", s->pid);
    js_put_int(&out, "pid_ticks", (int64_t)s->pid_ticks);
    if (s->has_exit_code)
        js_put_int(&out, "exit_code", s->exit_code);
    js_put_int(&out, "ended_at", s->ended_at);
    if (s->error[0])
        js_put_field(&out, "error", str_of(s->error));
    buf_puts(&out, "}\n");
    bool good = replace_file(folder, "status", buf_str(&out));
    buf_done(&out);
    return good;
}

bool keep_has_status(int folder)
{
    return faccessat(folder, "status", F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

bool keep_status_read(int folder, struct keep_status *ret)
{
    struct buf text = {0};
    struct js_doc doc = {0};
    *ret = (struct keep_status){0};
    bool good = keep_read_object(folder, "status", &text, &doc);
    uint32_t state = good ? js_get(&doc, 0, "state") : 0;
    good = state && js_type(&doc, state) == JS_STRING;
    if (good) {
        size_t i = 0;
        while (i < countof(state_names) && !js_is(&doc, state, state_names[i]))
            i++;
        good = i < countof(state_names);
        ret->state = (enum keep_state)i;
    }
    if (good) {
        ret->keeper = (pid_t)take_int(&doc, "keeper");
        ret->keeper_ticks = (uint64_t)take_int(&doc, "keeper_ticks");
        ret->pid = (pid_t)take_int(&doc, "pid");
        ret->pid_ticks = (uint64_t)take_int(&doc, "pid_ticks");
        ret->has_exit_code = js_get(&doc, 0, "exit_code") != 0;
        ret->exit_code = (int)take_int(&doc, "exit_code");
        ret->ended_at = take_int(&doc, "ended_at");
        char *error = take_text(&doc, "error");
        snprintf(ret->error, sizeof ret->error, "%s", error ? error : "");
        free(error);
    }
    js_done(&doc);
    buf_done(&text);
    return good;
}

/* --- the ring --------------------------------------------------------------------------------- */

int keep_ring_open(int folder, bool writes)
{
    return openat(folder, "output", (writes ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW,
                  0600);
}

/* The bytes first, then the total that counts them: a reader never sees bytes that are not
 * there. */
bool keep_ring_put(int ring, uint64_t *total, const char *bytes, size_t n)
{
    ASSERT(n <= KEEP_CHUNK);
    for (size_t done = 0; done < n;) {
        uint64_t at = (*total + done) % KEEP_RING;
        size_t part = n - done < KEEP_RING - at ? n - done : (size_t)(KEEP_RING - at);
        ssize_t put = pwrite(ring, bytes + done, part, (off_t)(RING_HEAD + at));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        done += (size_t)put;
    }
    uint64_t now = *total + n;
    if (pwrite(ring, &now, sizeof now, 0) != (ssize_t)sizeof now)
        return false;
    *total = now;
    return true;
}

uint64_t keep_ring_total(int ring)
{
    uint64_t total = 0;
    return pread(ring, &total, sizeof total, 0) == (ssize_t)sizeof total ? total : 0;
}

/* The first byte that the keeper cannot have overwritten during the read: it may be one chunk ahead
 * of its total. */
static uint64_t first_whole(uint64_t total)
{
    return total + KEEP_CHUNK > KEEP_RING ? total + KEEP_CHUNK - KEEP_RING : 0;
}

/* Appends the bytes at these places; returns the place where it stopped. */
static uint64_t read_places(int ring, uint64_t at, uint64_t end, struct buf *out)
{
    while (at < end) {
        uint64_t place = at % KEEP_RING;
        uint64_t part = end - at < KEEP_RING - place ? end - at : KEEP_RING - place;
        ssize_t n =
            pread(ring, buf_reserve(out, (size_t)part), (size_t)part, (off_t)(RING_HEAD + place));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        out->len += (size_t)n;
        at += (uint64_t)n;
    }
    return at;
}

struct keep_span keep_ring_read(int ring, uint64_t from, size_t max, struct buf *out)
{
    uint64_t total = keep_ring_total(ring), whole = first_whole(total);
    if (from >= total)
        return (struct keep_span){total, total};
    uint64_t first = from > whole ? from : whole;
    uint64_t end = total - first > max ? first + max : total;
    size_t before = out->len;
    end = read_places(ring, first, end, out);
    whole = first_whole(keep_ring_total(ring)); /* the keeper may have written meanwhile */
    if (whole > first) {
        uint64_t lost = whole < end ? whole - first : end - first;
        memmove(out->bytes + before, out->bytes + before + lost, (size_t)(end - first - lost));
        out->len -= lost;
        first += lost;
    }
    return (struct keep_span){first, end};
}

/* --- the folder ------------------------------------------------------------------------------- */

bool keep_is_locked(int folder)
{
    int fd = openat(folder, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno != ENOENT;
    bool locked = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    close(fd);
    return locked;
}

enum keep_sight keep_look(int folder, struct keep_status *ret)
{
    bool locked = keep_is_locked(folder);
    if (!keep_status_read(folder, ret)) {
        *ret = (struct keep_status){0};
        return locked ? KEEP_YOUNG : keep_has_status(folder) ? KEEP_VANISHED : KEEP_NEVER_BEGAN;
    }
    if (ret->state != KEEP_RUNNING)
        return KEEP_ENDED;
    return locked ? KEEP_LIVES : KEEP_VANISHED;
}

void keep_put_closed(int folder)
{
    int fd = openat(folder, "closed", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        close(fd);
}

bool keep_has_closed(int folder)
{
    return faccessat(folder, "closed", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void keep_remove(int processes, const char *id)
{
    static const char *const names[] = {"spec",  "spec.new", "status", "status.new", "output",
                                        "input", "lock",     "watch",  "closed"};
    int folder = openat(processes, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0)
        return;
    for (size_t i = 0; i < countof(names); i++)
        (void)unlinkat(folder, names[i], 0);
    close(folder);
    (void)unlinkat(processes, id, AT_REMOVEDIR);
}
