/* Any bytes as the page of an earlier gateway: it is refused, or it works, and stays sound. */
#include "gateway/processes/hold_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static union {
        struct hold_page page;
        char bytes[HOLD_PAGE_BYTES];
    } at;
    uint64_t places[2] = {0, 0};
    size_t n = size < sizeof places ? size : sizeof places;
    memcpy(places, data, n);
    memset(&at, 0, sizeof at);
    hold_page_init(&at.page, "digest");
    size_t left = size - n, from = offsetof(struct hold_page, out_base);
    if (left % 2) /* otherwise the head stays good */
        from = 0;
    memcpy(at.bytes + from, data + n, left < sizeof at - from ? left : sizeof at - from);
    if (!hold_page_is_sound(&at.page, places[0], places[1]))
        return 0;
    struct hold_line newest = hold_page_newest(&at.page);
    ASSERT(newest.end <= places[0] && places[1] <= newest.end);
    ASSERT(hold_page_has_told(&at.page, newest.number, newest.end) == (at.page.n_lines > 0));
    ASSERT(!hold_page_has_told(&at.page, newest.number + 1, UINT64_MAX) ||
           newest.number == UINT64_MAX);
    (void)hold_page_has_told(&at.page, newest.number / 2, places[1]);
    if (!hold_page_has_room(&at.page, places[1]) || newest.number == UINT64_MAX)
        return 0;
    hold_page_put(&at.page, &(struct hold_line){newest.number + 1, places[0], newest.said});
    ASSERT(hold_page_is_sound(&at.page, places[0], places[1]));
    ASSERT(hold_page_newest(&at.page).number == newest.number + 1);
    return 0;
}
