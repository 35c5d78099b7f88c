/* Lines of a running process that its agent asked to be told of.
 *
 * A pattern is a plain text; a line that has one is told once, whichever it was.  Agents are not to be
 * flooded: what matches within WINDOW_MS of the last that was told is left out and counted, and makes
 * that window a strike; after MAX_STRIKES of them in a row, or MAX_TOLD in all, nothing more is
 * watched, and the end is told instead.  More than ALL_TOLD of all processes within ALL_MS, and nobody's
 * are told for QUIET_MS. */
#include "gateway/processes/processes_private.h"

#include "core/notice.h"
#include "gateway/base/log.h"
#include "gateway/processes/terminal_text.h"
#include "proto/js.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WINDOW_MS 15000
#define MAX_STRIKES 3
#define ALL_MS 10000
#define ALL_TOLD 15
#define QUIET_MS 30000
#define MAX_TOLD 8
#define MAX_LINES 20          /* of one notice */
#define LINE_BYTES KEEP_CHUNK /* without a newline: then it counts as a line */

static bool has_pattern(const struct process *p, struct str line)
{
    for (size_t i = 0; i < p->spec.watch_patterns.n; i++) {
        struct str pattern = str_of(p->spec.watch_patterns.list[i]);
        if (pattern.n && memmem(line.p, line.n, pattern.p, pattern.n))
            return true;
    }
    return false;
}

/* The lines that match, joined; how many there are. */
static uint32_t find_lines(const struct process *p, struct str text, struct buf *out)
{
    uint32_t n = 0;
    while (text.n) {
        const char *newline = memchr(text.p, '\n', text.n);
        size_t len = newline ? (size_t)(newline - text.p) : text.n;
        struct str line = {text.p, len};
        if (has_pattern(p, line) && n++ < MAX_LINES) {
            buf_putc(out, '\n');
            buf_put(out, line.p, utf8_chars(line, NOTICE_OUTPUT_CHARS / 4));
        }
        text.p += len + (newline != NULL);
        text.n -= len + (newline != NULL);
    }
    out->len = utf8_chars(buf_str(out), NOTICE_OUTPUT_CHARS);
    return n;
}

/* "position told strikes told_at": written before it is told, so that a restart goes on behind. */
static void record(const struct process *p)
{
    int folder = process_folder(p);
    int fd = folder < 0
                 ? -1
                 : openat(folder, "watch", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    char text[128];
    int n = snprintf(text, sizeof text, "%020llu %010u %010u %020lld\n",
                     (unsigned long long)p->watch.position, p->watch.n_told, p->watch.n_strikes,
                     (long long)p->watch.told_at);
    if (fd >= 0) {
        (void)!pwrite(fd, text, (size_t)n, 0);
        close(fd);
    }
    if (folder >= 0)
        close(folder);
}

static void on_told(void *user, int status, int64_t notice_key)
{
    (void)user, (void)notice_key;
    if (status < 0 && status != STORE_NOT_FOUND)
        log_event_limited(LEVEL_WARN, "process", "match_not_told", LOG_INT("status", status));
}

static void tell(struct process *p, const struct buf *lines, bool last)
{
    struct notice_source source = {0};
    struct buf text = {0}, key = {0};
    buf_putf(&text, "Background process %s has printed what you watch for", p->id);
    if (p->watch.n_left_out)
        buf_putf(&text, " (%u more such lines were left out before)", p->watch.n_left_out);
    buf_puts(&text, ". Its command: ");
    process_put_command(p, &text);
    buf_putstr(&text, buf_str(lines));
    if (last)
        buf_puts(&text, "\nIt is watched no longer: you will be told of its end.");
    buf_putf(&key, "%s match %u", p->id, p->watch.n_told);
    process_fill_source(p, &source);
    source.key = buf_str(&key);
    source.text = buf_str(&text);
    notice_tell(p->all->o.hub, &source, on_told, NULL);
    buf_done(&text);
    buf_done(&key);
}

static void stop_watching(struct process *p)
{
    int folder = process_folder(p);
    p->watch.on = false;
    p->spec.notify_on_complete = true;
    p->told = UNTOLD;
    if (folder < 0)
        return;
    if (!keep_spec_write(folder, &p->spec))
        log_event_limited(LEVEL_WARN, "process", "not_recorded", LOG_TEXT("id", p->id));
    close(folder);
}

/* All processes together have said too much: counts one more. */
static bool is_flood(struct processes *all, int64_t now)
{
    if (now < all->matches.quiet_until)
        return true;
    if (now - all->matches.since >= ALL_MS) {
        all->matches.since = now;
        all->matches.n = 0;
    }
    if (++all->matches.n <= ALL_TOLD)
        return false;
    all->matches.quiet_until = now + QUIET_MS;
    log_event(LEVEL_WARN, "process", "matches_paused", LOG_INT("for_ms", QUIET_MS));
    return true;
}

static void take_matches(struct process *p, uint32_t n, const struct buf *lines)
{
    struct process_watch *w = &p->watch;
    int64_t now = p->all->o.hub->clock.wall_ms;
    if (!(w->told_at && now - w->told_at < WINDOW_MS) && is_flood(p->all, now)) {
        w->n_left_out += n;
        return;
    }
    if (w->told_at && now - w->told_at < WINDOW_MS) {
        w->n_left_out += n;
        w->n_strikes += !w->struck;
        w->struck = true;
        if (w->n_strikes < MAX_STRIKES)
            return;
    } else {
        if (!w->struck)
            w->n_strikes = 0;
        w->struck = false;
        w->told_at = now;
        w->n_told++;
    }
    bool last = w->n_strikes >= MAX_STRIKES || w->n_told >= MAX_TOLD;
    if (last && w->struck)
        w->n_told++; /* a notice of its own */
    record(p);
    tell(p, lines, last);
    w->n_left_out = 0;
    if (last)
        stop_watching(p);
}

bool process_watch_look(struct process *p)
{
    struct buf bytes = {0}, text = {0}, lines = {0};
    int folder = process_folder(p), ring = folder < 0 ? -1 : keep_ring_open(folder, false);
    uint64_t total = ring < 0 ? 0 : keep_ring_total(ring);
    if (folder >= 0)
        close(folder);
    if (total > p->watch.position)
        total = keep_ring_read(ring, (size_t)(total - p->watch.position), &bytes);
    if (ring >= 0)
        close(ring);
    size_t whole = bytes.len; /* up to the last newline: what is behind it may go on */
    while (whole && bytes.bytes[whole - 1] != '\n')
        whole--;
    if (whole == 0 && bytes.len >= LINE_BYTES)
        whole = bytes.len;
    if (whole) {
        p->watch.position = total - (bytes.len - whole);
        terminal_text((struct str){bytes.bytes, whole}, true, true, &text);
        uint32_t n = find_lines(p, buf_str(&text), &lines);
        if (n)
            take_matches(p, n, &lines);
    }
    buf_done(&bytes);
    buf_done(&text);
    buf_done(&lines);
    return p->watch.on;
}

void process_watch_begin(struct process *p)
{
    p->watch = (struct process_watch){.on = true};
}

void process_watch_restore(struct process *p, int folder)
{
    char text[128] = "", *at = text;
    if (p->spec.watch_patterns.n == 0 || p->spec.notify_on_complete)
        return;
    int fd = openat(folder, "watch", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        (void)!read(fd, text, sizeof text - 1);
        close(fd);
    }
    p->watch.on = true; /* members in the order in which record wrote them; 0 where it did not */
    p->watch.position = strtoull(at, &at, 10);
    p->watch.n_told = (uint32_t)strtoul(at, &at, 10);
    p->watch.n_strikes = (uint32_t)strtoul(at, &at, 10);
    p->watch.told_at = strtoll(at, &at, 10);
    processes_arm_tick(p->all);
}
