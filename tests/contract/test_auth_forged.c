/* Every kind of token that must be refused, on each way in.  Field case: F63.
 */
#include "tests/support/token_kit.h"

/* --- forged tokens (F63) ---------------------------------------------------------------------- */

static void test_auth_forged_header_is_refused(void **state)
{
    const struct {
        const char *name, *header, *error;
    } rows[] = {
        {"hs256 under the rsa key's kid", json("{'alg':'HS256','kid':'rs'}"), "wrong algorithm"},
        {"another kid", json("{'alg':'HS256','kid':'hs2'}"), "unknown key"},
        {"empty kid", json("{'alg':'HS256','kid':''}"), "unknown key"},
        {"kid is a number", json("{'alg':'HS256','kid':1}"), "malformed token"},
        {"kid is null", json("{'alg':'HS256','kid':null}"), "malformed token"},
        {"guest's kid", json("{'alg':'HS256','kid':'guest'}"), "unknown key"},
        {"alg none", json("{'alg':'none','kid':'hs'}"), "wrong algorithm"},
        {"alg none, no kid", json("{'alg':'none'}"), "wrong algorithm"},
        {"alg None", json("{'alg':'None'}"), "wrong algorithm"},
        {"alg NONE", json("{'alg':'NONE'}"), "wrong algorithm"},
        {"alg empty", json("{'alg':''}"), "wrong algorithm"},
        {"alg hs256", json("{'alg':'hs256'}"), "wrong algorithm"},
        {"alg HS512", json("{'alg':'HS512','kid':'hs'}"), "wrong algorithm"},
        {"alg HS256 and more", json("{'alg':'HS256\\u0000'}"), "wrong algorithm"},
        {"no alg", json("{'kid':'hs'}"), "no algorithm"},
        {"alg is an array", json("{'alg':['HS256']}"), "no algorithm"},
        {"alg is null", json("{'alg':null}"), "no algorithm"},
        {"alg twice", json("{'alg':'HS256','alg':'HS256'}"), "malformed token"},
        {"crit", json("{'alg':'HS256','crit':['b64'],'b64':true}"), "critical extension"},
        {"empty crit", json("{'alg':'HS256','crit':[]}"), "critical extension"},
        {"header is an array", json("['HS256']"), "malformed token"},
        {"header is no JSON", "alg", "malformed token"},
        {"header has more behind it", "{\"alg\":\"HS256\"}x", "malformed token"},
        {"header is empty", "", "malformed token"},
    };
    struct auth *auth = open_keys((struct config){0});
    (void)state;

    for (size_t i = 0; i < countof(rows); i++)
        assert_verdict(auth, rows[i].name, kit_hs256(rows[i].header, CLAIMS, SECRET),
                       rows[i].error);
    auth_close(auth);
}

/* The whole file, as an attacker has it. */
static struct buf public_text(const char *name)
{
    struct buf out = {0};
    FILE *file = fopen(in_folder(name), "rb");

    out.len = fread(buf_reserve(&out, 8192), 1, 8192, file);
    (void)fclose(file);
    return out;
}

static void test_auth_public_key_is_no_secret(void **state)
{
    static const char *const files[] = {"rsa.pem", "p256.pem", "ed.pem"};
    static const char *const kids[] = {"rs", "es", "ed"};
    struct auth *auth = open_keys((struct config){0});
    (void)state;

    for (size_t i = 0; i < countof(files); i++) {
        struct buf secret = public_text(files[i]);
        char header[64];
        snprintf(header, sizeof header, json("{'alg':'HS256','kid':'%s'}"), kids[i]);
        struct buf named = kit_hmac(header, CLAIMS, secret.bytes, secret.len, EVP_sha256());
        struct buf nameless =
            kit_hmac(json("{'alg':'HS256'}"), CLAIMS, secret.bytes, secret.len, EVP_sha256());
        buf_done(&secret);
        assert_verdict(auth, files[i], named, "wrong algorithm");
        assert_verdict(auth, files[i], nameless, "bad signature");
    }
    auth_close(auth);
}

static void test_auth_another_keys_signature_is_refused(void **state)
{
    struct auth *auth = open_keys((struct config){0});
    (void)state;

    assert_verdict(auth, "other secret", kit_hs256(HS, CLAIMS, SECRET "!"), "bad signature");
    assert_verdict(auth, "empty secret", kit_hs256(HS, CLAIMS, ""), "bad signature");
    assert_verdict(auth, "other rsa",
                   kit_sign(json("{'alg':'RS256','kid':'rs'}"), CLAIMS, other_rsa),
                   "bad signature");
    assert_verdict(auth, "small rsa", kit_sign(json("{'alg':'RS256'}"), CLAIMS, small_rsa),
                   "bad signature");
    assert_verdict(auth, "p-384", kit_sign(json("{'alg':'ES256'}"), CLAIMS, p384), "bad signature");
    assert_verdict(auth, "rsa as es256", kit_sign(json("{'alg':'ES256'}"), CLAIMS, rsa),
                   "bad signature");
    assert_verdict(auth, "ed as rs256", kit_sign(json("{'alg':'RS256'}"), CLAIMS, ed),
                   "bad signature");
    assert_verdict(auth, "rs256 under the secret's kid",
                   kit_sign(json("{'alg':'RS256','kid':'hs'}"), CLAIMS, rsa), "wrong algorithm");
    assert_verdict(auth, "sha-512", kit_hmac(HS, CLAIMS, SECRET, strlen(SECRET), EVP_sha512()),
                   "bad signature");
    auth_close(auth);
}

/* A token whose text is changed: its part (0 to 2) is replaced, or what stands at its end. */
static struct buf with_part(struct buf token, int part, const char *text)
{
    struct buf out = {0};
    char *rest = token.bytes, *one;

    for (int i = 0; (one = strsep(&rest, ".")); i++)
        buf_putf(&out, "%s%s", i > 0 ? "." : "", i == part ? text : one);
    buf_done(&token);
    return out;
}

static struct buf with_end(struct buf token, size_t drop, const char *more)
{
    token.len -= drop;
    buf_puts(&token, more);
    return token;
}

static struct buf hs(void)
{
    return kit_hs256(HS, CLAIMS, SECRET);
}

static struct buf of_text(const char *text)
{
    struct buf out = {0};

    buf_puts(&out, text);
    return out;
}

static void test_auth_mangled_token_is_refused(void **state)
{
    struct auth *auth = open_keys((struct config){0});
    (void)state;

    assert_verdict(auth, "empty", of_text(""), "three parts");
    assert_verdict(auth, "garbled", of_text("rubbish"), "three parts");
    assert_verdict(auth, "two parts", of_text("e30.e30"), "three parts");
    assert_verdict(auth, "only dots", of_text(".."), "malformed");
    assert_verdict(auth, "four parts", with_end(hs(), 0, ".x"), "three parts");
    assert_verdict(auth, "dot behind", with_end(hs(), 0, "."), "three parts");
    assert_verdict(auth, "no signature", with_part(hs(), 2, ""), "malformed signature");
    assert_verdict(auth, "short signature", with_part(hs(), 2, "AAAA"), "bad signature");
    assert_verdict(auth, "long signature", with_end(hs(), 1, "AAAA"), "bad signature");
    assert_verdict(auth, "padded", with_end(hs(), 0, "="), "malformed signature");
    assert_verdict(auth, "space behind", with_end(hs(), 0, " "), "malformed signature");
    assert_verdict(auth, "line behind", with_end(hs(), 0, "\n"), "malformed signature");
    assert_verdict(auth, "standard base64", with_part(hs(), 2, "++//"), "malformed signature");
    assert_verdict(auth, "padded claims", with_part(hs(), 1, "e30="), "malformed token");
    assert_verdict(auth, "claims are an array", with_part(hs(), 1, "W10"), "malformed token");
    assert_verdict(auth, "other claims",
                   with_part(hs(), 1, "eyJzdWIiOiJtYWxsb3J5IiwiZXhwIjoxODAwMDAwMDYwfQ"),
                   "bad signature");
    assert_verdict(auth, "not utf-8", with_part(hs(), 1, "_-8"), "malformed token");
    auth_close(auth);
}

/* The last character of 32 bytes has two bits that say nothing. */
static void test_auth_trailing_bits_are_refused(void **state)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    struct auth *auth = open_keys((struct config){0});
    (void)state;

    for (int bits = 1; bits < 4; bits++) {
        struct buf token = hs();
        char *last = &token.bytes[token.len - 1];
        *last = digits[(strchr(digits, *last) - digits) | bits];
        assert_verdict(auth, "trailing bits", token, "malformed signature");
    }
    auth_close(auth);
}

static void test_auth_every_flipped_bit_is_refused(void **state)
{
    struct auth *auth = open_keys((struct config){0});
    struct buf token = hs();
    struct identity who;
    size_t n_taken = 0;
    (void)state;

    for (size_t i = 0; i < token.len * 8; i++) {
        token.bytes[i / 8] = (char)(token.bytes[i / 8] ^ 1 << i % 8);
        n_taken += check(auth, buf_str(&token), &who);
        token.bytes[i / 8] = (char)(token.bytes[i / 8] ^ 1 << i % 8);
    }
    bool good = check(auth, buf_str(&token), &who);
    buf_done(&token);
    auth_close(auth);
    assert_int_equal(n_taken, 0);
    assert_true(good);
}

static void test_auth_another_tokens_signature_is_refused(void **state)
{
    struct auth *auth = open_keys((struct config){0});
    struct buf other = kit_hs256(HS, json("{'sub':'bob','exp':1800000060}"), SECRET);
    struct buf mixed = with_part(hs(), 2, strrchr(other.bytes, '.') + 1);
    (void)state;

    buf_done(&other);
    assert_verdict(auth, "signature of another", mixed, "bad signature");
    auth_close(auth);
}

static void test_auth_long_token_is_refused(void **state)
{
    struct auth *auth = open_keys((struct config){0});
    struct buf claims = {0};
    (void)state;

    buf_puts(&claims, json("{'sub':'alice','exp':1800000060,'x':'"));
    for (int i = 0; i < 12000; i++)
        buf_putc(&claims, 'x');
    buf_puts(&claims, json("'}"));
    struct buf good = kit_hs256(HS, claims.bytes, SECRET);
    claims.len -= 2;
    for (int i = 0; i < 400; i++)
        buf_putc(&claims, 'x');
    buf_puts(&claims, json("'}"));
    struct buf bad = kit_hs256(HS, claims.bytes, SECRET);
    buf_done(&claims);
    assert_verdict(auth, "16 KiB", good, NULL);
    assert_verdict(auth, "more", bad, "too long");
    auth_close(auth);
}

/* --- claims ----------------------------------------------------------------------------------- */

static void test_auth_claims_are_checked(void **state)
{
    const struct {
        const char *claims, *error; /* of alice when NULL */
    } rows[] = {
        {json("{'sub':'alice','exp':1799999971}"), NULL}, /* within the leeway */
        {json("{'sub':'alice','exp':1799999970}"), "expired"},
        {json("{'sub':'alice','exp':0}"), "expired"},
        {json("{'sub':'alice','exp':-1}"), "expired"},
        {json("{'sub':'alice'}"), "exp must be"},
        {json("{'sub':'alice','exp':'1800000060'}"), "exp must be"},
        {json("{'sub':'alice','exp':1800000060.0}"), NULL}, /* RFC 7519 2: any number */
        {json("{'sub':'alice','exp':1799999971.5}"), NULL},
        {json("{'sub':'alice','exp':1799999970.5}"), "expired"},
        {json("{'sub':'alice','exp':1.8e9}"), NULL},
        {json("{'sub':'alice','exp':-1e300}"), "expired"},
        {json("{'sub':'alice','exp':1e999}"), "exp must be"},
        {json("{'sub':'alice','exp':[1800000060]}"), "exp must be"},
        {json("{'sub':'alice','exp':null}"), "exp must be"},
        {json("{'sub':'alice','exp':true}"), "exp must be"},
        {json("{'sub':'alice','exp':99999999999999999999}"), NULL},
        {json("{'sub':'alice','exp':1800000060,'exp':1900000000}"), "malformed"},
        {json("{'exp':1800000060,'sub':'alice','nbf':1800000030}"), NULL},
        {json("{'exp':1800000060,'sub':'alice','nbf':1800000031}"), "not valid yet"},
        {json("{'exp':1800000060,'sub':'alice','nbf':'0'}"), "nbf must be"},
        {json("{'exp':1800000060,'sub':'alice','nbf':1.5}"), NULL},
        {json("{'exp':1800000060,'sub':'alice','nbf':1800000031.5}"), "not valid yet"},
        {json("{'exp':1800000060,'sub':'alice','iat':1900000000.5}"), NULL},
        {json("{'exp':1800000060,'sub':'alice','iss':1,'aud':2}"), NULL},
        {json("{'exp':1800000060,'sub':'alice','big':123456789012345678901234567890}"), NULL},
        {json("{'exp':1800000060}"), "sub must be"},
        {json("{'exp':1800000060,'sub':''}"), "sub must be"},
        {json("{'exp':1800000060,'sub':7}"), "sub must be"},
        {json("{'exp':1800000060,'sub':null}"), "sub must be"},
        {json("{'exp':1800000060,'sub':['alice']}"), "sub must be"},
        {json("{'exp':1800000060,'sub':'alice\\u0000'}"), "sub must be"},
        {json("{'exp':1800000060,'sub':'a\\nb'}"), "sub must be"},
        {json("{'exp':1800000060,'sub':'a\\u007fb'}"), "sub must be"},
        {json("{'exp':1800000060,'sub':'a\\u0085b'}"), "sub must be"},
        {json("{'exp':1800000060,'sub':'a\\ud800'}"), "sub must be"},
        {json("{'exp':1800000060,'sub':'guest-0123'}"), "not for this key"},
        {json("{'exp':1800000060,'sub':'mallory','sub':'alice'}"), "malformed"},
        {json("{'exp':1800000060,'sub':'\\u0061lice'}"), NULL},
    };
    struct auth *auth = open_keys((struct config){0});
    (void)state;

    for (size_t i = 0; i < countof(rows); i++)
        assert_verdict(auth, rows[i].claims, kit_hs256(HS, rows[i].claims, SECRET), rows[i].error);
    auth_close(auth);
}

static void test_auth_owner_may_have_255_bytes(void **state)
{
    struct auth *auth = open_keys((struct config){0});
    (void)state;

    for (size_t n = 255; n <= 256; n++) {
        struct buf claims = {0};
        struct identity who;
        buf_puts(&claims, json("{'exp':1800000060,'sub':'"));
        for (size_t i = 0; i < n; i++)
            buf_putc(&claims, 'a');
        buf_puts(&claims, json("'}"));
        struct buf token = kit_hs256(HS, claims.bytes, SECRET);
        bool good = check(auth, buf_str(&token), &who);
        buf_done(&claims);
        buf_done(&token);
        assert_int_equal(good, n == 255);
        assert_int_equal(who.owner_len, n == 255 ? 255 : 0);
    }
    auth_close(auth);
}

static void test_auth_issuer_and_audience_must_be_ours(void **state)
{
    const struct {
        const char *claims, *error;
    } rows[] = {
        {json("'iss':'us','aud':'chat'"), NULL},
        {json("'iss':'us','aud':['x','chat']"), NULL},
        {json("'aud':'chat'"), "wrong issuer"},
        {json("'iss':'them','aud':'chat'"), "wrong issuer"},
        {json("'iss':['us'],'aud':'chat'"), "wrong issuer"},
        {json("'iss':'us'"), "wrong audience"},
        {json("'iss':'us','aud':'chat2'"), "wrong audience"},
        {json("'iss':'us','aud':[]"), "wrong audience"},
        {json("'iss':'us','aud':[['chat'],{'chat':1}]"), "wrong audience"},
        {json("'iss':'us','aud':{'chat':1}"), "wrong audience"},
    };
    struct config c = {.auth = {.issuer = text("us"), .audience = text("chat")}};
    struct auth *auth = open_keys(c);
    (void)state;

    for (size_t i = 0; i < countof(rows); i++) {
        char claims[160];
        snprintf(claims, sizeof claims, json("{'sub':'alice','exp':1800000060,%s}"),
                 rows[i].claims);
        assert_verdict(auth, claims, kit_hs256(HS, claims, SECRET), rows[i].error);
    }
    auth_close(auth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auth_forged_header_is_refused),
        cmocka_unit_test(test_auth_public_key_is_no_secret),
        cmocka_unit_test(test_auth_another_keys_signature_is_refused),
        cmocka_unit_test(test_auth_mangled_token_is_refused),
        cmocka_unit_test(test_auth_trailing_bits_are_refused),
        cmocka_unit_test(test_auth_every_flipped_bit_is_refused),
        cmocka_unit_test(test_auth_another_tokens_signature_is_refused),
        cmocka_unit_test(test_auth_long_token_is_refused),
        cmocka_unit_test(test_auth_claims_are_checked),
        cmocka_unit_test(test_auth_owner_may_have_255_bytes),
        cmocka_unit_test(test_auth_issuer_and_audience_must_be_ours),
    };
    return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
