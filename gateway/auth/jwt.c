#include "gateway/auth/jwt.h"

#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "proto/base64url.h"

#define HS256_BYTES 32
#define ES256_HALF 32 /* bytes of r, and of s */

/* --- reading ---------------------------------------------------------------------------------- */

/* Takes the part before the next dot off the front. */
static bool take_part(struct str *rest, struct str *ret)
{
    const char *dot = memchr(rest->p, '.', rest->n);

    if (!dot)
        return false;
    *ret = (struct str){rest->p, (size_t)(dot - rest->p)};
    *rest = (struct str){dot + 1, rest->n - ret->n - 1};
    return true;
}

/* A base64url text of a JSON object. */
static bool jwt_read_object(struct str part, struct buf *text, struct js_doc *doc)
{
    return base64url_read(part, text) && text->len > 0 &&
           js_parse(doc, text->bytes, text->len, JS_ANY_NUMBER) && js_type(doc, 0) == JS_OBJECT;
}

static bool read_signature(struct str part, struct jwt *ret)
{
    struct buf bytes = {0};
    bool good = base64url_read(part, &bytes) && bytes.len > 0 && bytes.len <= MAX_JWT_SIGNATURE;

    if (good) {
        memcpy(ret->signature, bytes.bytes, bytes.len);
        ret->n_signature = bytes.len;
    }
    buf_done(&bytes);
    return good;
}

static const char *check_header(const struct js_doc *header)
{
    uint32_t alg = js_get(header, 0, "alg"), kid = js_get(header, 0, "kid");

    if (js_get(header, 0, "crit"))
        return "critical extension";
    if (!alg || js_type(header, alg) != JS_STRING)
        return "no algorithm";
    return kid && js_type(header, kid) != JS_STRING ? "malformed token" : NULL;
}

const char *jwt_read(struct str token, struct jwt *ret)
{
    struct str header, claims, rest = token;

    memset(ret, 0, sizeof *ret);
    if (token.n > MAX_TOKEN)
        return "token is too long";
    if (token.n == 0 || !take_part(&rest, &header) || !take_part(&rest, &claims) ||
        memchr(rest.p, '.', rest.n))
        return "not a token of three parts";
    ret->signed_part = (struct str){token.p, header.n + 1 + claims.n};
    if (!jwt_read_object(header, &ret->header_text, &ret->header) ||
        !jwt_read_object(claims, &ret->claims_text, &ret->claims))
        return "malformed token";
    const char *wrong = check_header(&ret->header);
    if (wrong)
        return wrong;
    return read_signature(rest, ret) ? NULL : "malformed signature";
}

void jwt_done(struct jwt *jwt)
{
    js_done(&jwt->header);
    js_done(&jwt->claims);
    buf_done(&jwt->header_text);
    buf_done(&jwt->claims_text);
}

bool jwt_has_alg(const struct jwt *jwt, enum key_alg alg)
{
    return js_is(&jwt->header, js_get(&jwt->header, 0, "alg"), key_alg_text(alg));
}

bool jwt_may_be_of(const struct jwt *jwt, const char *kid)
{
    uint32_t node = js_get(&jwt->header, 0, "kid");

    return !node || js_is(&jwt->header, node, kid);
}

/* --- verifying -------------------------------------------------------------------------------- */

static void hs256(const struct jwt_key *key, struct str text, unsigned char ret[HS256_BYTES])
{
    unsigned n = 0;

    ASSERT(key->alg == ALG_HS256 && key->n_secret >= MIN_SECRET);
    const unsigned char *made = HMAC(EVP_sha256(), key->secret, (int)key->n_secret,
                                     (const unsigned char *)text.p, text.n, ret, &n);
    ASSERT(made && n == HS256_BYTES);
}

static bool is_hs256(const struct jwt *jwt, const struct jwt_key *key)
{
    unsigned char expected[HS256_BYTES];

    hs256(key, jwt->signed_part, expected);
    return jwt->n_signature == HS256_BYTES &&
           CRYPTO_memcmp(jwt->signature, expected, HS256_BYTES) == 0;
}

static bool is_by_public_key(const struct jwt *jwt, const struct jwt_key *key,
                             const unsigned char *signature, size_t n)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const EVP_MD *digest = key->alg == ALG_EDDSA ? NULL : EVP_sha256();
    bool good = context &&
                EVP_DigestVerifyInit(context, NULL, digest, NULL, key->public_key) == 1 &&
                EVP_DigestVerify(context, signature, n, (const unsigned char *)jwt->signed_part.p,
                                 jwt->signed_part.n) == 1;

    EVP_MD_CTX_free(context);
    return good;
}

/* A token has r and s side by side; OpenSSL wants them in DER. */
static bool is_es256(const struct jwt *jwt, const struct jwt_key *key)
{
    unsigned char *der = NULL;
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(jwt->signature, ES256_HALF, NULL);
    BIGNUM *s = BN_bin2bn(jwt->signature + ES256_HALF, ES256_HALF, NULL);

    if (jwt->n_signature != 2 * ES256_HALF || !pair || ECDSA_SIG_set0(pair, r, s) != 1) {
        BN_free(r);
        BN_free(s);
        ECDSA_SIG_free(pair);
        return false;
    }
    int n = i2d_ECDSA_SIG(pair, &der);
    bool good = n > 0 && is_by_public_key(jwt, key, der, (size_t)n);
    ECDSA_SIG_free(pair);
    OPENSSL_free(der);
    return good;
}

static bool verify(const struct jwt *jwt, const struct jwt_key *key)
{
    switch (key->alg) {
    case ALG_HS256: return is_hs256(jwt, key);
    case ALG_ES256: return is_es256(jwt, key);
    case ALG_RS256:
    case ALG_EDDSA: return is_by_public_key(jwt, key, jwt->signature, jwt->n_signature);
    }
    UNREACHABLE();
}

bool jwt_is_signed_by(const struct jwt *jwt, const struct jwt_key *key)
{
    if (!jwt_has_alg(jwt, key->alg) || !jwt_may_be_of(jwt, key->kid))
        return false;
    bool good = verify(jwt, key);
    if (!good)
        ERR_clear_error(); /* otherwise the next TLS error on this thread would be ours */
    return good;
}

/* --- writing ---------------------------------------------------------------------------------- */

void jwt_write(const struct jwt_key *key, struct str claims, struct buf *out)
{
    struct buf header = {0};
    unsigned char signature[HS256_BYTES];
    size_t begun = out->len;

    buf_puts(&header, "{\"alg\":\"HS256\",\"typ\":\"JWT\"");
    js_put_field(&header, "kid", str_of(key->kid));
    buf_putc(&header, '}');
    base64url_put(out, header.bytes, header.len);
    buf_putc(out, '.');
    base64url_put(out, claims.p, claims.n);
    hs256(key, (struct str){out->bytes + begun, out->len - begun}, signature);
    buf_putc(out, '.');
    base64url_put(out, signature, sizeof signature);
    buf_done(&header);
}
