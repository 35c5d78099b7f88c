#include "proto/event_head.h"

/* Design.  A run is found before it is written, because its line begins with the last event's seq.
 * Joining works on bytes: our lines hold compact JSON without \u escapes of surrogates, so the
 * escaped forms of the texts, joined, are the escaped form of the joined text.
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

/* The length of the run's line when next is its last piece and text_len bytes of it are text: the
 * parts of next's own line around its text, and `from`. */
static size_t merged_len(const struct piece *next, uint64_t from, size_t text_len)
{
    size_t around = next->line.n - next->text.n;
    if (next->from != next->parts.seq)
        around -= sizeof(",\"from\":") - 1 + u64_digits(next->from);
    return around + sizeof(",\"from\":") - 1 + u64_digits(from) + text_len;
}

static bool joins(const struct piece *last, const struct piece *next, uint64_t from,
                  size_t text_len)
{
    return next->mergeable && next->parts.event == last->parts.event &&
           next->from == last->parts.seq + 1 &&
           merged_len(next, from, text_len + next->text.n) <= MAX_MESSAGE_OUT;
}

/* One line for the run from first to last, whose pieces stand in sequence. */
static void coalesce_put_run(struct buf *out, const struct piece *first, const struct piece *last)
{
    const char *task_id = first->line.p + sizeof(EVENT_PREFIX) - 1;
    const char *end = last->line.p + last->line.n;
    event_put_head(out, task_id, last->parts.seq, first->from, last->parts.ts, last->parts.event);
    buf_putstr(out, STR("{\"text\":\""));
    struct piece piece = *first;
    buf_putstr(out, piece.text);
    while (piece.line.p != last->line.p) {
        const char *behind = piece.line.p + piece.line.n;
        piece = next_piece((struct str){behind, (size_t)(end - behind)});
        buf_putstr(out, piece.text);
    }
    buf_putstr(out, STR("\"}}\n"));
}

void event_coalesce(struct str lines, struct buf *out)
{
    const char *end = lines.p + lines.n;
    for (struct str rest = lines; rest.n > 0;) {
        struct piece first = next_piece(rest), last = first;
        size_t text_len = first.text.n;
        for (;;) {
            const char *behind = last.line.p + last.line.n;
            rest = (struct str){behind, (size_t)(end - behind)};
            if (!last.mergeable || rest.n == 0)
                break;
            struct piece next = next_piece(rest);
            if (!joins(&last, &next, first.from, text_len))
                break;
            text_len += next.text.n;
            last = next;
        }
        if (first.line.p == last.line.p)
            buf_putstr(out, first.line);
        else
            coalesce_put_run(out, &first, &last);
    }
}
