/* An issuer's set of keys: whatever it publishes, only keys that verify are taken, so many at
 * most. */
#include "gateway/auth/jwt_key.h"

#define MOST 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jwt_key keys[MOST] = {{0}};
    size_t n = jwt_keys_of_set((struct str){(const char *)data, size}, keys, MOST);
    ASSERT(n <= MOST);
    for (size_t i = 0; i < n; i++) {
        ASSERT(keys[i].public_key && keys[i].kid && !keys[i].secret);
        jwt_key_done(&keys[i]);
    }
    return 0;
}
