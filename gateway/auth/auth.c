/* Design.  A token is read, its key is found among those that its header allows, its signature is
 * checked, and only then are its claims believed.  An unverified token has one effect: when it
 * claims to be a guest's, its bearer may start anew, which anybody may.
 */
#include "gateway/auth/auth.h"

#include <math.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/auth/file_link.h"
#include "gateway/auth/guest_key.h"
#include "gateway/auth/jwks.h"
#include "gateway/auth/jwt.h"
#include "gateway/base/header_list.h"
#include "gateway/config/config.h"
#include "proto/base64url.h"
#include "proto/str.h"

#define GUEST_KID "guest"
#define OWN_KID "own"
#define OWN_ISSUER "holdfast-own"
#define GUEST_ISSUER "holdfast-guest"
#define GUEST_DAYS 365
#define GUEST_RANDOM 18           /* bytes: 24 characters */
#define MAX_EXPIRY 253402300799LL /* the last second of the year 9999 */

struct auth {
    char *issuer, *audience, *cookie, *admin_claim, *tenant_claim;
    struct jwt_key guest_key; /* without a secret: guests are not served */
    struct jwt_key own_key;   /* of shares and handovers; without a secret: there are none */
    unsigned char file_key[FILE_LINK_KEY_BYTES]; /* of URLs of files … */
    bool signs_files;                            /* … if there is one */
    bool has_keys;     /* of somebody else: guests have names of their own */
    struct jwks *jwks; /* NULL: there is no set */
    size_t n_keys;
    struct jwt_key keys[];
};

/* --- keys ------------------------------------------------------------------------------------- */

static char *auth_copy(const char *text)
{
    return xstrdup(str_of(text));
}

static void open_own_key(struct auth *auth, const unsigned char *key)
{
    unsigned char bytes[GUEST_KEY_BYTES] = {0};

    if (guest_key_own(key, bytes))
        jwt_key_of_secret(OWN_KID, bytes, sizeof bytes, &auth->own_key);
    auth->signs_files = guest_key_files(key, auth->file_key);
    OPENSSL_cleanse(bytes, sizeof bytes);
}

/* The own key needs no more than a place for it: where there is none, nothing is shared. */
static bool open_own_keys(struct auth *auth, const struct config *config, const char *data_dir,
                          struct buf *ret_faults)
{
    unsigned char bytes[GUEST_KEY_BYTES] = {0};
    const char *wrong = NULL, *secret = config->cluster.secret_file;
    bool guests = config->serves_guests;

    if (secret)
        wrong = guest_key_derive(secret, bytes);
    else if (data_dir)
        wrong = guest_key_load(data_dir, bytes);
    else if (RAND_bytes(bytes, sizeof bytes) != 1)
        wrong = "random numbers are not available";
    if (wrong && secret)
        buf_putf(ret_faults, "cluster.secret_file: %s: %s\n", secret, wrong);
    else if (wrong)
        buf_putf(ret_faults, "%s/guest.key: %s\n", data_dir ? data_dir : "", wrong);
    else
        open_own_key(auth, bytes);
    if (!wrong && guests)
        jwt_key_of_secret(GUEST_KID, bytes, sizeof bytes, &auth->guest_key);
    OPENSSL_cleanse(bytes, sizeof bytes);
    return !wrong;
}

struct auth *auth_open(const struct config *config, const char *data_dir, struct buf *ret_faults)
{
    size_t n_keys = config->auth.n_keys;
    struct auth *auth = xcalloc(sizeof *auth + n_keys * sizeof *auth->keys);
    bool good = true;

    auth->issuer = auth_copy(config->auth.issuer);
    auth->audience = auth_copy(config->auth.audience);
    auth->admin_claim = auth_copy(config->auth.admin_claim);
    auth->tenant_claim = auth_copy(config->auth.tenant_claim);
    auth->cookie = auth_copy(config->auth.cookie);
    auth->has_keys = n_keys > 0 || config->auth.jwks_url;
    auth->n_keys = n_keys;
    for (size_t i = 0; i < n_keys; i++) {
        const struct config_key *key = &config->auth.keys[i];
        const char *wrong = jwt_key_open(key, &auth->keys[i]);
        if (wrong)
            buf_putf(ret_faults, "auth.keys[%zu].%s: %s: %s\n", i,
                     key->alg == ALG_HS256 ? "secret_file" : "public_key_file",
                     key->alg == ALG_HS256 ? key->secret_file : key->public_key_file, wrong);
        good = good && !wrong;
    }
    if (!open_own_keys(auth, config, data_dir, ret_faults))
        good = false;
    if (!good) {
        auth_close(auth);
        return NULL;
    }
    return auth;
}

void auth_close(struct auth *auth)
{
    if (!auth)
        return;
    for (size_t i = 0; i < auth->n_keys; i++)
        jwt_key_done(&auth->keys[i]);
    jwt_key_done(&auth->guest_key);
    jwt_key_done(&auth->own_key);
    OPENSSL_cleanse(auth->file_key, sizeof auth->file_key);
    free(auth->issuer);
    free(auth->audience);
    free(auth->admin_claim);
    free(auth->tenant_claim);
    free(auth->cookie);
    free(auth);
}

void auth_set_jwks(struct auth *auth, struct jwks *jwks)
{
    auth->jwks = jwks;
}

bool auth_serves_guests(const struct auth *auth)
{
    return auth->guest_key.secret != NULL;
}

/* --- claims ----------------------------------------------------------------------------------- */

static bool is_guest_name(struct str owner)
{
    struct str prefix = STR(GUEST_PREFIX);

    return owner.n >= prefix.n && memcmp(owner.p, prefix.p, prefix.n) == 0;
}

/* An owner is a key in the store and a word in the log: no controls (C0, DEL, C1), and no U+FFFD,
 * because different broken texts would become the same. */
bool auth_is_owner(struct str text)
{
    if (text.n < 1 || text.n > MAX_OWNER || !utf8_valid(text))
        return false;
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        unsigned char second = i + 1 < text.n ? (unsigned char)text.p[i + 1] : 0;
        if (c < ' ' || c == 0x7f || (c == 0xc2 && second < 0xa0))
            return false;
    }
    return !memmem(text.p, text.n, "\xef\xbf\xbd", 3);
}

static bool claim_is(const struct js_doc *claims, const char *name, const char *value)
{
    uint32_t node = js_get(claims, 0, name);

    return node && js_is(claims, node, value);
}

static bool has_audience(const struct js_doc *claims, const char *audience)
{
    uint32_t node = js_get(claims, 0, "aud");

    if (!node || js_type(claims, node) != JS_ARRAY)
        return node && js_is(claims, node, audience);
    for (uint32_t i = js_first(claims, node); i < js_end(claims, node); i = js_next(claims, i))
        if (js_is(claims, i, audience))
            return true;
    return false;
}

static const char expired[] = "expired token";

/* A NumericDate may have a fraction (RFC 7519 section 2); cutting it off makes exp earlier, never
 * later. */
static bool read_time(const struct js_doc *claims, uint32_t node, int64_t *ret)
{
    double value;

    if (!js_double(claims, node, &value))
        return false;
    value = value > MAX_EXPIRY ? MAX_EXPIRY : value < -MAX_EXPIRY ? -MAX_EXPIRY : value;
    *ret = (int64_t)floor(value);
    return true;
}

static const char *check_times(const struct js_doc *claims, int64_t now_s, int64_t *ret_exp)
{
    uint32_t exp = js_get(claims, 0, "exp"), nbf = js_get(claims, 0, "nbf");
    int64_t from = 0;

    if (!exp || !read_time(claims, exp, ret_exp))
        return "exp must be a number";
    if (nbf && !read_time(claims, nbf, &from))
        return "nbf must be a number";
    if (*ret_exp <= now_s - TOKEN_LEEWAY_S)
        return expired;
    return from > now_s + TOKEN_LEEWAY_S ? "token is not valid yet" : NULL;
}

/* The tenant of an owner TENANT/SUB; 0: it is no such one. */
static size_t tenant_size(struct str owner)
{
    const char *slash = owner.n ? memchr(owner.p, '/', owner.n) : NULL;
    return slash ? (size_t)(slash - owner.p) : 0;
}

static bool is_tenant(struct str text)
{
    return text.n <= MAX_TENANT && auth_is_owner(text) && !memchr(text.p, '/', text.n);
}

static void put_claim(const struct js_doc *claims, const char *name, struct buf *out)
{
    uint32_t node = js_get(claims, 0, name);
    if (node && js_type(claims, node) == JS_STRING)
        js_value(claims, node, out);
}

/* TENANT/SUB: a tenant has no slash, so no two pairs make one owner. */
static const char *put_tenant(const struct auth *auth, const struct js_doc *claims,
                              struct buf *owner)
{
    put_claim(claims, auth->tenant_claim, owner);
    if (!is_tenant(buf_str(owner)))
        return "the tenant must be a text of 1 to 64 bytes without controls and slashes";
    buf_putc(owner, '/');
    return NULL;
}

static const char *take_owner(const struct auth *auth, bool has_tenant, const struct js_doc *claims,
                              struct identity *ret)
{
    struct buf owner = {0};
    const char *wrong = has_tenant ? put_tenant(auth, claims, &owner) : NULL;
    size_t before = owner.len;

    put_claim(claims, "sub", &owner);
    struct str text = buf_str(&owner);
    if (!wrong && (text.n == before || !auth_is_owner(text)))
        wrong = "sub must be a text of 1 to 255 bytes without controls";
    if (!wrong) {
        memcpy(ret->owner, text.p, text.n);
        ret->owner[text.n] = '\0';
        ret->owner_len = text.n;
    }
    buf_done(&owner);
    return wrong;
}

/* A claim that narrows, or names an actor; jti counts in our own tokens alone. */
static bool take_rights(const struct js_doc *claims, struct identity *ret)
{
    uint32_t node = js_get(claims, 0, "holdfast"), jti = js_get(claims, 0, "jti");
    struct buf id = {0};

    if (!node)
        return true;
    if (jti && js_type(claims, jti) == JS_STRING && claim_is(claims, "iss", OWN_ISSUER))
        js_value(claims, jti, &id);
    ret->rights = rights_read(claims, node, id.len ? buf_str(&id) : STR_NULL);
    buf_done(&id);
    return ret->rights != NULL;
}

static const char *issuer_of(const struct auth *auth, const struct jwt_key *key)
{
    return key == &auth->guest_key ? GUEST_ISSUER
           : key == &auth->own_key ? OWN_ISSUER
                                   : auth->issuer;
}

/* For a token that was verified with that key. */
static const char *check_claims(const struct auth *auth, const struct jwt_key *key,
                                const struct js_doc *claims, int64_t wall_ms, struct identity *ret)
{
    bool is_guest = key == &auth->guest_key, is_own = key == &auth->own_key;
    const char *issuer = issuer_of(auth, key);
    int64_t exp = 0;
    const char *wrong = check_times(claims, wall_ms / 1000, &exp);

    if (wrong)
        return is_guest && wrong == expired ? UNKNOWN_GUEST ": expired token" : wrong;
    if (issuer && !claim_is(claims, "iss", issuer))
        return "wrong issuer";
    if (!is_guest && !is_own && auth->audience && !has_audience(claims, auth->audience))
        return "wrong audience";
    wrong = take_owner(auth, auth->tenant_claim && !is_guest && !is_own, claims, ret);
    if (wrong)
        return wrong;
    if (!take_rights(claims, ret))
        return "holdfast is not understood";
    /* Neither kind of key speaks for the owners of the other; the own one said whom before. */
    if (auth->has_keys && !is_own &&
        is_guest != is_guest_name((struct str){ret->owner, ret->owner_len}))
        return "sub is not for this key";
    ret->expires_at_ms = exp * 1000;
    uint32_t claim = auth->admin_claim ? js_get(claims, 0, auth->admin_claim) : 0;
    ret->is_admin = !is_guest && claim && js_type(claims, claim) == JS_TRUE;
    return NULL;
}

/* --- tokens ----------------------------------------------------------------------------------- */

static const struct jwt_key *find_among(const struct jwt_key *keys, size_t n, const struct jwt *jwt)
{
    for (size_t i = 0; i < n; i++)
        if (jwt_is_signed_by(jwt, &keys[i]))
            return &keys[i];
    return NULL;
}

static const struct jwt_key *set_of(const struct auth *auth, size_t *ret_n)
{
    *ret_n = 0;
    return auth->jwks ? jwks_keys(auth->jwks, ret_n) : NULL;
}

static const struct jwt_key *find_key(const struct auth *auth, const struct jwt *jwt)
{
    size_t n;
    const struct jwt_key *set = set_of(auth, &n);
    const struct jwt_key *key = find_among(auth->keys, auth->n_keys, jwt);
    if (!key)
        key = find_among(set, n, jwt);
    if (key)
        return key;
    if (auth_serves_guests(auth) && jwt_is_signed_by(jwt, &auth->guest_key))
        return &auth->guest_key;
    if (auth->own_key.secret && jwt_is_signed_by(jwt, &auth->own_key))
        return &auth->own_key;
    return NULL;
}

static void look_among(const struct jwt_key *keys, size_t n, const struct jwt *jwt, bool *ret_known,
                       bool *ret_fits)
{
    for (size_t i = 0; i < n; i++) {
        bool named = jwt_may_be_of(jwt, keys[i].kid);
        *ret_known = *ret_known || named;
        *ret_fits = *ret_fits || (named && jwt_has_alg(jwt, keys[i].alg));
    }
}

/* Whether the issuer may have published its key since.  A token of another one asks for nothing. */
static bool may_be_soon(const struct auth *auth, const struct jwt *jwt)
{
    bool is_public =
        jwt_has_alg(jwt, ALG_RS256) || jwt_has_alg(jwt, ALG_ES256) || jwt_has_alg(jwt, ALG_EDDSA);
    return auth->jwks && is_public &&
           (!auth->issuer || claim_is(&jwt->claims, "iss", auth->issuer)) && jwks_miss(auth->jwks);
}

/* Why no key was found. */
static const char *explain(const struct auth *auth, const struct jwt *jwt, struct identity *ret)
{
    size_t n;
    const struct jwt_key *set = set_of(auth, &n);
    bool guests = auth_serves_guests(auth), known = guests && jwt_may_be_of(jwt, GUEST_KID);
    bool fits = known && jwt_has_alg(jwt, ALG_HS256);

    if (fits && claim_is(&jwt->claims, "iss", GUEST_ISSUER))
        return UNKNOWN_GUEST;
    look_among(auth->keys, auth->n_keys, jwt, &known, &fits);
    look_among(set, n, jwt, &known, &fits);
    if (!known)
        ret->later = may_be_soon(auth, jwt);
    if (!known)
        return "unknown key";
    return fits ? "bad signature" : "wrong algorithm";
}

static const char *check_token(const struct auth *auth, struct str token, int64_t wall_ms,
                               struct identity *ret)
{
    struct jwt jwt;
    const char *wrong = jwt_read(token, &jwt);

    if (!wrong) {
        const struct jwt_key *key = find_key(auth, &jwt);
        wrong = key ? check_claims(auth, key, &jwt.claims, wall_ms, ret) : explain(auth, &jwt, ret);
    }
    jwt_done(&jwt);
    return wrong;
}

/* --- new tokens ------------------------------------------------------------------------------- */

static void write_token(const struct auth *auth, const struct jwt_key *key, struct str sub,
                        const int64_t times[2], struct buf *out)
{
    struct buf claims = {0};
    bool is_guest = key == &auth->guest_key;
    const char *issuer = issuer_of(auth, key);

    size_t n = auth->tenant_claim && !is_guest ? tenant_size(sub) : 0;
    buf_putc(&claims, '{');
    if (n)
        js_put_field(&claims, auth->tenant_claim, (struct str){sub.p, n});
    js_put_field(&claims, "sub", n ? str_from(sub, n + 1) : sub);
    if (issuer)
        js_put_field(&claims, "iss", str_of(issuer));
    if (!is_guest && auth->audience)
        js_put_field(&claims, "aud", str_of(auth->audience));
    js_put_int(&claims, "iat", times[0]);
    js_put_int(&claims, "exp", times[1]);
    buf_putc(&claims, '}');
    jwt_write(key, buf_str(&claims), out);
    buf_done(&claims);
}

static const char *new_guest(const struct auth *auth, int64_t wall_ms, struct identity *ret)
{
    unsigned char bytes[GUEST_RANDOM];
    struct buf owner = {0};
    const int64_t now = wall_ms / 1000;
    const int64_t times[2] = {now, now + GUEST_DAYS * 86400LL};

    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return "random numbers are not available";
    buf_puts(&owner, GUEST_PREFIX);
    base64url_put(&owner, bytes, sizeof bytes);
    memcpy(ret->owner, owner.bytes, owner.len + 1);
    ret->owner_len = owner.len;
    ret->expires_at_ms = times[1] * 1000;
    write_token(auth, &auth->guest_key, buf_str(&owner), times, &ret->token);
    buf_done(&owner);
    return NULL;
}

static bool names_tenant(struct str owner)
{
    size_t n = tenant_size(owner);
    return n > 0 && n + 1 < owner.n && is_tenant((struct str){owner.p, n});
}

/* When keys are configured, the gateway's own speaks for guests alone. */
static const struct jwt_key *signing_key(const struct auth *auth)
{
    for (size_t i = 0; i < auth->n_keys; i++)
        if (auth->keys[i].alg == ALG_HS256)
            return &auth->keys[i];
    return !auth->has_keys && auth_serves_guests(auth) ? &auth->guest_key : NULL;
}

bool auth_token(const struct auth *auth, struct str sub, int64_t ttl_s, int64_t wall_ms,
                struct buf *out, char ret_error[128])
{
    const struct jwt_key *key = signing_key(auth);
    const int64_t now = wall_ms / 1000;
    const char *wrong = NULL;

    if (!key)
        wrong = "there is no HS256 key to sign with";
    else if (!auth_is_owner(sub))
        wrong = "the name must be a text of 1 to 255 bytes without controls";
    else if (key != &auth->guest_key && auth->tenant_claim && !names_tenant(sub))
        wrong = "the name must be TENANT/NAME, because of auth.tenant_claim";
    else if (key != &auth->guest_key && is_guest_name(sub))
        wrong = "a name that begins with \"" GUEST_PREFIX "\" is a guest's";
    else if (ttl_s < 1 || ttl_s > MAX_EXPIRY - now)
        wrong = "the time must be at least a second, and end before the year 10000";
    if (wrong) {
        snprintf(ret_error, 128, "%s", wrong);
        return false;
    }
    write_token(auth, key, sub, (const int64_t[2]){now, now + ttl_s}, out);
    return true;
}

bool auth_sign(const struct auth *auth, struct str members, int64_t wall_ms, struct buf *out)
{
    struct buf claims = {0};

    if (!auth->own_key.secret)
        return false;
    buf_putc(&claims, '{');
    js_put_field(&claims, "iss", STR(OWN_ISSUER));
    js_put_int(&claims, "iat", wall_ms / 1000);
    buf_putc(&claims, ',');
    buf_putstr(&claims, members);
    buf_putc(&claims, '}');
    jwt_write(&auth->own_key, buf_str(&claims), out);
    buf_done(&claims);
    return true;
}

bool auth_sign_file(const struct auth *auth, const struct file_link *link, int64_t wall_ms,
                    struct buf *out)
{
    return auth->signs_files && file_link_put(auth->file_key, link, wall_ms, out);
}

bool auth_check_file(const struct auth *auth, const struct file_link *link, struct str proof,
                     int64_t wall_ms, struct identity *ret)
{
    struct buf owner = {0};
    memset(ret, 0, sizeof *ret);
    bool good = auth->signs_files &&
                file_link_read(auth->file_key, link, proof, wall_ms, &owner, &ret->expires_at_ms);
    good = good && auth_is_owner(buf_str(&owner));
    if (good) {
        memcpy(ret->owner, owner.bytes, owner.len);
        ret->owner[owner.len] = '\0';
        ret->owner_len = owner.len;
    }
    buf_done(&owner);
    return good;
}

/* --- requests --------------------------------------------------------------------------------- */

bool auth_check(const struct auth *auth, struct str hello_token, struct str bearer,
                struct str cookie, int64_t wall_ms, struct identity *ret)
{
    struct str token = hello_token.p ? hello_token : bearer.p ? bearer : cookie;
    const char *wrong;

    memset(ret, 0, sizeof *ret);
    if (token.p)
        wrong = check_token(auth, token, wall_ms, ret);
    else
        wrong = auth_serves_guests(auth) ? new_guest(auth, wall_ms, ret) : "no token";
    if (!wrong)
        return true;
    rights_unref(ret->rights);
    bool later = ret->later;
    memset(ret, 0, sizeof *ret);
    ret->later = later;
    snprintf(ret->error, sizeof ret->error, "%s", wrong);
    return false;
}

struct str auth_bearer(struct str authorization)
{
    struct str scheme = STR("Bearer"), text = str_trim(authorization);

    if (!text.p || !str_begins_nocase(text, scheme) ||
        (text.n > scheme.n && !is_blank(text.p[scheme.n])))
        return STR_NULL;
    return str_trim(str_from(text, scheme.n));
}

struct str auth_cookie(const struct auth *auth, struct str cookie_header)
{
    struct str name = str_of(auth->cookie), rest = cookie_header;

    while (name.p && rest.n > 0) {
        struct str pair = header_list_next(&rest, ';');
        if (pair.n > name.n && pair.p[name.n] == '=' && str_eq((struct str){pair.p, name.n}, name))
            return str_from(pair, name.n + 1);
    }
    return STR_NULL;
}
