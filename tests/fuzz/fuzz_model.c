/* Any bytes as the reply of a model's server, by each of the three APIs, whole and in pieces: the
 * same events come out, and one end. */
#include "tests/support/model_tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str bytes = {(const char *)data + 2, size - 2};
    struct buf whole = {0};
    if (size < 2)
        return 0;
    enum tape_api api = (enum tape_api)(data[0] % 3);
    buf_putstr(&whole, tape_play(api, 200, bytes, bytes.n + 1));
    struct str pieces = tape_play(api, 200, bytes, data[1] + 1u);
    ASSERT(str_eq(pieces, buf_str(&whole)));
    buf_done(&whole);
    tape_close();
    return 0;
}
