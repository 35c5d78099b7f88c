/* tz -- a time zone: from a file of the system's database, RFC 9636 (TZif), never from the
 * process's own TZ.
 *
 * Shape:    tz_read copies what it needs of the file's bytes: the instants at which the clock
 *           changes, and the rule for all later years (the footer, POSIX.1-2017 8.3 "TZ", with the
 *           extensions of RFC 9636 3.3.1).  A local time is written as the seconds that it would be
 *           in UTC.
 * Units:    seconds; instants since 1970 (Unix time), offsets east of UTC.
 * Thread:   any; a zone does not change.
 * Owns:     tz_free frees.
 * Errors:   NULL for bytes that are no such file.
 */
#ifndef PROTO_TZ_H
#define PROTO_TZ_H

#include "proto/base.h"

struct tz;

struct tz *tz_read(struct str bytes);
struct tz *tz_utc(void);
void tz_free(struct tz *z);

/* The offset at an instant; ret_until: when it may be another one, INT64_MAX for never. */
int32_t tz_offset(const struct tz *z, int64_t at, int64_t *ret_until);
/* The first instant at which the clock shows that local time or a later one: a time that comes
 * twice is taken the first time, and one that is skipped when the clock jumps over it. */
int64_t tz_instant(const struct tz *z, int64_t local);

/* A day of the proleptic Gregorian calendar, counted from 1970-01-01. */
struct day {
    int64_t year;
    int month, day, weekday; /* 1 … 12, 1 … 31, 0 (Sunday) … 6 */
};
int64_t day_number(int64_t year, int month, int day);
struct day day_of(int64_t number);

/* A name as the database has them, such as Europe/Berlin: safe to be put behind a folder. */
bool tz_name_is_valid(struct str name);

#endif
