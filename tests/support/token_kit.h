/* token_kit -- key pairs in files, and tokens of every kind, valid and invalid, made by hand.
 *
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_TOKEN_KIT_H
#define TESTS_SUPPORT_TOKEN_KIT_H

#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include "gateway/auth/auth.h"
#include "gateway/auth/jwt_key.h"
#include "gateway/config/config.h"
#include "proto/base64url.h"
#include "tests/support/t.h"

#define SECRET "a secret of more than thirty-two bytes, for the tests"
#define NOW_MS 1800000000000
#define CLAIMS "{\"sub\":\"alice\",\"exp\":1800000060}"
#define HS "{\"alg\":\"HS256\",\"kid\":\"hs\"}"

static inline void kit_write(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static inline void kit_write_text(const char *path, const char *text)
{
    kit_write(path, text, strlen(text));
}

/* Writes the public half. */
static inline void kit_write_public(const char *path, EVP_PKEY *key)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(PEM_write_PUBKEY(file, key), 1);
    assert_int_equal(fclose(file), 0);
}

static inline void kit_write_private(const char *path, EVP_PKEY *key)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* "header.claims", the part that is signed. */
static inline struct buf kit_signed_part(const char *header, const char *claims)
{
    struct buf out = {0};

    base64url_put(&out, header, strlen(header));
    buf_putc(&out, '.');
    base64url_put(&out, claims, strlen(claims));
    return out;
}

static inline void kit_append(struct buf *token, const void *signature, size_t n)
{
    buf_putc(token, '.');
    base64url_put(token, signature, n);
}

static inline struct buf kit_hmac(const char *header, const char *claims, const void *secret,
                                  size_t n_secret, const EVP_MD *digest)
{
    struct buf token = kit_signed_part(header, claims);
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    HMAC(digest, secret, (int)n_secret, (unsigned char *)token.bytes, token.len, mac, &n);
    kit_append(&token, mac, n);
    return token;
}

static inline struct buf kit_hs256(const char *header, const char *claims, const char *secret)
{
    return kit_hmac(header, claims, secret, strlen(secret), EVP_sha256());
}

/* r and s of a DER signature, each in that many bytes. */
static inline size_t kit_flatten(unsigned char *signature, size_t n, int half)
{
    const unsigned char *p = signature;
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &p, (long)n);

    assert_non_null(pair);
    BN_bn2binpad(ECDSA_SIG_get0_r(pair), signature, half);
    BN_bn2binpad(ECDSA_SIG_get0_s(pair), signature + half, half);
    ECDSA_SIG_free(pair);
    return (size_t)half * 2;
}

/* Signed in the key's way: RS256, ES256 (or what a P-384 key makes of it), EdDSA. */
static inline struct buf kit_sign(const char *header, const char *claims, EVP_PKEY *key)
{
    struct buf token = kit_signed_part(header, claims);
    unsigned char signature[1024];
    size_t n = sizeof signature;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const EVP_MD *digest = EVP_PKEY_is_a(key, "ED25519") ? NULL : EVP_sha256();

    assert_int_equal(EVP_DigestSignInit(context, NULL, digest, NULL, key), 1);
    assert_int_equal(
        EVP_DigestSign(context, signature, &n, (unsigned char *)token.bytes, token.len), 1);
    EVP_MD_CTX_free(context);
    if (EVP_PKEY_is_a(key, "EC"))
        n = kit_flatten(signature, n, (EVP_PKEY_get_bits(key) + 7) / 8);
    kit_append(&token, signature, n);
    return token;
}

/* --- keys, made once -------------------------------------------------------------------------- */

static char folder[] = "/tmp/holdfast-auth-XXXXXX";
static EVP_PKEY *rsa, *other_rsa, *small_rsa, *p256, *p384, *ed;

static inline const char *in_folder(const char *name)
{
    static char paths[8][96];
    static size_t at;
    char *path = paths[at++ % countof(paths)];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline char *text(const char *of)
{
    return xstrdup(str_of(of));
}

static inline int make_keys(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    rsa = EVP_RSA_gen(2048);
    other_rsa = EVP_RSA_gen(2048);
    small_rsa = EVP_RSA_gen(1024);
    p256 = EVP_EC_gen("P-256");
    p384 = EVP_EC_gen("P-384");
    ed = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    kit_write_public(in_folder("rsa.pem"), rsa);
    kit_write_public(in_folder("small.pem"), small_rsa);
    kit_write_public(in_folder("p256.pem"), p256);
    kit_write_public(in_folder("p384.pem"), p384);
    kit_write_public(in_folder("ed.pem"), ed);
    kit_write_private(in_folder("private.pem"), rsa);
    kit_write_text(in_folder("secret"), SECRET "\n");
    return 0;
}

static inline int drop_keys(void **state)
{
    char command[64];
    (void)state;

    EVP_PKEY *keys[] = {rsa, other_rsa, small_rsa, p256, p384, ed};
    for (size_t i = 0; i < countof(keys); i++)
        EVP_PKEY_free(keys[i]);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* --- a gateway's auth ------------------------------------------------------------------------- */

static inline void add_key(struct config *c, const char *kid, enum key_alg alg, const char *file)
{
    size_t n = ++c->auth.n_keys;
    char *path = text(in_folder(file));

    c->auth.keys = xrealloc(c->auth.keys, n * sizeof *c->auth.keys);
    c->auth.keys[n - 1] = (struct config_key){
        .kid = text(kid),
        .alg = alg,
        .secret_file = alg == ALG_HS256 ? path : NULL,
        .public_key_file = alg == ALG_HS256 ? NULL : path,
    };
}

static inline struct auth *open_auth(struct config *c)
{
    struct buf faults = {0};
    struct auth *auth = auth_open(c, folder, &faults);

    if (!auth)
        print_error("%s", faults.bytes);
    buf_done(&faults);
    config_done(c);
    assert_non_null(auth);
    return auth;
}

static inline struct auth *open_guests(void)
{
    struct config c = {.serves_guests = true};

    return open_auth(&c);
}

/* One key of each algorithm, with any options of the test. */
static inline struct auth *open_keys(struct config c)
{
    add_key(&c, "hs", ALG_HS256, "secret");
    add_key(&c, "rs", ALG_RS256, "rsa.pem");
    add_key(&c, "es", ALG_ES256, "p256.pem");
    add_key(&c, "ed", ALG_EDDSA, "ed.pem");
    return open_auth(&c);
}

static inline bool check(const struct auth *auth, struct str token, struct identity *ret)
{
    return auth_check(auth, token, STR_NULL, STR_NULL, NOW_MS, ret);
}

/* Checks a token, which is freed, on each way in: the verdict must be the same. */
static inline void assert_verdict(const struct auth *auth, const char *name, struct buf token,
                                  const char *error)
{
    struct identity by[3];
    struct str text = buf_str(&token);
    bool good[3] = {
        auth_check(auth, text, STR_NULL, STR_NULL, NOW_MS, &by[0]),
        auth_check(auth, STR_NULL, text, STR_NULL, NOW_MS, &by[1]),
        auth_check(auth, STR_NULL, STR_NULL, text, NOW_MS, &by[2]),
    };

    buf_done(&token);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(by[i].token.len, 0);
        if (good[i] != !error || (error && !strstr(by[i].error, error)))
            fail_msg("%s: \"%s\", not \"%s\"", name, good[i] ? by[i].owner : by[i].error,
                     error ? error : "alice");
        if (!error)
            assert_string_equal(by[i].owner, "alice");
        else
            assert_int_equal(by[i].owner_len, 0);
    }
}

#endif
