#include "gateway/auth/jwt_key.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base64url.h"

#define MAX_KEY_FILE 65536 /* bytes */
#define MAX_RSA_BITS 16384

/* --- files ------------------------------------------------------------------------------------ */

/* A freed copy must not keep a secret. */
static void wipe(struct buf *b)
{
    if (b->bytes)
        OPENSSL_cleanse(b->bytes, b->cap);
    buf_done(b);
}

static const char *read_file(const char *path, struct buf *ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = -1;

    if (fd < 0)
        return strerror(errno);
    char *room = buf_reserve(ret, MAX_KEY_FILE + 1); /* allocated once: growing leaves copies */
    do {
        n = read(fd, room + ret->len, MAX_KEY_FILE + 1 - ret->len);
        if (n > 0)
            ret->len += (size_t)n;
    } while (n > 0 || (n < 0 && errno == EINTR));
    const char *wrong = n < 0 ? strerror(errno) : NULL;
    close(fd);
    if (ret->len > MAX_KEY_FILE)
        return "is too large for a key";
    return wrong;
}

static bool jwt_key_has(const struct buf *text, const char *what)
{
    return text->len > 0 && memmem(text->bytes, text->len, what, strlen(what)) != NULL;
}

static const char *open_secret(const char *path, struct jwt_key *ret)
{
    struct buf bytes = {0};
    const char *wrong = read_file(path, &bytes);

    if (!wrong && jwt_key_has(&bytes, "-----BEGIN "))
        wrong = "is a PEM file; HS256 needs a secret";
    if (!wrong && bytes.len > 0 && bytes.bytes[bytes.len - 1] == '\n')
        bytes.len--;
    if (!wrong && bytes.len < MIN_SECRET)
        wrong = "must have at least 32 bytes";
    if (!wrong)
        jwt_key_of_secret(NULL, bytes.bytes, bytes.len, ret);
    wipe(&bytes);
    return wrong;
}

/* --- JWK (RFC 7517, 7518, 8037) --------------------------------------------------------------- */

static bool is(const json_t *object, const char *member, const char *value)
{
    const char *text = json_string_value(json_object_get(object, member));

    return text && str_eq(str_of(text), str_of(value));
}

static bool read_member(const json_t *jwk, const char *member, struct buf *ret)
{
    const json_t *text = json_object_get(jwk, member);

    buf_clear(ret);
    return json_is_string(text) && json_string_length(text) > 0 &&
           base64url_read((struct str){json_string_value(text), json_string_length(text)}, ret);
}

static EVP_PKEY *build(const char *type, OSSL_PARAM_BLD *parts)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(parts);

    if (!context || !params || EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        key = NULL;
    OSSL_PARAM_free(params);
    EVP_PKEY_CTX_free(context);
    return key;
}

static BIGNUM *number_of(const struct buf *bytes)
{
    return BN_bin2bn((const unsigned char *)bytes->bytes, (int)bytes->len, NULL);
}

static EVP_PKEY *rsa_of_jwk(const json_t *jwk)
{
    struct buf n = {0}, e = {0};
    EVP_PKEY *key = NULL;

    if (is(jwk, "kty", "RSA") && read_member(jwk, "n", &n) && read_member(jwk, "e", &e)) {
        OSSL_PARAM_BLD *parts = OSSL_PARAM_BLD_new();
        BIGNUM *modulus = number_of(&n), *exponent = number_of(&e);
        if (parts && OSSL_PARAM_BLD_push_BN(parts, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
            OSSL_PARAM_BLD_push_BN(parts, OSSL_PKEY_PARAM_RSA_E, exponent) == 1)
            key = build("RSA", parts);
        OSSL_PARAM_BLD_free(parts);
        BN_free(modulus);
        BN_free(exponent);
    }
    buf_done(&n);
    buf_done(&e);
    return key;
}

static EVP_PKEY *p256_of_jwk(const json_t *jwk)
{
    struct buf x = {0}, y = {0}, point = {0};
    EVP_PKEY *key = NULL;

    if (is(jwk, "kty", "EC") && is(jwk, "crv", "P-256") && read_member(jwk, "x", &x) &&
        read_member(jwk, "y", &y) && x.len == 32 && y.len == 32) {
        OSSL_PARAM_BLD *parts = OSSL_PARAM_BLD_new();
        buf_putc(&point, 4); /* uncompressed */
        buf_putstr(&point, buf_str(&x));
        buf_putstr(&point, buf_str(&y));
        if (parts &&
            OSSL_PARAM_BLD_push_utf8_string(parts, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) ==
                1 &&
            OSSL_PARAM_BLD_push_octet_string(parts, OSSL_PKEY_PARAM_PUB_KEY, point.bytes,
                                             point.len) == 1)
            key = build("EC", parts);
        OSSL_PARAM_BLD_free(parts);
    }
    buf_done(&x);
    buf_done(&y);
    buf_done(&point);
    return key;
}

static EVP_PKEY *ed25519_of_jwk(const json_t *jwk)
{
    struct buf x = {0};
    EVP_PKEY *key = NULL;

    if (is(jwk, "kty", "OKP") && is(jwk, "crv", "Ed25519") && read_member(jwk, "x", &x) &&
        x.len == 32)
        key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, (unsigned char *)x.bytes, x.len);
    buf_done(&x);
    return key;
}

/* In a set: the key with our kid. */
static const json_t *choose(const json_t *root, const char *kid)
{
    const json_t *set = json_object_get(root, "keys");

    if (!json_is_array(set))
        return root;
    for (size_t i = 0; i < json_array_size(set); i++)
        if (is(json_array_get(set, i), "kid", kid))
            return json_array_get(set, i);
    return NULL;
}

/* NULL, or what is wrong; without a key: it is none of its algorithm. */
static const char *public_of_jwk(const json_t *jwk, struct jwt_key *ret)
{
    if (json_object_get(jwk, "d") || json_object_get(jwk, "k"))
        return "holds a private key; give the public one";
    if (json_object_get(jwk, "alg") && !is(jwk, "alg", key_alg_text(ret->alg)))
        return "is a key of another algorithm";
    if (ret->alg == ALG_RS256)
        ret->public_key = rsa_of_jwk(jwk);
    else if (ret->alg == ALG_ES256)
        ret->public_key = p256_of_jwk(jwk);
    else
        ret->public_key = ed25519_of_jwk(jwk);
    return NULL;
}

static const char *open_jwk(const struct buf *text, struct jwt_key *ret)
{
    json_t *root = json_loadb(text->bytes, text->len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *jwk = choose(root, ret->kid);
    const char *wrong = NULL;

    if (!root)
        wrong = "is neither PEM nor JSON";
    else if (!jwk)
        wrong = "has no key with this kid";
    else
        wrong = public_of_jwk(jwk, ret);
    json_decref(root);
    return wrong;
}

/* --- public keys ------------------------------------------------------------------------------ */

static const char *open_pem(const struct buf *text, struct jwt_key *ret)
{
    BIO *bio = BIO_new_mem_buf(text->bytes, (int)text->len);

    if (jwt_key_has(text, "PRIVATE KEY-----"))
        return BIO_free(bio), "holds a private key; give the public one";
    ret->public_key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    return NULL;
}

/* A key of another kind would verify what it must not: ES256 with P-384, for example. */
static const char *check_public_key(const struct jwt_key *key)
{
    char curve[32] = "";

    switch (key->alg) {
    case ALG_HS256: break;
    case ALG_RS256:
        if (!key->public_key || !EVP_PKEY_is_a(key->public_key, "RSA"))
            return "is not an RSA public key";
        if (EVP_PKEY_get_bits(key->public_key) < MIN_RSA_BITS)
            return "must have at least 2048 bits";
        return EVP_PKEY_get_bits(key->public_key) > MAX_RSA_BITS ? "has more than 16384 bits"
                                                                 : NULL;
    case ALG_ES256:
        if (!key->public_key || !EVP_PKEY_is_a(key->public_key, "EC") ||
            EVP_PKEY_get_group_name(key->public_key, curve, sizeof curve, NULL) != 1 ||
            !str_eq(str_of(curve), STR("prime256v1")))
            return "is not a public key on the curve P-256";
        return NULL;
    case ALG_EDDSA:
        if (!key->public_key || !EVP_PKEY_is_a(key->public_key, "ED25519"))
            return "is not an Ed25519 public key";
        return NULL;
    }
    UNREACHABLE();
}

static const char *open_public(const char *path, struct jwt_key *ret)
{
    struct buf text = {0};
    const char *wrong = read_file(path, &text);

    if (!wrong)
        wrong = jwt_key_has(&text, "-----BEGIN ") ? open_pem(&text, ret) : open_jwk(&text, ret);
    if (!wrong)
        wrong = check_public_key(ret);
    wipe(&text); /* it may have been the private key */
    ERR_clear_error();
    return wrong;
}

/* --- sets ------------------------------------------------------------------------------------- */

/* The algorithm by the kind of key; false for one that is not known. */
static bool alg_of_jwk(const json_t *jwk, enum key_alg *ret)
{
    if (is(jwk, "kty", "RSA"))
        *ret = ALG_RS256;
    else if (is(jwk, "kty", "EC"))
        *ret = ALG_ES256;
    else if (is(jwk, "kty", "OKP"))
        *ret = ALG_EDDSA;
    else
        return false;
    return true;
}

/* One for encryption verifies nothing (RFC 7517 section 4.2, 4.3). */
static bool verifies(const json_t *jwk)
{
    const json_t *use = json_object_get(jwk, "use"), *ops = json_object_get(jwk, "key_ops");
    bool may = !json_is_array(ops);
    for (size_t i = 0; json_is_array(ops) && i < json_array_size(ops); i++) {
        const char *op = json_string_value(json_array_get(ops, i));
        may = may || (op && strcmp(op, "verify") == 0);
    }
    return may && (!use || is(jwk, "use", "sig"));
}

static bool read_jwk(const json_t *jwk, struct jwt_key *ret)
{
    const char *kid = json_string_value(json_object_get(jwk, "kid"));
    *ret = (struct jwt_key){0};
    if (!verifies(jwk) || !alg_of_jwk(jwk, &ret->alg))
        return false;
    const char *wrong = public_of_jwk(jwk, ret);
    if (!wrong)
        wrong = check_public_key(ret);
    ret->kid = xstrdup(str_of(kid ? kid : ""));
    if (wrong)
        jwt_key_done(ret);
    return !wrong;
}

size_t jwt_keys_of_set(struct str text, struct jwt_key *ret, size_t max)
{
    json_t *root = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *set = json_object_get(root, "keys");
    size_t n = 0;
    for (size_t i = 0; json_is_array(set) && i < json_array_size(set) && n < max; i++)
        if (read_jwk(json_array_get(set, i), &ret[n]))
            n++;
    json_decref(root);
    ERR_clear_error();
    return n;
}

/* --- keys ------------------------------------------------------------------------------------- */

void jwt_key_of_secret(const char *kid, const void *secret, size_t n, struct jwt_key *ret)
{
    if (kid)
        ret->kid = xstrdup(str_of(kid));
    ret->alg = ALG_HS256;
    ret->secret = xalloc(n);
    ret->n_secret = n;
    memcpy(ret->secret, secret, n);
}

const char *jwt_key_open(const struct config_key *config, struct jwt_key *ret)
{
    *ret = (struct jwt_key){
        .kid = xstrdup(str_of(config->kid)),
        .alg = (enum key_alg)config->alg,
    };
    if (ret->alg == ALG_HS256)
        return open_secret(config->secret_file, ret);
    return open_public(config->public_key_file, ret);
}

void jwt_key_done(struct jwt_key *key)
{
    free(key->kid);
    EVP_PKEY_free(key->public_key);
    if (key->secret)
        OPENSSL_cleanse(key->secret, key->n_secret);
    free(key->secret);
    *key = (struct jwt_key){0};
}
