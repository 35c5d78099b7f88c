/* Lines of a process that its agent asked to hear about.
 *
 * A pattern is a plain text; a line that contains any is told once.  A state of a line that is
 * overwritten (progress) counts as a line.  The ring is read from where the last look ended; text
 * after the last newline waits for its end, which may be the end of the process.  Agents must not
 * be flooded: matches within WINDOW_MS of the last reported ones are left out and counted, and make
 * that window a strike; after MAX_STRIKES of them in a row, or MAX_TOLD in all, watching stops, and
 * the end is told instead.  More than ALL_TOLD of all processes within ALL_MS silence all of them
 * for QUIET_MS. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/notice.h"
#include "gateway/base/log.h"
#include "gateway/processes/processes_private.h"
#include "gateway/processes/terminal_text.h"
#include "proto/js.h"

#define WINDOW_MS 15000
#define MAX_STRIKES 3
#define ALL_MS 10000
#define ALL_TOLD 15
#define QUIET_MS 30000
#define MAX_TOLD 8
#define MAX_LINES 20          /* in one notice */
#define LINE_BYTES KEEP_CHUNK /* without a newline: that much counts as a line */

static bool has_pattern(const struct process *p, struct str line)
{
    for (size_t i = 0; i < p->spec.watch_patterns.n; i++) {
        struct str pattern = str_of(p->spec.watch_patterns.list[i]);
        if (pattern.n && memmem(line.p, line.n, pattern.p, pattern.n))
            return true;
    }
    return false;
}

/* Joins the lines that match; returns their number. */
static uint32_t find_lines(const struct process *p, struct str raw, struct buf *out)
{
    struct buf text = {0};
    uint32_t n = 0;
    for (size_t at = 0; at < raw.n;) {
        size_t len = 0;
        while (at + len < raw.n && raw.p[at + len] != '\n' && raw.p[at + len] != '\r')
            len++;
        buf_clear(&text);
        terminal_text((struct str){raw.p + at, len}, true, true, &text);
        if (len && has_pattern(p, buf_str(&text)) && n++ < MAX_LINES) {
            buf_putc(out, '\n');
            buf_put(out, text.bytes, utf8_chars(buf_str(&text), NOTICE_OUTPUT_CHARS / 4));
        }
        at += len + 1;
    }
    buf_done(&text);
    out->len = utf8_chars(buf_str(out), NOTICE_OUTPUT_CHARS);
    return n;
}

/* "position told strikes told_at from": written before the lines are told, so that a restart tells
 * these lines under the same key, and continues after them; and again when they are told. */
static void record(const struct process *p)
{
    int folder = process_folder(p);
    int fd = folder < 0
                 ? -1
                 : openat(folder, "watch", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    char text[128];
    uint64_t from = p->watch.telling.len ? p->watch.from : p->watch.position;
    int n = snprintf(text, sizeof text, "%020llu %010u %010u %020lld %020llu\n",
                     (unsigned long long)p->watch.position, p->watch.n_told, p->watch.n_strikes,
                     (long long)p->watch.told_at, (unsigned long long)from);
    if (fd >= 0) {
        (void)!pwrite(fd, text, (size_t)n, 0);
        close(fd);
    }
    if (folder >= 0)
        close(folder);
}

static void on_match_told(void *user, int status, int64_t notice_key)
{
    struct told *t = user;
    struct process *p = process_of_told(t);
    (void)notice_key;
    if (p && (status == 0 || status == STORE_NOT_FOUND)) {
        buf_done(&p->watch.telling);
        record(p);
    } else if (p) {
        log_event_limited(LEVEL_WARN, "process", "match_not_told", LOG_INT("status", status));
    }
    if (p) {
        p->watch.asked = false;
        processes_arm_tick(p->all, TICK_MS);
    }
    free(t);
}

bool process_watch_tell(struct process *p)
{
    struct notice_source source = {.kind = NOTICE_LINES};
    struct buf key = {0};
    if (p->watch.telling.len == 0 || p->watch.asked)
        return p->watch.telling.len > 0;
    p->watch.asked = true;
    buf_putf(&key, "%s match %u", p->id, p->watch.n_told);
    process_fill_source(p, &source);
    source.key = buf_str(&key);
    source.text = buf_str(&p->watch.telling);
    notice_tell(p->all->o.hub, &source, on_match_told, process_told(p));
    buf_done(&key);
    return true;
}

static void put_match(struct process *p, const struct buf *lines, bool last)
{
    struct buf *text = &p->watch.telling;
    buf_putf(text, "Background process %s has printed lines that you watch for", p->id);
    if (p->watch.n_left_out)
        buf_putf(text, " (%u more such lines were left out before)", p->watch.n_left_out);
    if (p->watch.missed)
        buf_puts(text, " (some of its output was overwritten before it was examined)");
    buf_puts(text, ". Its command: ");
    process_put_command(p, text);
    buf_putstr(text, buf_str(lines));
    if (last)
        buf_puts(text, "\nIt is no longer watched: you will be told when it ends.");
    p->watch.n_left_out = 0;
    p->watch.missed = false;
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

/* Counts one more; true when all processes together have said too much. */
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
    put_match(p, lines, last);
    record(p);
    process_watch_tell(p);
    if (last)
        stop_watching(p);
}

/* Reads from its position on, up to a look's share.  False when there is nothing. */
static bool read_on(struct process *p, struct buf *bytes)
{
    struct process_watch *w = &p->watch;
    int folder = process_folder(p), ring = folder < 0 ? -1 : keep_ring_open(folder, false);
    if (folder >= 0)
        close(folder);
    if (ring < 0)
        return false;
    if (keep_ring_total(ring) > w->seen || !process_runs(p)) {
        struct keep_span span = keep_ring_read(ring, w->position, LINE_BYTES, bytes);
        w->missed |= span.first > w->position;
        w->position = span.first;
        w->seen = span.end;
    }
    close(ring);
    return bytes->len > 0;
}

/* How much of it is whole lines.  LINE_BYTES without a newline are one, and so is the rest when no
 * more comes. */
static size_t whole_lines(struct str bytes, bool is_all)
{
    const char *newline = bytes.n ? memrchr(bytes.p, '\n', bytes.n) : NULL;
    if (is_all || (!newline && bytes.n >= LINE_BYTES))
        return bytes.n;
    return newline ? (size_t)(newline + 1 - bytes.p) : 0;
}

/* A line was cut at its end: the next look must find a text that the cut goes through. */
static size_t step_back(const struct process *p)
{
    size_t longest = 1;
    for (size_t i = 0; i < p->spec.watch_patterns.n; i++) {
        size_t len = strlen(p->spec.watch_patterns.list[i]);
        longest = len > longest ? len : longest;
    }
    return longest - 1 < LINE_BYTES / 2 ? longest - 1 : LINE_BYTES / 2;
}

/* It has ended, and all of its output was examined.  Omitted lines would come with the next
 * notice; there is none any more, so its end is told. */
static void end_watching(struct process *p)
{
    struct process_watch *w = &p->watch;
    bool owes = w->n_left_out || w->missed;
    w->on = false;
    record(p);
    if (owes && p->status.state != KEEP_KILLED && !p->learnt)
        stop_watching(p);
}

bool process_watch_look(struct process *p, size_t *budget)
{
    struct buf bytes = {0}, lines = {0};
    struct process_watch *w = &p->watch;
    if (w->telling.len)
        return false;
    bool has_ended = !process_runs(p), there = read_on(p, &bytes);
    bool is_all = has_ended && bytes.len < LINE_BYTES;
    size_t whole = there ? whole_lines(buf_str(&bytes), is_all) : 0;
    *budget -= bytes.len < *budget ? bytes.len : *budget;
    w->from = w->position;
    w->position += whole;
    if (whole) {
        uint32_t n = find_lines(p, (struct str){bytes.bytes, whole}, &lines);
        if (n)
            take_matches(p, n, &lines);
        else if (!is_all && bytes.bytes[whole - 1] != '\n')
            w->position -= step_back(p);
    }
    bool more = w->on && !is_all && bytes.len >= LINE_BYTES;
    if (w->on && is_all)
        end_watching(p);
    buf_done(&bytes);
    buf_done(&lines);
    return more;
}

void process_watch_begin(struct process *p)
{
    p->watch = (struct process_watch){.on = true, .round = p->all->round - 1};
}

/* The gateway was killed while it had these lines to tell: they are told under the same key. */
static void restore_match(struct process *p, int folder)
{
    struct process_watch *w = &p->watch;
    struct buf bytes = {0}, lines = {0};
    int ring = keep_ring_open(folder, false);
    if (ring < 0)
        return;
    (void)keep_ring_read(ring, w->from, (size_t)(w->position - w->from), &bytes);
    if (find_lines(p, buf_str(&bytes), &lines))
        put_match(p, &lines, false);
    close(ring);
    buf_done(&bytes);
    buf_done(&lines);
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
    process_watch_begin(p); /* members as record wrote them; 0 if it did not */
    p->watch.position = strtoull(at, &at, 10);
    p->watch.n_told = (uint32_t)strtoul(at, &at, 10);
    p->watch.n_strikes = (uint32_t)strtoul(at, &at, 10);
    p->watch.told_at = strtoll(at, &at, 10);
    p->watch.from = *at == ' ' ? strtoull(at, &at, 10) : p->watch.position;
    if (p->watch.from < p->watch.position && p->watch.position - p->watch.from <= LINE_BYTES)
        restore_match(p, folder);
    processes_arm_tick(p->all, 0);
}
