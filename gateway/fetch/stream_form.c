#include "gateway/fetch/stream_form.h"

#include <strings.h>

bool stream_form_says_events(struct str content_type)
{
    struct str type = STR("text/event-stream");
    return content_type.n >= type.n && strncasecmp(content_type.p, type.p, type.n) == 0;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Looks for a field or a comment at the beginning; FORM_UNKNOWN while one is still possible. */
static enum stream_form by_its_fields(struct str begin)
{
    static const char *const fields[] = {"data:", "event:", "id:", "retry:", "error:", ":"};
    for (size_t i = 0; i < countof(fields); i++) {
        size_t n = smaller(begin.n, strlen(fields[i]));
        if (memcmp(begin.p, fields[i], n) == 0)
            return fields[i][n] ? FORM_UNKNOWN : FORM_EVENTS;
    }
    return FORM_TEXT;
}

/* Drops byte order marks and white space in front.  False: it may be a mark that has not arrived
 * completely. */
static bool drop_marks(struct buf *kept)
{
    static const char mark[] = "\xEF\xBB\xBF";
    for (;;) {
        size_t blanks = 0;
        while (blanks < kept->len && (unsigned char)kept->bytes[blanks] <= ' ')
            blanks++;
        buf_consume(kept, blanks);
        size_t n = smaller(kept->len, sizeof mark - 1);
        if (n == 0 || memcmp(kept->bytes, mark, n) != 0)
            return true;
        if (n < sizeof mark - 1)
            return false;
        buf_consume(kept, n);
    }
}

enum stream_form stream_form_begin(bool says_events, struct buf *kept, struct str bytes)
{
    buf_putstr(kept, bytes);
    if (kept->len == 0 || !drop_marks(kept) || kept->len == 0)
        return FORM_UNKNOWN;
    if (kept->bytes[0] == '{' || kept->bytes[0] == '[')
        return FORM_TEXT;
    return says_events ? FORM_EVENTS : by_its_fields(buf_str(kept));
}
