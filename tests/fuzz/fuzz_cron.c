/* The five fields of crontab(5): what is taken is due at a full minute, later each time. */
#include "proto/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cron cron;
    const char *why = NULL;
    if (!cron_parse((struct str){(const char *)data, size}, &cron, &why)) {
        ASSERT(why && why[0]);
        return 0;
    }
    struct tz *utc = tz_utc();
    int64_t at = 1764280000;
    for (int i = 0; i < 8; i++) {
        int64_t next = cron_next(&cron, utc, at);
        if (next < 0) /* 30 February */
            break;
        ASSERT(next > at && next % 60 == 0);
        struct day day = day_of(next / 86400);
        ASSERT(cron.minutes >> (next / 60 % 60) & 1);
        ASSERT(cron.hours >> (next / 3600 % 24) & 1);
        ASSERT(cron.months >> day.month & 1);
        ASSERT((cron.days >> day.day & 1) || (cron.weekdays >> day.weekday & 1));
        at = next;
    }
    tz_free(utc);
    return 0;
}
