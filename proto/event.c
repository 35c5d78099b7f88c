#include "proto/event.h"

#include "proto/event_head.h"
#include "proto/str.h"

static const struct str names[N_EVENT_TYPES] = {
#define X(name, wire, agent) [name] = {wire, sizeof(wire) - 1},
    EVENT_TABLE(X)
#undef X
};

const char *event_name(enum event_type e)
{
    ASSERT((unsigned)e < N_EVENT_TYPES);
    return names[e].p;
}

bool event_find(struct str name, enum event_type *ret)
{
    for (size_t i = 0; i < N_EVENT_TYPES; i++) {
        if (str_eq(name, names[i])) {
            *ret = (enum event_type)i;
            return true;
        }
    }
    return false;
}

static void put_i64(struct buf *out, int64_t n)
{
    if (n < 0)
        buf_putc(out, '-');
    buf_put_u64(out, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

void event_put_head(struct buf *out, const char task_id[TASK_ID_LEN], uint64_t seq, uint64_t from,
                    int64_t ts_wall_ms, enum event_type event)
{
    ASSERT((unsigned)event < N_EVENT_TYPES);
    buf_putstr(out, STR(EVENT_PREFIX));
    buf_put(out, task_id, TASK_ID_LEN);
    buf_putstr(out, STR("\",\"seq\":"));
    buf_put_u64(out, seq);
    if (from != seq) {
        buf_putstr(out, STR(",\"from\":"));
        buf_put_u64(out, from);
    }
    buf_putstr(out, STR(",\"ts\":"));
    put_i64(out, ts_wall_ms);
    buf_putstr(out, STR(",\"event\":\""));
    buf_putstr(out, names[event]);
    buf_putstr(out, STR("\",\"data\":"));
}

size_t event_line_bytes(uint64_t seq, int64_t ts, enum event_type event, struct str data)
{
    return EVENT_SEQ_AT + u64_digits(seq) + sizeof(",\"ts\":") - 1 + (ts < 0) +
           u64_digits(ts < 0 ? 0 - (uint64_t)ts : (uint64_t)ts) + sizeof(",\"event\":\"") - 1 +
           names[event].n + sizeof("\",\"data\":") - 1 + data.n + sizeof("}\n") - 1;
}

void event_line(struct buf *out, const char task_id[TASK_ID_LEN], uint64_t seq, int64_t ts_wall_ms,
                enum event_type event, struct str data)
{
    ASSERT((unsigned)event < N_EVENT_TYPES);
    /* It grows once, by exactly this. */
    buf_reserve(out, event_line_bytes(seq, ts_wall_ms, event, data));
    event_put_head(out, task_id, seq, seq, ts_wall_ms, event);
    buf_putstr(out, data);
    buf_put(out, "}\n", 2);
}

/* Consumes the expected text at the front of rest; false when something else stands there. */
static bool event_take(struct str *rest, struct str expected)
{
    if (rest->n < expected.n || memcmp(rest->p, expected.p, expected.n) != 0)
        return false;
    rest->p += expected.n;
    rest->n -= expected.n;
    return true;
}

#define DIGITS_MOST 20 /* of UINT64_MAX */

static bool take_i64(struct str *rest, int64_t *ret)
{
    uint64_t magnitude;
    bool negative = event_take(rest, STR("-"));
    if (!str_take_u64(rest, &magnitude) || magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = (int64_t)(negative ? 0 - magnitude : magnitude);
    return true;
}

static bool event_take_event(struct str *rest, enum event_type *ret)
{
    const char *quote = rest->n ? memchr(rest->p, '"', rest->n) : NULL;
    if (!quote)
        return false;
    struct str name = {rest->p, (size_t)(quote - rest->p)};
    rest->p += name.n;
    rest->n -= name.n;
    return event_find(name, ret);
}

uint64_t event_line_seq(const char *line, size_t len)
{
    uint64_t seq = 0;
    ASSERT(len > EVENT_SEQ_AT && line[EVENT_SEQ_AT - 1] == ':');
    struct str rest = {line + EVENT_SEQ_AT, len - EVENT_SEQ_AT};
    bool ok = str_take_u64(&rest, &seq);
    ASSERT(ok && rest.n > 0 && rest.p[0] == ',');
    return seq;
}

struct str event_last_line(struct str lines)
{
    const char *at = lines.n > 1 ? memrchr(lines.p, '\n', lines.n - 1) : NULL;
    at = at ? at + 1 : lines.p;
    return (struct str){at, (size_t)(lines.p + lines.n - at)};
}

uint64_t event_last_seq(struct str lines)
{
    struct str last = event_last_line(lines);
    return event_line_seq(last.p, last.n);
}

static size_t put_digits(char *ret, uint64_t number)
{
    size_t n = u64_digits(number);
    for (size_t i = n; i-- > 0; number /= 10)
        ret[i] = (char)('0' + number % 10);
    return n;
}

/* Turns the digits of a number into those of the next; returns how many. */
static size_t count_up(char *digits, size_t n)
{
    for (size_t i = n; i-- > 0; digits[i] = '0') {
        if (digits[i] != '9') {
            digits[i]++;
            return n;
        }
    }
    digits[0] = '1';
    digits[n] = '0';
    return n + 1;
}

/* A replay from the store checks each of its lines: what they must begin with is put together once,
 * and compared. */
bool event_lines_are(struct str lines, uint64_t first, uint64_t last)
{
    char head[EVENT_SEQ_AT + DIGITS_MOST + 1], *digits = head + EVENT_SEQ_AT;
    if (lines.n <= EVENT_SEQ_AT || memcmp(lines.p, EVENT_PREFIX, sizeof(EVENT_PREFIX) - 1) != 0 ||
        memchr(lines.p, '\n', EVENT_SEQ_AT))
        return false;
    memcpy(head, lines.p, EVENT_SEQ_AT);
    size_t n = put_digits(digits, first);
    for (uint64_t seq = first; lines.n > 0; seq++, n = count_up(digits, n)) {
        digits[n] = ',';
        size_t begins = EVENT_SEQ_AT + n + 1;
        if (seq > last || lines.n <= begins || memcmp(lines.p, head, begins) != 0)
            return false;
        const char *newline = memchr(lines.p + begins, '\n', lines.n - begins);
        if (!newline || (seq == last) != (newline + 1 == lines.p + lines.n))
            return false;
        lines.n -= (size_t)(newline + 1 - lines.p);
        lines.p = newline + 1;
    }
    return true;
}

bool event_split_from(struct str line, struct event_parts *ret, uint64_t *ret_from)
{
    struct event_parts parts;
    struct str rest = line;
    if (!event_take(&rest, STR(EVENT_PREFIX)) || rest.n < TASK_ID_LEN)
        return false;
    rest.p += TASK_ID_LEN;
    rest.n -= TASK_ID_LEN;
    if (!event_take(&rest, STR("\",\"seq\":")) || !str_take_u64(&rest, &parts.seq))
        return false;
    uint64_t from = parts.seq;
    if (event_take(&rest, STR(",\"from\":")) && !str_take_u64(&rest, &from))
        return false;
    if (!event_take(&rest, STR(",\"ts\":")) || !take_i64(&rest, &parts.ts) ||
        !event_take(&rest, STR(",\"event\":\"")) || !event_take_event(&rest, &parts.event) ||
        !event_take(&rest, STR("\",\"data\":")))
        return false;
    if (rest.n > 0 && rest.p[rest.n - 1] == '\n')
        rest.n--;
    if (rest.n < sizeof("{}}") - 1 || rest.p[0] != '{' || rest.p[rest.n - 1] != '}' ||
        rest.p[rest.n - 2] != '}')
        return false;
    parts.data = (struct str){rest.p, rest.n - 1};
    *ret = parts;
    *ret_from = from;
    return true;
}

bool event_line_split(struct str line, struct event_parts *ret)
{
    uint64_t from;
    return event_split_from(line, ret, &from);
}

struct str event_put_output(struct buf *data, struct str text)
{
    size_t most = MAX_EVENT_LINE - EVENT_FRAME, taken = data->len + strlen(",\"output\":");
    struct str cut = {text.p, utf8_cut(text, MAX_OUTPUT)};
    cut = js_fit(cut, taken < most ? most - taken : 0);
    js_put_field(data, "output", cut);
    return cut;
}
