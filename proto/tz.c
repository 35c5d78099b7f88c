#include "proto/tz.h"

#include <stdlib.h>

#define DAY 86400
#define MAX_CHANGES 4096 /* the longest in the database has 236 */
#define MAX_TYPES 256

/* When a rule changes the clock, each year: POSIX.1-2017 8.3. */
struct change {
    enum { BY_JULIAN, BY_DAY, BY_WEEK } kind; /* Jn, n, Mm.w.d */
    int day, week, month; /* of BY_WEEK: the weekday, 5 for the last, 1 … 12 */
    int32_t time;         /* of the local clock then; -167 to 167 hours */
};

struct rule {
    bool given;
    bool has_summer;
    int32_t standard, summer; /* offsets */
    struct change begins, ends;
};

struct tz {
    size_t n;        /* changes */
    int64_t *at;     /* ascending */
    int32_t *offset; /* from then on */
    int32_t first;   /* offset before all of them */
    struct rule rule;
};

/* --- the calendar ----------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Years begin in March here, so that a leap day is the last of its year. */
int64_t day_number(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = floor_div(y, 400);
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct day day_of(int64_t number)
{
    int64_t z = number + 719468;
    int64_t era = floor_div(z, 146097);
    int64_t of_era = z - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int month = (int)((5 * of_year + 2) / 153);
    int day = (int)(of_year - (153 * month + 2) / 5 + 1);
    month += month < 10 ? 3 : -9;
    return (struct day){.year = year + era * 400 + (month <= 2),
                        .month = month,
                        .day = day,
                        .weekday = (int)(((number + 4) % 7 + 7) % 7)};
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* --- the rule --------------------------------------------------------------------------------- */

/* The local second of that year at which the change comes, on the clock before it. */
static int64_t change_in(const struct change *c, int64_t year)
{
    int64_t first = day_number(year, 1, 1);
    if (c->kind == BY_JULIAN) /* 29 February is never counted */
        return (first + c->day - 1 + (is_leap(year) && c->day >= 60)) * DAY + c->time;
    if (c->kind == BY_DAY)
        return (first + c->day) * DAY + c->time;
    first = day_number(year, c->month, 1);
    int64_t next = c->month == 12 ? day_number(year + 1, 1, 1) : day_number(year, c->month + 1, 1);
    int64_t day = first + (c->day - day_of(first).weekday + 7) % 7 + (c->week - 1) * 7;
    if (day >= next) /* the fifth is the last */
        day -= 7;
    return day * DAY + c->time;
}

/* Three years of changes around the instant; those of one instant, in the order in which they take
 * effect: an end and the next year's beginning may coincide, for a zone with summer all year. */
static int32_t rule_offset(const struct rule *r, int64_t at, int64_t *ret_until)
{
    int32_t offset = r->standard;
    int64_t last = INT64_MIN;
    *ret_until = INT64_MAX;
    if (!r->has_summer)
        return offset;
    int64_t year = day_of(floor_div(at, DAY)).year;
    for (int64_t y = year - 1; y <= year + 1; y++) {
        int64_t ends = change_in(&r->ends, y) - r->summer;
        int64_t begins = change_in(&r->begins, y) - r->standard;
        if (ends <= at && ends > last) {
            last = ends;
            offset = r->standard;
        }
        if (begins <= at && begins >= last) {
            last = begins;
            offset = r->summer;
        }
        if (ends > at && ends < *ret_until)
            *ret_until = ends;
        if (begins > at && begins < *ret_until)
            *ret_until = begins;
    }
    return offset;
}

/* --- reading the rule ------------------------------------------------------------------------- */

static bool is_at(const struct str *s, char c)
{
    return s->n > 0 && s->p[0] == c;
}

static void skip(struct str *s, size_t n)
{
    s->p += n;
    s->n -= n;
}

static bool tz_take(struct str *s, char c)
{
    if (!is_at(s, c))
        return false;
    skip(s, 1);
    return true;
}

static bool tz_take_number(struct str *s, int max, int *ret)
{
    int n = 0;
    size_t digits = 0;
    while (s->n > 0 && s->p[0] >= '0' && s->p[0] <= '9' && digits < 3) {
        n = n * 10 + (s->p[0] - '0');
        skip(s, 1);
        digits++;
    }
    *ret = n;
    return digits > 0 && n <= max;
}

/* Letters, or anything between < and >. */
static bool tz_take_name(struct str *s)
{
    size_t n = 0;
    if (tz_take(s, '<')) {
        while (n < s->n && s->p[n] != '>')
            n++;
        if (n == s->n)
            return false;
        skip(s, n + 1);
        return true;
    }
    while (n < s->n && ((s->p[n] | 32) >= 'a' && (s->p[n] | 32) <= 'z'))
        n++;
    skip(s, n);
    return n >= 3;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(struct str *s, int max_hours, int32_t *ret)
{
    bool negative = is_at(s, '-');
    if (!tz_take(s, '-'))
        (void)tz_take(s, '+');
    int hours, minutes = 0, seconds = 0;
    if (!tz_take_number(s, max_hours, &hours) ||
        (tz_take(s, ':') && !tz_take_number(s, 59, &minutes)) ||
        (tz_take(s, ':') && !tz_take_number(s, 59, &seconds)))
        return false;
    *ret = hours * 3600 + minutes * 60 + seconds;
    if (negative)
        *ret = -*ret;
    return true;
}

static bool take_change(struct str *s, struct change *ret)
{
    *ret = (struct change){.kind = BY_DAY, .time = 2 * 3600};
    if (!tz_take(s, ','))
        return false;
    if (tz_take(s, 'M')) {
        ret->kind = BY_WEEK;
        if (!tz_take_number(s, 12, &ret->month) || !tz_take(s, '.') ||
            !tz_take_number(s, 5, &ret->week) || !tz_take(s, '.') ||
            !tz_take_number(s, 6, &ret->day) || ret->month < 1 || ret->week < 1)
            return false;
    } else if (tz_take(s, 'J')) {
        ret->kind = BY_JULIAN;
        if (!tz_take_number(s, 365, &ret->day) || ret->day < 1)
            return false;
    } else if (!tz_take_number(s, 365, &ret->day)) {
        return false;
    }
    return !tz_take(s, '/') || take_time(s, 167, &ret->time);
}

/* Offsets stand there with the sign of POSIX: west of UTC is positive. */
static bool rule_read(struct str s, struct rule *ret)
{
    *ret = (struct rule){.given = true};
    if (!tz_take_name(&s) || !take_time(&s, 24, &ret->standard))
        return false;
    ret->standard = -ret->standard;
    if (s.n == 0)
        return true;
    ret->has_summer = true;
    ret->summer = ret->standard + 3600;
    if (!tz_take_name(&s))
        return false;
    if (s.n > 0 && !is_at(&s, ',')) {
        if (!take_time(&s, 24, &ret->summer))
            return false;
        ret->summer = -ret->summer;
    }
    return take_change(&s, &ret->begins) && take_change(&s, &ret->ends) && s.n == 0;
}

/* --- reading the file ------------------------------------------------------------------------- */

struct header { /* counts of the header, in its order */
    uint32_t n_ut, n_std, n_leap, n_change, n_type, n_char;
};

#define HEADER 44

static uint32_t big32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static int64_t big64(const char *p)
{
    return (int64_t)((uint64_t)big32(p) << 32 | big32(p + 4));
}

/* width: of an instant, 4 in the first half of a file, 8 in the second.  The size of what follows
 * the header; 0 for a header that is none. */
static size_t header_read(struct str s, size_t width, struct header *ret)
{
    if (s.n < HEADER || memcmp(s.p, "TZif", 4) != 0)
        return 0;
    uint32_t *to[] = {&ret->n_ut,     &ret->n_std,  &ret->n_leap,
                      &ret->n_change, &ret->n_type, &ret->n_char};
    for (size_t i = 0; i < countof(to); i++)
        *to[i] = big32(s.p + 20 + 4 * i);
    if (ret->n_change > MAX_CHANGES || ret->n_type == 0 || ret->n_type > MAX_TYPES ||
        ret->n_char > 4096 || ret->n_leap > 4096 || ret->n_ut > MAX_TYPES || ret->n_std > MAX_TYPES)
        return 0;
    return ret->n_change * (width + 1) + ret->n_type * 6 + ret->n_char + ret->n_leap * (width + 4) +
           ret->n_ut + ret->n_std;
}

static bool body_read(struct tz *z, const char *p, const struct header *h)
{
    const char *indexes = p + h->n_change * 8, *types = indexes + h->n_change;
    z->at = xcalloc((h->n_change + 1) * sizeof *z->at);
    z->offset = xcalloc((h->n_change + 1) * sizeof *z->offset);
    z->n = h->n_change;
    z->first = (int32_t)big32(types);
    for (size_t i = 0; i < z->n; i++) {
        unsigned type = (unsigned char)indexes[i];
        z->at[i] = big64(p + i * 8);
        if (type >= h->n_type || (i > 0 && z->at[i] <= z->at[i - 1]))
            return false;
        z->offset[i] = (int32_t)big32(types + type * 6);
        if (z->offset[i] < -26 * 3600 || z->offset[i] > 26 * 3600)
            return false;
    }
    return z->first >= -26 * 3600 && z->first <= 26 * 3600;
}

/* A newline, the rule, which may be empty, and a newline. */
static bool footer_read(struct tz *z, struct str s)
{
    const char *end = s.n > 1 && s.p[0] == '\n' ? memchr(s.p + 1, '\n', s.n - 1) : NULL;
    if (!end)
        return false;
    struct str text = {s.p + 1, (size_t)(end - s.p) - 1};
    return text.n == 0 || rule_read(text, &z->rule);
}

struct tz *tz_read(struct str bytes)
{
    struct header h;
    size_t n = header_read(bytes, 4, &h);
    if (n == 0 || bytes.p[4] < '2' || bytes.n - HEADER < n)
        return NULL; /* the first version, which nothing writes any more, ends in 2038 */
    struct str second = {bytes.p + HEADER + n, bytes.n - HEADER - n};
    n = header_read(second, 8, &h);
    if (n == 0 || second.n - HEADER < n)
        return NULL;
    struct tz *z = xcalloc(sizeof *z);
    struct str footer = {second.p + HEADER + n, second.n - HEADER - n};
    if (body_read(z, second.p + HEADER, &h) && footer_read(z, footer))
        return z;
    tz_free(z);
    return NULL;
}

struct tz *tz_utc(void)
{
    return xcalloc(sizeof(struct tz));
}

void tz_free(struct tz *z)
{
    if (!z)
        return;
    free(z->at);
    free(z->offset);
    free(z);
}

/* --- use -------------------------------------------------------------------------------------- */

int32_t tz_offset(const struct tz *z, int64_t at, int64_t *ret_until)
{
    size_t low = 0, high = z->n; /* the first change that comes later */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (z->at[mid] <= at)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < z->n || !z->rule.given) {
        *ret_until = low < z->n ? z->at[low] : INT64_MAX;
        return low > 0 ? z->offset[low - 1] : z->first;
    }
    return rule_offset(&z->rule, at, ret_until);
}

int64_t tz_instant(const struct tz *z, int64_t local)
{
    int64_t from = local - 2 * DAY, until; /* more than any offset */
    for (;;) {
        int64_t at = local - tz_offset(z, from, &until);
        if (at < until)
            return at > from ? at : from;
        from = until;
    }
}

bool tz_name_is_valid(struct str name)
{
    if (name.n == 0 || name.n > 64)
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool is_word = ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '+' || c == '-';
        bool is_slash = c == '/' && i > 0 && i + 1 < name.n && name.p[i - 1] != '/';
        if (!is_word && !is_slash)
            return false;
    }
    return true;
}
