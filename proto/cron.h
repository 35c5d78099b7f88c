/* cron -- times that come again: the five fields of crontab(5).
 *
 * Shape:    minute, hour, day of the month, month, weekday; each *, or a list of numbers and ranges
 *           with steps; months and weekdays by their English names too (jan, mon); 0 and 7 are
 *           Sunday.  A day must match both day fields, or either when neither begins with *.  Also
 *           @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually.
 * Units:    instants in seconds of Unix time; a result falls on a full minute of the local clock.
 * Thread:   any.
 * Errors:   false, with what is wrong in words.
 */
#ifndef PROTO_CRON_H
#define PROTO_CRON_H

#include "proto/tz.h"

struct cron {
    uint64_t minutes;
    uint32_t hours, days, months; /* bit n: n itself */
    uint8_t weekdays;
    bool any_day, any_weekday; /* the field begins with * */
};

bool cron_parse(struct str text, struct cron *ret, const char **ret_why);
/* The first time after an instant; -1: none within ten years, such as 30 February.  A time that
 * the clock skips comes when it jumps; one that it shows twice comes once, unless every hour is
 * meant. */
int64_t cron_next(const struct cron *c, const struct tz *z, int64_t after);

#endif
