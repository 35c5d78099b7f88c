/* The whole domain, played by the fuzzer: its bytes choose what clients, agents and the store do
 * next, and the witness of hub_world.h checks the promises after every step. */
#include "tests/support/hub_world.h"

#define MAX_BYTES 8192 /* of one life: a longer one finds no more, and is slow */

static const uint8_t *bytes;
static size_t n_bytes;
static uint64_t behind; /* the numbers when the bytes are used up */

static size_t choose(size_t n)
{
    if (n_bytes == 0)
        return t_below(&behind, n);
    n_bytes--;
    return *bytes++ % n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes = data;
    n_bytes = size < MAX_BYTES ? size : MAX_BYTES;
    behind = size;
    world_choose = choose;
    live_once(n_bytes / 2 + 16);
    return 0;
}
