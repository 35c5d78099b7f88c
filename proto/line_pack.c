#include "proto/line_pack.h"

#include "proto/event.h"
#include "proto/str.h"
#include "proto/varint.h"

/* Design.  Both sides keep the head that the next line would have, as text: its prefix, the digits
 * of its seq, which are counted up, and those of its ts.  A line is compared with it, or begins as
 * its copy.  Short copies have fixed lengths, so that each is a few instructions: they go beyond
 * what is needed wherever there is room. */

#define VERSION 1
#define TS_NAME ",\"ts\":"
#define TS_DIGITS 13 /* of the years 2001 to 2286; lines of other times are stored whole */
#define TS_LEAST UINT64_C(1000000000000)
#define TS_MOST UINT64_C(9999999999999)
#define WHEEL_DIGITS 4 /* the last ones change alone most often */
#define TS_WHEEL 10000
#define SEQ_DIGITS 20 /* at most */
#define HEAD_LEAST (EVENT_SEQ_AT + 1 + sizeof(TS_NAME) - 1 + TS_DIGITS)
#define HEAD_COPY 128
#define KIND_COPY 48
#define TEXT_COPY 32
#define LINE_ROOM 64  /* more than an op with all of its numbers */
#define PACK_ROOM 256 /* more than what stands before the lines, and a LINE_ROOM */
#define LONG_LINE 256 /* bytes of a line that may be repeated, and of its string */

enum { OP_KIND = 0x3f, OP_TS = 0x40, OP_AGAIN = 0x80, KIND_WHOLE = OP_KIND };

/* --- kinds ------------------------------------------------------------------------------------ */

/* A kind stands for these bytes, behind the ts.  On disk it is its place here, so that rows are
 * only ever added, at the end. */
#define BEFORE_DATA(name) ",\"event\":\"" name "\",\"data\":"
#define BEFORE_TEXT(name) BEFORE_DATA(name) "{\"text\":\""
#define ROW(text)              \
    {                          \
        sizeof(text) - 1, text \
    }
#define PAIR(name) ROW(BEFORE_DATA(name)), ROW(BEFORE_TEXT(name))
static const struct {
    unsigned char n;
    char text[KIND_COPY];
} kinds[] = {
    PAIR("token"),          PAIR("thinking"),       PAIR("tool_call"),    PAIR("tool_result"),
    PAIR("progress"),       PAIR("task.created"),   PAIR("task.started"), PAIR("task.resumed"),
    PAIR("child"),          PAIR("message"),        PAIR("custom"),       PAIR("file"),
    PAIR("input_required"), PAIR("input_received"), PAIR("final_answer"), PAIR("task.completed"),
    PAIR("task.failed"),
};
_Static_assert(countof(kinds) < KIND_WHOLE, "ops have room");

static struct str kind_text(unsigned kind)
{
    return (struct str){kinds[kind].text, kinds[kind].n};
}

static inline bool kind_is_text(unsigned kind)
{
    return kind % 2;
}

/* The bytes behind the data, with the newline. */
static inline struct str kind_end(unsigned kind)
{
    return kind_is_text(kind) ? STR("\"}}\n") : STR("}\n");
}

/* --- heads ------------------------------------------------------------------------------------ */

struct line_head {
    size_t n, n_seq; /* bytes; of these, digits of the seq */
    uint64_t ts;
    unsigned wheel; /* ts % TS_WHEEL */
    char text[HEAD_COPY];
};

static void put_digits(char *end, uint64_t number, size_t n)
{
    for (; n > 0; n--, number /= 10)
        *--end = (char)('0' + number % 10);
}

static void head_set_ts(struct line_head *h, uint64_t ts)
{
    uint64_t wheel = h->wheel + (ts - h->ts);
    if (wheel < TS_WHEEL) {
        h->wheel = (unsigned)wheel;
        put_digits(h->text + h->n, wheel, WHEEL_DIGITS);
    } else {
        h->wheel = (unsigned)(ts % TS_WHEEL);
        put_digits(h->text + h->n, ts, TS_DIGITS);
    }
    h->ts = ts;
}

static void head_begin(struct line_head *h, const char *task_id, uint64_t seq, uint64_t ts)
{
    *h = (struct line_head){.n_seq = u64_digits(seq), .wheel = TS_WHEEL};
    h->n = EVENT_SEQ_AT + h->n_seq + sizeof(TS_NAME) - 1 + TS_DIGITS;
    char *to = mempcpy(h->text, EVENT_PREFIX, sizeof(EVENT_PREFIX) - 1);
    to = mempcpy(to, task_id, TASK_ID_LEN);
    to = mempcpy(to, "\",\"seq\":", sizeof("\",\"seq\":") - 1) + h->n_seq;
    put_digits(to, seq, h->n_seq);
    memcpy(to, TS_NAME, sizeof(TS_NAME) - 1);
    head_set_ts(h, ts);
}

/* From one number of 64 bits no pack counts to one of more digits than such have. */
static void head_count(struct line_head *h)
{
    char *digits = h->text + EVENT_SEQ_AT;
    for (size_t i = h->n_seq; i-- > 0; digits[i] = '0') {
        if (digits[i] != '9') {
            digits[i]++;
            return;
        }
    }
    memmove(digits + 1, digits, h->n - EVENT_SEQ_AT);
    digits[0] = '1';
    h->n_seq++;
    h->n++;
}

/* --- strings that come again ------------------------------------------------------------------ */

/* The quote that ends a JSON string; NULL: none does. */
static const char *string_end(const char *string, const char *end)
{
    for (const char *at = string; at < end && (at = memchr(at, '"', (size_t)(end - at))); at++) {
        ptrdiff_t slashes = 0;
        while (at - slashes > string && at[-1 - slashes] == '\\')
            slashes++;
        if (slashes % 2 == 0)
            return at;
    }
    return NULL;
}

/* The longest JSON string in some JSON, without its quotes. */
static struct str longest_string(struct str json)
{
    struct str longest = {json.p, 0};
    const char *end = json.p + json.n, *at = json.p;
    while (at < end && (at = memchr(at, '"', (size_t)(end - at)))) {
        const char *string = at + 1;
        at = string_end(string, end);
        if (!at)
            break;
        if ((size_t)(at - string) > longest.n)
            longest = (struct str){string, (size_t)(at - string)};
        at++;
    }
    return longest;
}

/* --- packing ---------------------------------------------------------------------------------- */

struct again {
    size_t n, place, there; /* bytes; where in the data; where in the last long line */
};

struct packer {
    struct line_head head; /* of the next line */
    unsigned kind;         /* of the last line: the next one's, most often */
    struct str long_line;  /* the last one; n = 0: none yet */
    unsigned char *to;
};

static void pack_number(struct packer *p, uint64_t n)
{
    p->to = varint_put(p->to, n);
}

static void pack_bytes(struct packer *p, const char *bytes, size_t n)
{
    p->to = mempcpy(p->to, bytes, n);
}

static bool take_digits(const char *digits, int n, uint64_t *ret)
{
    uint64_t number = 0;
    for (int i = 0; i < n; i++) {
        if (!is_digit(digits[i]))
            return false;
        number = number * 10 + (uint64_t)(digits[i] - '0');
    }
    *ret = number;
    return true;
}

static bool take_ts(const char *digits, uint64_t *ret)
{
    return take_digits(digits, TS_DIGITS, ret) && *ret >= TS_LEAST;
}

/* The ts of a line after one with this head. */
static bool next_ts(const struct line_head *h, const char *digits, uint64_t *ret)
{
    const char *old = h->text + h->n - TS_DIGITS;
    size_t above = TS_DIGITS - WHEEL_DIGITS;
    if (memcmp(digits, old, above) != 0)
        return take_ts(digits, ret);
    if (!take_digits(digits + above, WHEEL_DIGITS, ret))
        return false;
    *ret += h->ts - h->wheel;
    return true;
}

static bool is_of_kind(unsigned kind, struct str rest)
{
    struct str begins = kind_text(kind), ends = kind_end(kind);
    return rest.n >= begins.n + ends.n && memcmp(rest.p, begins.p, begins.n) == 0 &&
           memcmp(rest.p + rest.n - ends.n, ends.p, ends.n) == 0;
}

/* The kind of a line by what stands behind its ts: text before data, which that is as well.  The
 * last line's comes first. */
static unsigned find_kind(unsigned last, struct str rest)
{
    if (is_of_kind(last | 1, rest))
        return last | 1;
    for (unsigned kind = countof(kinds); kind-- > 0;)
        if (is_of_kind(kind, rest))
            return kind;
    return KIND_WHOLE;
}

/* The parts of a line that has the head: false when it has not. */
static bool split(const struct packer *p, struct str line, uint64_t *ret_ts, struct str *ret_rest)
{
    const struct line_head *h = &p->head;
    size_t before_ts = h->n - TS_DIGITS;
    if (line.n < h->n || memcmp(line.p, h->text, before_ts) != 0)
        return false;
    *ret_rest = (struct str){line.p + h->n, line.n - h->n};
    return next_ts(h, line.p + before_ts, ret_ts);
}

static void pack_whole(struct packer *p, struct str line)
{
    *p->to++ = KIND_WHOLE;
    pack_number(p, line.n);
    pack_bytes(p, line.p, line.n);
}

/* The part of the data that the last long line has as well; n = 0: none. */
static struct again find_again(const struct packer *p, struct str data)
{
    struct again none = {0};
    if (data.n < LONG_LINE || p->long_line.n == 0)
        return none;
    struct str here = longest_string(data), there = longest_string(p->long_line);
    if (here.n < LONG_LINE || !str_eq(here, there))
        return none;
    return (struct again){here.n, (size_t)(here.p - data.p), (size_t)(there.p - p->long_line.p)};
}

static void pack_data(struct packer *p, struct str data, const struct again *again)
{
    pack_number(p, data.n);
    if (again->n) {
        pack_number(p, again->place);
        pack_number(p, again->n);
        pack_number(p, again->there);
    }
    size_t behind = again->place + again->n;
    pack_bytes(p, data.p, again->place);
    pack_bytes(p, data.p + behind, data.n - behind);
}

static void pack_line(struct packer *p, struct str line)
{
    uint64_t ts;
    struct str rest;
    struct again again = {0};
    unsigned kind = split(p, line, &ts, &rest) ? find_kind(p->kind, rest) : KIND_WHOLE;
    if (kind == KIND_WHOLE) {
        pack_whole(p, line);
        return;
    }
    struct str begins = kind_text(kind);
    struct str data = {rest.p + begins.n, rest.n - begins.n - kind_end(kind).n};
    if (!kind_is_text(kind))
        again = find_again(p, data);
    unsigned op = kind | (ts != p->head.ts ? OP_TS : 0) | (again.n ? OP_AGAIN : 0);
    *p->to++ = (unsigned char)op;
    if (op & OP_TS) {
        int64_t change = (int64_t)(ts - p->head.ts);
        pack_number(p, (uint64_t)change << 1 ^ (change < 0 ? UINT64_MAX : 0));
        head_set_ts(&p->head, ts);
    }
    pack_data(p, data, &again);
    p->kind = kind;
}

/* The first line gives the head: false when it is none of ours. */
static bool pack_head(struct packer *p, struct str lines)
{
    uint64_t seq, ts;
    const struct str name = STR(TS_NAME);
    if (lines.n < HEAD_LEAST || memcmp(lines.p, EVENT_PREFIX, sizeof(EVENT_PREFIX) - 1) != 0)
        return false;
    struct str rest = {lines.p + EVENT_SEQ_AT, lines.n - EVENT_SEQ_AT};
    if (!str_take_u64(&rest, &seq) || rest.n < name.n + TS_DIGITS ||
        memcmp(rest.p, name.p, name.n) != 0 || !take_ts(rest.p + name.n, &ts))
        return false;
    const char *task_id = lines.p + sizeof(EVENT_PREFIX) - 1;
    *p->to++ = VERSION;
    pack_number(p, lines.n);
    pack_bytes(p, task_id, TASK_ID_LEN);
    pack_number(p, seq);
    pack_number(p, ts);
    head_begin(&p->head, task_id, seq, ts);
    return true;
}

/* Goes on as long as that is worth it. */
static bool pack_all(struct packer *p, struct str lines, const unsigned char *end)
{
    if (!pack_head(p, lines))
        return false;
    for (struct str line; lines.n > 0; lines.p += line.n, lines.n -= line.n) {
        const char *newline = memchr(lines.p, '\n', lines.n);
        line = (struct str){lines.p, newline ? (size_t)(newline + 1 - lines.p) : lines.n};
        if ((size_t)(end - p->to) < line.n + LINE_ROOM)
            return false;
        pack_line(p, line);
        head_count(&p->head);
        if (line.n >= LONG_LINE)
            p->long_line = line;
    }
    return true;
}

void line_pack(struct buf *out, struct str lines)
{
    ASSERT(!line_pack_is(lines));
    size_t room = lines.n + PACK_ROOM;
    struct packer p = {.to = (unsigned char *)buf_reserve(out, room)};
    const unsigned char *begin = p.to;
    bool packs = lines.n <= LINE_PACK_MOST && pack_all(&p, lines, begin + room);
    size_t n = (size_t)(p.to - begin);
    if (packs && n < lines.n) {
        out->len += n;
        out->bytes[out->len] = 0;
    } else {
        buf_putstr(out, lines);
    }
}

/* --- unpacking -------------------------------------------------------------------------------- */

struct unpacker {
    struct line_head head; /* of the next line */
    struct str from;
    char *to, *end;
    struct str long_line; /* the last one, where it was written */
};

bool line_pack_size(struct str bytes, size_t *ret)
{
    uint64_t n = bytes.n;
    if (line_pack_is(bytes)) {
        struct str rest = {bytes.p + 1, bytes.n - 1};
        if (bytes.p[0] != VERSION || !varint_take(&rest, &n) || n > LINE_PACK_MOST)
            return false;
    }
    *ret = (size_t)n;
    return true;
}

static bool unpack_head(struct unpacker *u)
{
    uint64_t size, seq, ts;
    u->from.p++; /* the version */
    u->from.n--;
    if (!varint_take(&u->from, &size) || u->from.n < TASK_ID_LEN)
        return false;
    const char *task_id = u->from.p;
    u->from.p += TASK_ID_LEN;
    u->from.n -= TASK_ID_LEN;
    if (!varint_take(&u->from, &seq) || !varint_take(&u->from, &ts) || ts < TS_LEAST ||
        ts > TS_MOST)
        return false;
    head_begin(&u->head, task_id, seq, ts);
    return true;
}

static void unpack_bytes(struct unpacker *u, size_t n)
{
    u->to = mempcpy(u->to, u->from.p, n);
    u->from.p += n;
    u->from.n -= n;
}

static bool unpack_whole(struct unpacker *u, unsigned op)
{
    uint64_t n;
    if (op != KIND_WHOLE || !varint_take(&u->from, &n) || n > u->from.n ||
        n > (size_t)(u->end - u->to))
        return false;
    unpack_bytes(u, (size_t)n);
    return true;
}

static bool unpack_ts(struct unpacker *u)
{
    uint64_t change;
    if (!varint_take(&u->from, &change))
        return false;
    uint64_t ts = u->head.ts + (change >> 1 ^ (0 - (change & 1)));
    if (ts < TS_LEAST || ts > TS_MOST)
        return false;
    head_set_ts(&u->head, ts);
    return true;
}

/* The bytes before the data: fixed copies, where there is room. */
static void unpack_begin(struct unpacker *u, unsigned kind, bool wide)
{
    memcpy(u->to, u->head.text, wide ? HEAD_COPY : u->head.n);
    u->to += u->head.n;
    memcpy(u->to, kinds[kind].text, wide ? KIND_COPY : kinds[kind].n);
    u->to += kinds[kind].n;
}

static void unpack_end(struct unpacker *u, unsigned kind)
{
    struct str end = kind_end(kind);
    u->to = mempcpy(u->to, end.p, end.n);
}

static bool unpack_again(struct unpacker *u, size_t n)
{
    uint64_t place, count, there;
    if (!varint_take(&u->from, &place) || !varint_take(&u->from, &count) ||
        !varint_take(&u->from, &there) || place > n || count > n - place || n - count > u->from.n ||
        count == 0 || count > u->long_line.n || there > u->long_line.n - count)
        return false;
    unpack_bytes(u, (size_t)place);
    u->to = mempcpy(u->to, u->long_line.p + there, (size_t)count);
    unpack_bytes(u, n - (size_t)count - (size_t)place);
    return true;
}

static bool unpack_line(struct unpacker *u)
{
    uint64_t n;
    unsigned op = (unsigned char)*u->from.p, kind = op & OP_KIND;
    u->from.p++;
    u->from.n--;
    if (kind >= countof(kinds))
        return unpack_whole(u, op);
    if (((op & OP_TS) && !unpack_ts(u)) || !varint_take(&u->from, &n))
        return false;
    size_t room = (size_t)(u->end - u->to);
    size_t around = u->head.n + kinds[kind].n + kind_end(kind).n;
    if (n > room || around > room - n)
        return false;
    bool wide = room - n - around >= HEAD_COPY;
    unpack_begin(u, kind, wide);
    if (op & OP_AGAIN) {
        if (!unpack_again(u, (size_t)n))
            return false;
    } else if (wide && n <= TEXT_COPY && u->from.n >= TEXT_COPY) {
        memcpy(u->to, u->from.p, TEXT_COPY);
        u->to += n;
        u->from.p += n;
        u->from.n -= n;
    } else {
        if (n > u->from.n)
            return false;
        unpack_bytes(u, (size_t)n);
    }
    unpack_end(u, kind);
    return true;
}

bool line_unpack(struct str bytes, char *to, size_t n)
{
    size_t size;
    struct unpacker u = {.from = bytes, .to = to, .end = to + n};
    if (!line_pack_size(bytes, &size) || size != n)
        return false;
    if (!line_pack_is(bytes)) {
        if (n)
            memcpy(to, bytes.p, n);
        return true;
    }
    if (!unpack_head(&u))
        return false;
    while (u.from.n > 0) {
        const char *line = u.to;
        if (!unpack_line(&u))
            return false;
        head_count(&u.head);
        if (u.to - line >= LONG_LINE)
            u.long_line = (struct str){line, (size_t)(u.to - line)};
    }
    return u.to == u.end;
}

bool line_unpack_to(struct buf *out, struct str bytes)
{
    size_t n;
    if (!line_pack_size(bytes, &n))
        return false;
    char *to = buf_reserve(out, n);
    bool good = line_unpack(bytes, to, n);
    out->len += good ? n : 0;
    out->bytes[out->len] = 0;
    return good;
}
