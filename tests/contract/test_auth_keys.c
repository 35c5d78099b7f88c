/* Key files: PEM, JWK, secrets, and those with which a gateway must not start.  Field case: F63.
 */
#include <openssl/core_names.h>

#include "tests/support/token_kit.h"

/* --- key files -------------------------------------------------------------------------------- */

static void put_jwk_number(struct buf *out, const char *name, EVP_PKEY *key, const char *param)
{
    BIGNUM *n = NULL;
    unsigned char bytes[512];

    assert_int_equal(EVP_PKEY_get_bn_param(key, param, &n), 1);
    int len = EVP_PKEY_is_a(key, "EC") ? BN_bn2binpad(n, bytes, 32) : BN_bn2bin(n, bytes);
    BN_free(n);
    buf_putf(out, json(",'%s':'"), name);
    base64url_put(out, bytes, (size_t)len);
    buf_putc(out, '"');
}

static void test_auth_jwk_files_are_keys_too(void **state)
{
    struct buf rs = {0}, es = {0}, okp = {0}, set = {0};
    unsigned char raw[32];
    size_t n = sizeof raw;
    struct config c = {0};
    (void)state;

    buf_puts(&rs, json("{'kty':'RSA','alg':'RS256','kid':'rs'"));
    put_jwk_number(&rs, "n", rsa, OSSL_PKEY_PARAM_RSA_N);
    put_jwk_number(&rs, "e", rsa, OSSL_PKEY_PARAM_RSA_E);
    buf_puts(&rs, "}");
    buf_puts(&es, json("{'kty':'EC','crv':'P-256','kid':'es'"));
    put_jwk_number(&es, "x", p256, OSSL_PKEY_PARAM_EC_PUB_X);
    put_jwk_number(&es, "y", p256, OSSL_PKEY_PARAM_EC_PUB_Y);
    buf_puts(&es, "}");
    assert_int_equal(EVP_PKEY_get_raw_public_key(ed, raw, &n), 1);
    buf_puts(&okp, json("{'kty':'OKP','crv':'Ed25519','kid':'ed','x':'"));
    base64url_put(&okp, raw, n);
    buf_puts(&okp, json("'}"));
    buf_putf(&set, json("{'keys':[%s,%s]}"), rs.bytes, es.bytes);
    kit_write(in_folder("rs.jwk"), rs.bytes, rs.len);
    kit_write(in_folder("ed.jwk"), okp.bytes, okp.len);
    kit_write(in_folder("set.jwks"), set.bytes, set.len);
    buf_done(&rs);
    buf_done(&es);
    buf_done(&okp);
    buf_done(&set);
    add_key(&c, "a", ALG_RS256, "rs.jwk");
    add_key(&c, "es", ALG_ES256, "set.jwks");
    add_key(&c, "ed", ALG_EDDSA, "ed.jwk");
    struct auth *auth = open_auth(&c);
    assert_verdict(auth, "RS256", kit_sign(json("{'alg':'RS256'}"), CLAIMS, rsa), NULL);
    assert_verdict(auth, "ES256", kit_sign(json("{'alg':'ES256'}"), CLAIMS, p256), NULL);
    assert_verdict(auth, "EdDSA", kit_sign(json("{'alg':'EdDSA'}"), CLAIMS, ed), NULL);
    assert_verdict(auth, "other", kit_sign(json("{'alg':'RS256'}"), CLAIMS, other_rsa),
                   "bad signature");
    auth_close(auth);
}

static void test_auth_bad_key_files_are_faults(void **state)
{
    const struct {
        enum key_alg alg;
        const char *file, *content; /* NULL: it is there already, or missing */
        const char *fault;
    } rows[] = {
        {ALG_HS256, "missing", NULL, "No such file"},
        {ALG_HS256, "empty", "", "at least 32 bytes"},
        {ALG_HS256, "newline", "\n", "at least 32 bytes"},
        {ALG_HS256, "short", "0123456789012345678901234567890\n", "at least 32 bytes"},
        {ALG_HS256, "rsa.pem", NULL, "is a PEM file"},
        {ALG_HS256, ".", NULL, "directory"},
        {ALG_RS256, "missing", NULL, "No such file"},
        {ALG_RS256, "empty", "", "neither PEM nor JSON"},
        {ALG_RS256, "small.pem", NULL, "at least 2048 bits"},
        {ALG_RS256, "p256.pem", NULL, "not an RSA public key"},
        {ALG_RS256, "private.pem", NULL, "holds a private key"},
        {ALG_RS256, "cut.pem", "-----BEGIN PUBLIC KEY-----\nMIIB", "not an RSA public key"},
        {ALG_RS256, "oct.jwk", json("{'kty':'oct','k':'AAAA'}"), "holds a private key"},
        {ALG_RS256, "d.jwk", json("{'kty':'RSA','n':'AQ','e':'AQAB','d':'AQ'}"),
         "holds a private key"},
        {ALG_RS256, "n.jwk", json("{'kty':'RSA','n':'AQ','e':'AQAB'}"), "2048 bits"},
        {ALG_RS256, "alg.jwk", json("{'kty':'RSA','alg':'PS256'}"), "another algorithm"},
        {ALG_RS256, "none.jwks", json("{'keys':[{'kid':'other'}]}"), "no key with this kid"},
        {ALG_RS256, "array.jwk", "[1]", "not an RSA public key"},
        {ALG_ES256, "p384.pem", NULL, "P-256"},
        {ALG_ES256, "rsa.pem", NULL, "P-256"},
        {ALG_ES256, "off.jwk",
         json("{'kty':'EC','crv':'P-256','x':'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE',"
              "'y':'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE'}"),
         "P-256"},
        {ALG_EDDSA, "rsa.pem", NULL, "Ed25519"},
        {ALG_EDDSA, "x.jwk", json("{'kty':'OKP','crv':'Ed25519','x':'AAAA'}"), "Ed25519"},
    };
    (void)state;

    for (size_t i = 0; i < countof(rows); i++) {
        struct config c = {0};
        struct buf faults = {0};
        if (rows[i].content)
            kit_write_text(in_folder(rows[i].file), rows[i].content);
        add_key(&c, "k", rows[i].alg, rows[i].file);
        struct auth *auth = auth_open(&c, folder, &faults);
        bool said = faults.len > 0 && strstr(faults.bytes, rows[i].fault) &&
                    strncmp(faults.bytes, "auth.keys[0].", 13) == 0;
        if (auth || !said)
            print_error("%s: %s\n", rows[i].file, faults.len ? faults.bytes : "taken");
        buf_done(&faults);
        auth_close(auth);
        config_done(&c);
        assert_true(!auth && said);
    }
}

static void test_auth_all_bad_keys_are_told(void **state)
{
    struct config c = {0};
    struct buf faults = {0};
    (void)state;

    add_key(&c, "a", ALG_HS256, "missing");
    add_key(&c, "b", ALG_RS256, "missing");
    struct auth *auth = auth_open(&c, folder, &faults);
    bool said = strstr(faults.bytes, "auth.keys[0].secret_file: ") &&
                strstr(faults.bytes, "\nauth.keys[1].public_key_file: ");
    buf_done(&faults);
    config_done(&c);
    assert_true(!auth && said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auth_jwk_files_are_keys_too),
        cmocka_unit_test(test_auth_bad_key_files_are_faults),
        cmocka_unit_test(test_auth_all_bad_keys_are_told),
    };
    return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
