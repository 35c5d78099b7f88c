/* Any bytes, as what a store kept: no, or lines that come back from a pack of their own.  And as
 * lines, behind one that gives the pack its head: they come back byte for byte. */
#include "proto/line_pack.h"

#include <stdlib.h>

#include "proto/event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_lines(struct str lines)
{
    struct buf packed = {0}, again = {0};
    line_pack(&packed, lines);
    ASSERT(packed.len <= lines.n);
    ASSERT(line_unpack_to(&again, buf_str(&packed)));
    ASSERT(str_eq(buf_str(&again), lines));
    buf_done(&packed);
    buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str bytes = {(const char *)data, size};
    struct buf lines = {0};
    size_t n;
    if (line_pack_size(bytes, &n)) {
        char *exact = malloc(n ? n : 1); /* so that a byte beyond it is seen */
        ASSERT(exact);
        struct str unpacked = {exact, n};
        if (line_unpack(bytes, exact, n) && !line_pack_is(unpacked))
            check_lines(unpacked);
        free(exact);
    }
    event_line(&lines, "01ARZ3NDEKTSV4RRFFQ69G5FAV", 1, 1764500000000, EVENT_TOKEN,
               STR("{\"text\":\"a\"}"));
    buf_putstr(&lines, bytes);
    check_lines(buf_str(&lines));
    buf_done(&lines);
    return 0;
}
