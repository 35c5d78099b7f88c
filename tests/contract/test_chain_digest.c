/* The continuity proof's digest is SHA-256 of both, whatever the line's length. */
#include <openssl/evp.h>

#include "gateway/base/chain_digest.h"
#include "proto/limits.h"
#include "tests/support/t.h"

#define MOST 3000 /* beyond two pieces, and every place that a line's end can have in a block */

static void expect_of(uint8_t hash[CHAIN_BYTES], struct str line)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned n = 0;
    assert_int_equal(EVP_DigestInit_ex(ctx, EVP_sha256(), NULL), 1);
    assert_int_equal(EVP_DigestUpdate(ctx, hash, CHAIN_BYTES), 1);
    assert_int_equal(EVP_DigestUpdate(ctx, line.p, line.n), 1);
    assert_int_equal(EVP_DigestFinal_ex(ctx, hash, &n), 1);
    EVP_MD_CTX_free(ctx);
}

static void test_chain_digest_is_sha_256_for_any_length(void **state)
{
    uint8_t hash[CHAIN_BYTES] = {0}, expected[CHAIN_BYTES] = {0};
    uint64_t seed = 1;
    char *bytes = xalloc(MAX_EVENT_LINE);
    (void)state;
    for (size_t i = 0; i < MAX_EVENT_LINE; i++)
        bytes[i] = (char)t_random(&seed);
    for (size_t n = 0; n <= MOST; n++) {
        chain_digest(hash, (struct str){bytes + n, n});
        expect_of(expected, (struct str){bytes + n, n});
        assert_memory_equal(hash, expected, CHAIN_BYTES);
    }
    chain_digest(hash, (struct str){bytes, MAX_EVENT_LINE});
    expect_of(expected, (struct str){bytes, MAX_EVENT_LINE});
    assert_memory_equal(hash, expected, CHAIN_BYTES);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain_digest_is_sha_256_for_any_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
