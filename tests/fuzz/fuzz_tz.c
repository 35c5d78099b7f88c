/* A file of the time zone database, whatever is in it: each instant has an offset for a while. */
#include "proto/tz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t instants[] = {INT32_MIN, -1, 0, 1764280000, INT32_MAX, 64060588800};
    struct str bytes = {(const char *)data, size};
    struct tz *zone = tz_read(bytes);
    (void)tz_name_is_valid(bytes);
    if (!zone)
        return 0;
    for (size_t i = 0; i < countof(instants); i++) {
        int64_t at = instants[i], until = 0;
        for (int n = 0; n < 4 && at < INT64_MAX; n++) {
            int32_t offset = tz_offset(zone, at, &until);
            ASSERT(until > at);
            ASSERT(offset > -7 * 86400 && offset < 7 * 86400);
            at = until;
        }
        (void)tz_instant(zone, instants[i]);
    }
    tz_free(zone);
    return 0;
}
