#include "proto/cron.h"

#define DAY 86400
#define ALL_HOURS 0xffffffu
#define YEARS 10

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                          "jul", "aug", "sep", "oct", "nov", "dec"};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

struct field {
    int min, max;
    const char *const *names; /* of min and those after it */
    int n_names;
    const char *wrong;
};

enum { MINUTE, HOUR, DAY_OF_MONTH, MONTH, WEEKDAY, N_FIELDS };

static const struct field fields[N_FIELDS] = {
    [MINUTE] = {0, 59, NULL, 0, "its minute is not *, or numbers from 0 to 59"},
    [HOUR] = {0, 23, NULL, 0, "its hour is not *, or numbers from 0 to 23"},
    [DAY_OF_MONTH] = {1, 31, NULL, 0, "its day of the month is not *, or numbers from 1 to 31"},
    [MONTH] = {1, 12, month_names, 12, "its month is not *, numbers from 1 to 12, or jan to dec"},
    [WEEKDAY] = {0, 7, weekday_names, 7,
                 "its weekday is not *, numbers from 0 to 7, or sun to sat"},
};

static const char *const shorthands[][2] = {
    {"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
    {"@weekly", "0 0 * * 0"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
};

/* --- reading ---------------------------------------------------------------------------------- */

static bool cron_take(struct str *s, char c)
{
    if (s->n == 0 || s->p[0] != c)
        return false;
    s->p++;
    s->n--;
    return true;
}

static bool cron_take_name(struct str *s, const struct field *f, int *ret)
{
    for (int i = 0; i < f->n_names && s->n >= 3; i++) {
        const char *name = f->names[i];
        if ((s->p[0] | 32) != name[0] || (s->p[1] | 32) != name[1] || (s->p[2] | 32) != name[2])
            continue;
        *ret = f->min + i;
        s->p += 3;
        s->n -= 3;
        return true;
    }
    return false;
}

static bool cron_take_number(struct str *s, int *ret)
{
    int n = 0;
    size_t digits = 0;
    for (; s->n > 0 && s->p[0] >= '0' && s->p[0] <= '9' && digits < 4; digits++) {
        n = n * 10 + (s->p[0] - '0');
        s->p++;
        s->n--;
    }
    *ret = n;
    return digits > 0;
}

static bool take_value(struct str *s, const struct field *f, int *ret)
{
    return (cron_take_name(s, f, ret) || cron_take_number(s, ret)) && *ret >= f->min &&
           *ret <= f->max;
}

/* *, a, a-b, each with /step where it is more than one. */
static bool take_range(struct str *s, const struct field *f, uint64_t *bits)
{
    int from = f->min, to = f->max, step = 1;
    bool is_one = false;
    if (!cron_take(s, '*')) {
        if (!take_value(s, f, &from))
            return false;
        is_one = !cron_take(s, '-');
        to = from;
        if (!is_one && !take_value(s, f, &to))
            return false;
    }
    if (cron_take(s, '/') && (is_one || !cron_take_number(s, &step)))
        return false;
    if (to < from || step < 1)
        return false;
    for (int i = from; i <= to; i += step)
        *bits |= UINT64_C(1) << i;
    return true;
}

static bool field_read(struct str *s, const struct field *f, uint64_t *ret)
{
    *ret = 0;
    do {
        if (!take_range(s, f, ret))
            return false;
    } while (cron_take(s, ','));
    return s->n == 0 || s->p[0] == ' ' || s->p[0] == '\t';
}

static void skip_blanks(struct str *s)
{
    while (cron_take(s, ' ') || cron_take(s, '\t'))
        ;
}

bool cron_parse(struct str text, struct cron *ret, const char **ret_why)
{
    uint64_t bits[N_FIELDS];
    bool any[N_FIELDS];
    for (size_t i = 0; i < countof(shorthands); i++)
        if (str_eq(text, str_of(shorthands[i][0])))
            text = str_of(shorthands[i][1]);
    skip_blanks(&text);
    for (int i = 0; i < N_FIELDS; i++) {
        any[i] = text.n > 0 && text.p[0] == '*';
        *ret_why = fields[i].wrong;
        if (!field_read(&text, &fields[i], &bits[i]))
            return false;
        skip_blanks(&text);
    }
    *ret_why = "it has more than five fields";
    *ret = (struct cron){.minutes = bits[MINUTE],
                         .hours = (uint32_t)bits[HOUR],
                         .days = (uint32_t)bits[DAY_OF_MONTH],
                         .months = (uint32_t)bits[MONTH],
                         .weekdays = (uint8_t)((bits[WEEKDAY] | bits[WEEKDAY] >> 7) & 0x7f),
                         .any_day = any[DAY_OF_MONTH],
                         .any_weekday = any[WEEKDAY]};
    return text.n == 0;
}

/* --- the next time ---------------------------------------------------------------------------- */

static bool is_day(const struct cron *c, int64_t number)
{
    struct day d = day_of(number);
    bool by_day = c->days >> d.day & 1, by_weekday = c->weekdays >> d.weekday & 1;
    if (!(c->months >> d.month & 1))
        return false;
    return c->any_day || c->any_weekday ? by_day && by_weekday : by_day || by_weekday;
}

static int64_t day_at(const struct tz *z, int64_t at)
{
    int64_t until, local = at + tz_offset(z, at, &until);
    return local / DAY - (local % DAY < 0);
}

/* Every hour is meant: minute by minute of real time, so that an hour that comes twice counts
 * twice. */
static int64_t next_of_all(const struct cron *c, const struct tz *z, int64_t after)
{
    int64_t at = (after / 60 + (after % 60 >= 0)) * 60, until;
    int64_t last = day_at(z, after) + YEARS * 366;
    for (;;) {
        int64_t day = day_at(z, at);
        if (day > last)
            return -1;
        if (!is_day(c, day)) {
            int64_t next = tz_instant(z, (day + 1) * DAY);
            at = next > at ? next : at + 60;
            continue;
        }
        int64_t minute = (at + tz_offset(z, at, &until)) / 60 % 60;
        if (c->minutes >> minute & 1)
            return at;
        at += 60;
    }
}

static int64_t next_in_day(const struct cron *c, const struct tz *z, int64_t day, int64_t after)
{
    for (int hour = 0; hour < 24; hour++) {
        for (int minute = 0; minute < 60 && c->hours >> hour & 1; minute++) {
            int64_t local = day * DAY + hour * 3600 + minute * 60;
            if (!(c->minutes >> minute & 1) || local + DAY <= after) /* no offset is a day */
                continue;
            int64_t at = tz_instant(z, local);
            if (at > after)
                return at;
        }
    }
    return -1;
}

int64_t cron_next(const struct cron *c, const struct tz *z, int64_t after)
{
    if (c->hours == ALL_HOURS)
        return next_of_all(c, z, after);
    int64_t first = day_at(z, after) - 1; /* a jump over midnight takes times of the day before */
    for (int64_t day = first; day <= first + YEARS * 366; day++) {
        int64_t at = is_day(c, day) ? next_in_day(c, z, day, after) : -1;
        if (at >= 0)
            return at;
    }
    return -1;
}
