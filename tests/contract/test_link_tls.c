/* TLS of a link, its two ends in one process, over no socket. */
#include <stdlib.h>

#include "gateway/links/links_private.h"
#include "tests/support/t.h"

struct end {
    struct links *links;
    struct link *link;
    struct buf plain, sealed, opened;
};

static int peer; /* that there is one is all that TLS asks */

static struct end end_new(bool dials, const char *secret)
{
    struct end e = {.links = xcalloc(sizeof *e.links), .link = xcalloc(sizeof *e.link)};
    buf_puts(&e.links->secret, secret);
    e.link->links = e.links;
    e.link->peer = dials ? (struct peer *)(void *)&peer : NULL;
    link_tls_begin(e.link);
    return e;
}

static void end_free(struct end *e)
{
    link_tls_end(e->link);
    buf_done(&e->links->secret);
    free(e->links);
    free(e->link);
    buf_done(&e->plain);
    buf_done(&e->sealed);
    buf_done(&e->opened);
}

/* What one has to say reaches the other; NULL, or why the link must end. */
static const char *carry(struct end *from, struct end *to)
{
    const char *why = NULL;
    link_tls_seal(from->link, &from->plain, &from->sealed);
    if (from->sealed.len > 0)
        why = link_tls_take(to->link, buf_str(&from->sealed), &to->opened);
    buf_clear(&from->sealed);
    return why;
}

static void shake(struct end *front, struct end *home)
{
    for (int i = 0; i < 3; i++) {
        assert_null(carry(front, home));
        assert_null(carry(home, front));
    }
}

static void test_what_one_says_the_other_hears(void **state)
{
    struct end front = end_new(true, "secret"), home = end_new(false, "secret");
    (void)state;
    buf_puts(&front.plain, "from the front");
    shake(&front, &home);
    assert_true(str_eq(buf_str(&home.opened), STR("from the front")));
    assert_int_equal(front.plain.len, 0);
    end_free(&front);
    end_free(&home);
}

static void test_another_secret_ends_in_the_handshake(void **state)
{
    struct end front = end_new(true, "secret"), home = end_new(false, "another");
    const char *why = NULL;
    (void)state;
    for (int i = 0; i < 3 && !why; i++)
        if (!(why = carry(&front, &home)))
            why = carry(&home, &front);
    assert_non_null(why);
    buf_puts(&home.plain, "what waits when it ends");
    link_tls_seal(home.link, &home.plain, &home.sealed);
    assert_int_equal(home.plain.len, 23); /* never said */
    end_free(&front);
    end_free(&home);
}

/* An attacker on the wire can break a link, and no more: what waits to be said is written once more
 * when it ends (link_close). */
static void test_a_forged_record_ends_the_link_alone(void **state)
{
    static const char forged[] = "\x17\x03\x03\x00\x20 thirty-two bytes that are forged";
    struct end front = end_new(true, "secret"), home = end_new(false, "secret");
    (void)state;
    shake(&front, &home);
    const struct str bytes = {forged, sizeof forged - 1};
    assert_non_null(link_tls_take(home.link, bytes, &home.opened));
    assert_int_equal(home.opened.len, 0);
    buf_puts(&home.plain, "a pong");
    link_tls_seal(home.link, &home.plain, &home.sealed);
    assert_non_null(carry(&home, &front)); /* the alert, and nothing behind it */
    assert_int_equal(front.opened.len, 0);
    end_free(&front);
    end_free(&home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_one_says_the_other_hears),
        cmocka_unit_test(test_another_secret_ends_in_the_handshake),
        cmocka_unit_test(test_a_forged_record_ends_the_link_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
