/* The identity of a connection (PROTOCOL.md section 2): tokens of configured keys, guests, and
 * which token of a request counts.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/token_kit.h"

/* --- good tokens ------------------------------------------------------------------------------ */

static void test_auth_each_algorithm_gives_the_owner(void **state)
{
    struct auth *auth = open_keys((struct config){0});
    const struct {
        const char *named, *nameless;
        EVP_PKEY *key;
    } rows[] = {
        {json("{'alg':'RS256','kid':'rs'}"), json("{'typ':'at+jwt','alg':'RS256'}"), rsa},
        {json("{'alg':'ES256','kid':'es'}"), json("{'typ':'at+jwt','alg':'ES256'}"), p256},
        {json("{'alg':'EdDSA','kid':'ed'}"), json("{'typ':'at+jwt','alg':'EdDSA'}"), ed},
    };
    (void)state;

    assert_verdict(auth, "HS256", kit_hs256(HS, CLAIMS, SECRET), NULL);
    assert_verdict(auth, "no kid", kit_hs256(json("{'alg':'HS256'}"), CLAIMS, SECRET), NULL);
    for (size_t i = 0; i < countof(rows); i++) {
        assert_verdict(auth, rows[i].named, kit_sign(rows[i].named, CLAIMS, rows[i].key), NULL);
        assert_verdict(auth, rows[i].nameless, kit_sign(rows[i].nameless, CLAIMS, rows[i].key),
                       NULL);
    }
    auth_close(auth);
}

static void test_auth_many_es256_signatures_verify(void **state)
{
    struct auth *auth = open_keys((struct config){0});
    (void)state;

    for (int i = 0; i < 300; i++) /* r or s is short in one of 128 */
        assert_verdict(auth, "ES256", kit_sign(json("{'alg':'ES256'}"), CLAIMS, p256), NULL);
    auth_close(auth);
}

static void test_auth_kidless_token_tries_all_keys_of_its_algorithm(void **state)
{
    struct config c = {0};
    (void)state;

    kit_write_text(in_folder("first"), "another secret that has thirty-two bytes");
    add_key(&c, "first", ALG_HS256, "first");
    add_key(&c, "second", ALG_HS256, "secret");
    struct auth *auth = open_auth(&c);
    assert_verdict(auth, "second", kit_hs256(json("{'alg':'HS256'}"), CLAIMS, SECRET), NULL);
    assert_verdict(auth, "by the other kid",
                   kit_hs256(json("{'alg':'HS256','kid':'first'}"), CLAIMS, SECRET),
                   "bad signature");
    auth_close(auth);
}

static void test_auth_expiry_is_told_in_milliseconds(void **state)
{
    struct auth *auth = open_keys((struct config){0});
    struct buf token = kit_hs256(HS, CLAIMS, SECRET);
    struct buf endless = kit_hs256(HS, json("{'sub':'alice','exp':9223372036854775807}"), SECRET);
    struct identity who, forever;
    (void)state;

    bool good = check(auth, buf_str(&token), &who),
         still = check(auth, buf_str(&endless), &forever);
    buf_done(&token);
    buf_done(&endless);
    auth_close(auth);
    assert_true(good && still);
    assert_int_equal(who.expires_at_ms, 1800000060000);
    assert_true(forever.expires_at_ms > 1800000060000);
}

/* --- which token counts ----------------------------------------------------------------------- */

static void test_auth_one_token_counts_and_is_not_skipped(void **state)
{
    struct auth *auth = open_keys((struct config){0});
    struct buf bob = kit_hs256(HS, json("{'sub':'bob','exp':1800000060}"), SECRET),
               alice = kit_hs256(HS, CLAIMS, SECRET);
    struct str a = buf_str(&alice), b = buf_str(&bob), bad = STR("bad"), empty = STR("");
    const struct {
        struct str hello, bearer, cookie;
        const char *owner; /* NULL: refused */
    } rows[] = {
        {a, b, b, "alice"},  {STR_NULL, a, b, "alice"},  {STR_NULL, STR_NULL, a, "alice"},
        {bad, a, a, NULL},   {STR_NULL, bad, a, NULL},   {STR_NULL, STR_NULL, bad, NULL},
        {empty, a, a, NULL}, {STR_NULL, empty, a, NULL}, {STR_NULL, STR_NULL, STR_NULL, NULL},
    };
    size_t n_wrong = 0;
    (void)state;

    for (size_t i = 0; i < countof(rows); i++) {
        struct identity who;
        bool good = auth_check(auth, rows[i].hello, rows[i].bearer, rows[i].cookie, NOW_MS, &who);
        n_wrong +=
            good != (rows[i].owner != NULL) || (good && strcmp(who.owner, rows[i].owner) != 0);
    }
    buf_done(&alice);
    buf_done(&bob);
    auth_close(auth);
    assert_int_equal(n_wrong, 0);
}

static void test_auth_errors_hold_nothing_of_the_token(void **state)
{
    struct auth *auth = open_keys((struct config){0});
    struct buf token = kit_hs256(HS, json("{'sub':'sekrit','exp':1,'iss':'sekrit'}"), "sekrit");
    struct identity who;
    (void)state;

    bool good = check(auth, buf_str(&token), &who);
    bool shown = strstr(who.error, "sekrit") || strstr(who.error, strrchr(token.bytes, '.') + 1);
    buf_done(&token);
    auth_close(auth);
    assert_false(good || shown);
}

/* --- guests ----------------------------------------------------------------------------------- */

static void test_auth_guest_is_new_each_time_and_comes_back(void **state)
{
    struct auth *auth = open_guests();
    struct identity one, two, again;
    (void)state;

    bool made = check(auth, STR_NULL, &one) && check(auth, STR_NULL, &two);
    auth_close(auth);
    auth = open_guests(); /* a restart */
    bool known = check(auth, buf_str(&one.token), &again);
    size_t n_again = again.token.len;
    buf_done(&one.token);
    buf_done(&two.token);
    auth_close(auth);
    assert_true(made && known);
    assert_int_equal(n_again, 0);
    assert_int_equal(strncmp(one.owner, "guest-", 6), 0);
    assert_true(one.owner_len >= 6 + 22 && one.owner_len == strlen(one.owner));
    assert_string_not_equal(one.owner, two.owner);
    assert_string_equal(one.owner, again.owner);
    assert_int_equal(again.expires_at_ms, one.expires_at_ms);
    assert_int_equal(one.expires_at_ms, NOW_MS + 365LL * 86400 * 1000);
}

static void test_auth_expired_guest_may_start_anew(void **state)
{
    struct auth *auth = open_guests();
    struct identity one, again;
    (void)state;

    bool made = check(auth, STR_NULL, &one);
    bool good = auth_check(auth, buf_str(&one.token), STR_NULL, STR_NULL, one.expires_at_ms + 31000,
                           &again);
    buf_done(&one.token);
    auth_close(auth);
    assert_true(made && !good);
    assert_non_null(strstr(again.error, "unknown guest"));
}

static void test_auth_guest_of_another_gateway_may_start_anew(void **state)
{
    static const char guest[] =
        "{\"sub\":\"guest-1\",\"iss\":\"holdfast-guest\",\"exp\":1800000060}";
    struct auth *auth = open_guests();
    (void)state;

    assert_verdict(auth, "kid", kit_hs256(json("{'alg':'HS256','kid':'guest'}"), guest, SECRET),
                   "unknown guest");
    assert_verdict(auth, "no kid", kit_hs256(json("{'alg':'HS256'}"), guest, SECRET),
                   "unknown guest");
    assert_verdict(auth, "none", kit_hs256(json("{'alg':'none'}"), guest, ""), "wrong algorithm");
    assert_verdict(auth, "not a guest's", kit_hs256(json("{'alg':'HS256'}"), CLAIMS, SECRET),
                   "bad signature");
    assert_verdict(auth, "a key's", kit_hs256(HS, CLAIMS, SECRET), "unknown key");
    auth_close(auth);
}

static void test_auth_guests_beside_keys_only_when_said(void **state)
{
    struct auth *alone = open_guests(), *keys = open_keys((struct config){0}),
                *both = open_keys((struct config){.guests = true, .serves_guests = true});
    struct identity guest, who;
    (void)state;

    bool made = check(alone, STR_NULL, &guest);
    bool without = check(keys, buf_str(&guest.token), &who) || check(keys, STR_NULL, &who);
    bool said = strstr(who.error, "unknown guest") != NULL;
    bool with = check(both, buf_str(&guest.token), &who);
    buf_done(&guest.token);
    with = with && check(both, STR_NULL, &who);
    buf_done(&who.token);
    assert_verdict(both, "key", kit_hs256(HS, CLAIMS, SECRET), NULL);
    assert_verdict(both, "forged guest",
                   kit_hs256(HS, json("{'sub':'guest-1','exp':1800000060}"), SECRET),
                   "not for this key");
    bool serves =
        auth_serves_guests(alone) && auth_serves_guests(both) && !auth_serves_guests(keys);
    auth_close(alone);
    auth_close(keys);
    auth_close(both);
    assert_true(made && !without && !said && with && serves);
}

static void test_auth_guest_key_is_made_private_and_kept(void **state)
{
    struct stat is;
    (void)state;

    (void)unlink(in_folder("guest.key"));
    auth_close(open_guests());
    assert_int_equal(stat(in_folder("guest.key"), &is), 0);
    assert_int_equal(is.st_mode & 07777, 0600);
    assert_int_equal(is.st_size, 32);
}

static void test_auth_guest_key_that_is_none_is_a_fault(void **state)
{
    static const size_t sizes[] = {0, 31, 33};
    struct config c = {.serves_guests = true};
    (void)state;

    for (size_t i = 0; i < countof(sizes); i++) {
        struct buf faults = {0};
        kit_write(in_folder("guest.key"), SECRET, sizes[i]);
        struct auth *auth = auth_open(&c, folder, &faults);
        bool said = faults.len > 0 && strstr(faults.bytes, "guest.key: is not a key of 32 bytes\n");
        buf_done(&faults);
        auth_close(auth);
        assert_true(!auth && said);
    }
    (void)unlink(in_folder("guest.key"));
    struct buf faults = {0};
    struct auth *nowhere = auth_open(&c, in_folder("missing"), &faults);
    buf_done(&faults);
    assert_null(nowhere);
}

static void test_auth_without_a_folder_no_key_is_kept(void **state)
{
    struct config c = {.serves_guests = true};
    struct buf faults = {0};
    (void)state;

    (void)unlink(in_folder("guest.key"));
    struct auth *auth = auth_open(&c, NULL, &faults);
    auth_close(auth);
    buf_done(&faults);
    assert_non_null(auth);
    assert_int_not_equal(access(in_folder("guest.key"), F_OK), 0);
}

/* Two gateways without a folder in common, and one with another secret. */
static void test_auth_guests_of_one_cluster_are_the_same_everywhere(void **state)
{
    static const char secret[] = "0123456789abcdef0123456789abcdef\n";
    struct config c = {.serves_guests = true,
                       .cluster = {.secret_file = text(in_folder("cluster"))}};
    struct identity made = {0}, seen = {0}, strange = {0};
    struct buf faults = {0};
    (void)state;

    kit_write(c.cluster.secret_file, secret, sizeof secret - 1);
    struct auth *one = auth_open(&c, NULL, &faults), *two = auth_open(&c, "/nowhere", &faults);
    kit_write(c.cluster.secret_file, "x0123456789abcdef0123456789abcdef", 33);
    struct auth *other = auth_open(&c, NULL, &faults);
    assert_true(one && two && other);
    bool same = check(one, STR_NULL, &made) && check(two, buf_str(&made.token), &seen) &&
                strcmp(made.owner, seen.owner) == 0;
    bool refused = !check(other, buf_str(&made.token), &strange);
    kit_write(c.cluster.secret_file, secret, 31);
    struct auth *weak = auth_open(&c, NULL, &faults);
    bool said = strstr(faults.bytes, "cluster.secret_file: ") &&
                strstr(faults.bytes, "/cluster: must have at least 32 bytes\n");
    auth_close(one);
    auth_close(two);
    auth_close(other);
    buf_done(&faults);
    buf_done(&made.token);
    free(c.cluster.secret_file);
    assert_true(same && refused && !weak && said);
}

/* --- tokens for developers -------------------------------------------------------------------- */

static void test_auth_token_is_taken_by_its_own_gateway(void **state)
{
    struct config named = {.auth = {.issuer = text("us"), .audience = text("chat")}};
    struct auth *all[] = {open_guests(), open_keys((struct config){0}), open_keys(named)};
    char error[128];
    (void)state;

    for (size_t i = 0; i < countof(all); i++) {
        struct buf token = {0};
        bool made = auth_token(all[i], STR("alice"), 60, NOW_MS, &token, error);
        assert_true(made);
        assert_verdict(all[i], "own token", token, NULL);
        auth_close(all[i]);
    }
}

static void test_auth_token_is_refused_with_a_reason(void **state)
{
    struct auth *keys = open_keys((struct config){0});
    struct config c = {.guests = true, .serves_guests = true};
    struct buf out = {0};
    char error[4][128];
    (void)state;

    add_key(&c, "rs", ALG_RS256, "rsa.pem");
    struct auth *public_only = open_auth(&c);
    bool made = auth_token(keys, STR(""), 60, NOW_MS, &out, error[0]) ||
                auth_token(keys, STR("guest-x"), 60, NOW_MS, &out, error[1]) ||
                auth_token(keys, STR("alice"), 0, NOW_MS, &out, error[2]) ||
                auth_token(public_only, STR("alice"), 60, NOW_MS, &out, error[3]);
    buf_done(&out);
    auth_close(keys);
    auth_close(public_only);
    assert_false(made);
    assert_non_null(strstr(error[0], "1 to 255 bytes"));
    assert_non_null(strstr(error[1], "guest"));
    assert_non_null(strstr(error[2], "second"));
    assert_non_null(strstr(error[3], "no HS256 key"));
}

/* --- headers ---------------------------------------------------------------------------------- */

static void test_auth_bearer_takes_only_bearer(void **state)
{
    (void)state;
    assert_text(auth_bearer(STR("Bearer a.b.c")), "a.b.c");
    assert_text(auth_bearer(STR("bearer  a.b.c ")), "a.b.c");
    assert_text(auth_bearer(STR("Bearer ")), "");
    assert_text(auth_bearer(STR("Bearer")), "");
    assert_null_span(auth_bearer(STR("Basic a.b.c")));
    assert_null_span(auth_bearer(STR("Bearera.b.c")));
    assert_null_span(auth_bearer(STR("")));
    assert_null_span(auth_bearer(STR_NULL));
}

static void test_auth_cookie_finds_the_configured_name(void **state)
{
    struct config c = {.auth = {.cookie = text("session")}};
    struct auth *with = open_keys(c), *without = open_guests();
    static const struct {
        const char *header, *value;
    } rows[] = {
        {"session=a.b.c", "a.b.c"},
        {"a=b; session=a.b.c; c=d", "a.b.c"},
        {"a=b;session=a.b.c", "a.b.c"},
        {"session=one; session=two", "one"},
        {"session=", ""},
        {"session=a=b", "a=b"},
        {"xsession=a; sessionx=b; Session=c; session", NULL},
        {"a=session=x", NULL},
        {"", NULL},
        {";;; ;", NULL},
        {NULL, NULL},
    };
    bool right = true;
    (void)state;

    for (size_t i = 0; i < countof(rows); i++) {
        struct str got = auth_cookie(with, str_of(rows[i].header));
        right = right && !got.p == !rows[i].value && str_eq(got, str_of(rows[i].value));
    }
    right = right && !auth_cookie(without, STR("session=a")).p;
    auth_close(with);
    auth_close(without);
    assert_true(right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auth_each_algorithm_gives_the_owner),
        cmocka_unit_test(test_auth_many_es256_signatures_verify),
        cmocka_unit_test(test_auth_kidless_token_tries_all_keys_of_its_algorithm),
        cmocka_unit_test(test_auth_expiry_is_told_in_milliseconds),
        cmocka_unit_test(test_auth_one_token_counts_and_is_not_skipped),
        cmocka_unit_test(test_auth_errors_hold_nothing_of_the_token),
        cmocka_unit_test(test_auth_guest_is_new_each_time_and_comes_back),
        cmocka_unit_test(test_auth_expired_guest_may_start_anew),
        cmocka_unit_test(test_auth_guest_of_another_gateway_may_start_anew),
        cmocka_unit_test(test_auth_guests_beside_keys_only_when_said),
        cmocka_unit_test(test_auth_guest_key_is_made_private_and_kept),
        cmocka_unit_test(test_auth_guest_key_that_is_none_is_a_fault),
        cmocka_unit_test(test_auth_without_a_folder_no_key_is_kept),
        cmocka_unit_test(test_auth_guests_of_one_cluster_are_the_same_everywhere),
        cmocka_unit_test(test_auth_token_is_taken_by_its_own_gateway),
        cmocka_unit_test(test_auth_token_is_refused_with_a_reason),
        cmocka_unit_test(test_auth_bearer_takes_only_bearer),
        cmocka_unit_test(test_auth_cookie_finds_the_configured_name),
    };
    return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
