#include "proto/event_head.h"

/* Design.  A run is gathered before it is written, because its line begins with the last event's
 * seq.  Joining works on bytes: our lines hold compact JSON without \u escapes of surrogates, so
 * the escaped forms of the texts, joined, are the escaped form of the joined text.
 *
 * The next line joins a run when it is the same kind of event, has text and nothing else, follows
 * without a gap (a reader checks that `from` = last + 1), and the merged line still fits. */

struct piece {
    struct str line; /* with its newline */
    struct event_parts parts;
    uint64_t from;
    struct str text; /* escaped, without quotes; only when it can be merged */
    bool mergeable;
};

/* The inside of {"text":"…"}, when data is just that. */
static bool lone_text(struct str data, struct str *ret)
{
    const struct str before = STR("{\"text\":\""), behind = STR("\"}");
    if (data.n < before.n + behind.n || memcmp(data.p, before.p, before.n) != 0)
        return false;
    const char *text = data.p + before.n, *last = data.p + data.n - behind.n;
    if (memcmp(last, behind.p, behind.n) != 0)
        return false;
    for (const char *at = text;;) { /* the string must end at the first quote that is not escaped */
        const char *quote = memchr(at, '"', (size_t)(last + 1 - at));
        size_t slashes = 0;
        while (quote - slashes > text && quote[-1 - (ptrdiff_t)slashes] == '\\')
            slashes++;
        if (slashes % 2 == 0) {
            *ret = (struct str){text, (size_t)(last - text)};
            return quote == last;
        }
        if (quote == last)
            return false;
        at = quote + 1;
    }
}

/* The line at the front of rest. */
static struct piece next_piece(struct str rest)
{
    const char *newline = memchr(rest.p, '\n', rest.n);
    struct piece piece = {.line = {rest.p, newline ? (size_t)(newline + 1 - rest.p) : rest.n}};
    if (newline && event_split_from(piece.line, &piece.parts, &piece.from) &&
        (piece.parts.event == EVENT_TOKEN || piece.parts.event == EVENT_THINKING))
        piece.mergeable = lone_text(piece.parts.data, &piece.text);
    return piece;
}

/* Consecutive pieces, which become one line. */
struct run {
    struct piece last;
    size_t n;
    uint64_t from;   /* of the first one */
    struct buf text; /* of them all */
};

/* The length of the run's line when next is its last piece: the parts of next's own line around its
 * text, and `from`. */
static size_t merged_len(const struct run *run, const struct piece *next)
{
    size_t around = next->line.n - next->text.n;
    if (next->from != next->parts.seq)
        around -= sizeof(",\"from\":") - 1 + u64_digits(next->from);
    return around + sizeof(",\"from\":") - 1 + u64_digits(run->from) + run->text.len + next->text.n;
}

static bool joins(const struct run *run, const struct piece *next)
{
    return next->mergeable && next->parts.event == run->last.parts.event &&
           next->from == run->last.parts.seq + 1 && merged_len(run, next) <= MAX_MESSAGE_OUT;
}

static void coalesce_put_run(struct buf *out, const struct run *run)
{
    const struct piece *last = &run->last;
    if (run->n == 1) {
        buf_putstr(out, last->line);
        return;
    }
    const char *task_id = last->line.p + sizeof(EVENT_PREFIX) - 1;
    event_put_head(out, task_id, last->parts.seq, run->from, last->parts.ts, last->parts.event);
    buf_putstr(out, STR("{\"text\":\""));
    buf_putstr(out, buf_str(&run->text));
    buf_putstr(out, STR("\"}}\n"));
}

static struct str after_line(struct str rest, struct str line)
{
    return (struct str){rest.p + line.n, rest.n - line.n};
}

void event_coalesce(struct str lines, struct buf *out)
{
    struct run run = {0};
    for (struct str rest = lines; rest.n > 0;) {
        run.last = next_piece(rest);
        run.n = 1;
        run.from = run.last.from;
        buf_clear(&run.text);
        buf_putstr(&run.text, run.last.text);
        rest = after_line(rest, run.last.line);
        for (; run.last.mergeable && rest.n > 0; rest = after_line(rest, run.last.line)) {
            struct piece next = next_piece(rest);
            if (!joins(&run, &next))
                break;
            buf_putstr(&run.text, next.text);
            run.last = next;
            run.n++;
        }
        coalesce_put_run(out, &run);
    }
    buf_done(&run.text);
}

bool event_lines_are_text(struct str lines)
{
    while (lines.n > 0) {
        struct piece piece = next_piece(lines);
        if (!piece.mergeable)
            return false;
        lines.p += piece.line.n;
        lines.n -= piece.line.n;
    }
    return true;
}
