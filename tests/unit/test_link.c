/* Frames between nodes: their bytes, their order, and who is spoken to. */
#include "proto/link.h"

#include <stdlib.h>

#include "tests/support/t.h"

static struct buf out;

static int teardown(void **state)
{
    (void)state;
    buf_done(&out);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

/* A copy of its own, so that reading beyond is seen. */
static enum link_reading read_copy(struct str bytes, size_t most, struct link_frame *ret,
                                   size_t *ret_left)
{
    static char *copy;
    free(copy);
    copy = xalloc(bytes.n);
    memcpy(copy, bytes.p, bytes.n);
    struct str from = {copy, bytes.n};
    enum link_reading how = link_read(&from, most, ret);
    *ret_left = from.n;
    return how;
}

static void golden(const struct link_frame *f, const char *bytes, size_t n)
{
    struct link_frame read;
    size_t left;
    buf_clear(&out);
    link_put(&out, f);
    assert_int_equal(out.len, n);
    assert_memory_equal(out.bytes, bytes, n);
    assert_int_equal(read_copy(buf_str(&out), LINK_MOST, &read, &left), LINK_READ);
    assert_int_equal(left, 0);
    assert_int_equal(read.kind, f->kind);
    assert_int_equal(read.id, f->id);
    assert_int_equal(read.flags, f->flags);
    for (int i = 0; i < 2; i++)
        assert_int_equal(read.number[i], f->number[i]);
    for (int i = 0; i < LINK_TEXTS; i++)
        assert_true(str_eq(read.text[i], f->text[i]));
    assert_true(str_eq(read.bytes, f->bytes));
}

#define GOLDEN(f, bytes) golden(f, bytes, sizeof(bytes) - 1)

static void test_bytes_of_every_kind(void **state)
{
    (void)state;
    GOLDEN((&(struct link_frame){.kind = LINK_HELLO,
                                 .number = {1, 300},
                                 .text = {STR("c"), STR("n1")},
                                 .bytes = STR("NONCE")}),
           "\x0d\0\0\0\x01\0\0\0\0\x01\xac\x02\x01"
           "c\x02n1NONCE");
    GOLDEN((&(struct link_frame){.kind = LINK_PROOF, .bytes = STR("MAC")}),
           "\x03\0\0\0\x02\0\0\0\0MAC");
    GOLDEN((&(struct link_frame){.kind = LINK_BYE, .text = {STR("no")}}),
           "\x03\0\0\0\x03\0\0\0\0\x02no");
    GOLDEN((&(struct link_frame){.kind = LINK_OPEN,
                                 .id = 0x01020304,
                                 .flags = LINK_IS_SOCKET,
                                 .number = {7},
                                 .text = {STR("o"), STR("q"), STR(""), STR("{}"), STR("g")}}),
           "\x0c\0\0\0\x04\x04\x03\x02\x01\x01\x07\x01o\x01q\0\x02{}\x01g");
    GOLDEN((&(struct link_frame){.kind = LINK_IN, .id = 1, .number = {2}, .bytes = STR("{}")}),
           "\x03\0\0\0\x05\x01\0\0\0\x02{}");
    GOLDEN((&(struct link_frame){
               .kind = LINK_OUT, .id = 1, .flags = LINK_FOLLOWS | LINK_IS_TOLD, .bytes = STR("l")}),
           "\x02\0\0\0\x06\x01\0\0\0\x03l");
    GOLDEN((&(struct link_frame){.kind = LINK_ROOM, .id = 1, .number = {32768}}),
           "\x03\0\0\0\x07\x01\0\0\0\x80\x80\x02");
    GOLDEN((&(struct link_frame){.kind = LINK_CLOSE, .id = 1, .number = {1001}}),
           "\x02\0\0\0\x08\x01\0\0\0\xe9\x07");
    GOLDEN(
        (&(struct link_frame){.kind = LINK_REQUEST,
                              .id = 2,
                              .number = {1, 2},
                              .text = {STR("o"), STR("q"), STR("f"), STR("r"), STR("g"), STR("t")},
                              .bytes = STR("{}")}),
        "\x10\0\0\0\x09\x02\0\0\0\x01\x02\x01o\x01q\x01"
        "f\x01r\x01g\x01t{}");
    GOLDEN(
        (&(struct link_frame){.kind = LINK_REPLY, .id = 2, .text = {STR("x")}, .bytes = STR("{}")}),
        "\x05\0\0\0\x0a\x02\0\0\0\0\x01x{}");
    GOLDEN((&(struct link_frame){.kind = LINK_MOVED, .id = 2}), "\0\0\0\0\x0b\x02\0\0\0");
    GOLDEN((&(struct link_frame){.kind = LINK_PING}), "\0\0\0\0\x0c\0\0\0\0");
    GOLDEN((&(struct link_frame){.kind = LINK_PONG}), "\0\0\0\0\x0d\0\0\0\0");
    GOLDEN((&(struct link_frame){.kind = LINK_PIPE,
                                 .id = 7,
                                 .flags = LINK_IS_OPERATOR,
                                 .text = {STR("me"), STR("::1")}}),
           "\x8\0\0\0\x0e\7\0\0\0\1"
           "\2me\3::1");
    GOLDEN((&(struct link_frame){.kind = LINK_BYTES, .id = 7, .bytes = STR("GET")}),
           "\3\0\0\0\x0f\7\0\0\0"
           "GET");
    GOLDEN((&(struct link_frame){.kind = LINK_TOOK, .id = 7, .number = {3}}),
           "\1\0\0\0\x10\7\0\0\0\3");
    GOLDEN((&(struct link_frame){.kind = LINK_END, .id = 7}), "\0\0\0\0\x11\7\0\0\0");
    GOLDEN((&(struct link_frame){.kind = LINK_REDEEM, .id = 7, .text = {STR("code")}}),
           "\5\0\0\0\x12\7\0\0\0\4"
           "code");
    assert_int_equal(N_LINK_KINDS, 19); /* a further kind has its bytes here */
}

static void test_whole_frames_alone(void **state)
{
    struct link_frame read;
    size_t left;
    (void)state;
    link_put(&out, &(struct link_frame){.kind = LINK_IN, .id = 9, .bytes = STR("message")});
    size_t first = out.len;
    link_put(&out, &(struct link_frame){.kind = LINK_PING});
    for (size_t n = 0; n < first; n++)
        assert_int_equal(read_copy((struct str){out.bytes, n}, LINK_MOST, &read, &left),
                         LINK_SHORT);
    assert_int_equal(read_copy(buf_str(&out), LINK_MOST, &read, &left), LINK_READ);
    assert_int_equal(read.kind, LINK_IN);
    assert_int_equal(left, LINK_HEAD);
}

static void test_broken_bytes(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
    } rows[] = {
#define ROW(bytes) {bytes, sizeof(bytes) - 1}
        ROW("\0\0\0\0\0\0\0\0\0"),             /* no kind */
        ROW("\0\0\0\0\x0e\0\0\0\0"),           /* one that comes later */
        ROW("\x01\0\0\x04\x05\0\0\0\0"),       /* longer than any */
        ROW("\x01\0\0\0\x0c\0\0\0\0x"),        /* a ping with a payload */
        ROW("\0\0\0\0\x07\x01\0\0\0"),         /* without its number */
        ROW("\x01\0\0\0\x07\x01\0\0\0\x80"),   /* with half of it */
        ROW("\x02\0\0\0\x07\x01\0\0\0\x01\0"), /* with more */
        ROW("\0\0\0\0\x06\x01\0\0\0"),         /* without flags */
        ROW("\x02\0\0\0\x03\0\0\0\0\x02n"),    /* a text that is longer than its frame */
#undef ROW
    };
    struct link_frame read;
    size_t left;
    (void)state;
    for (size_t i = 0; i < countof(rows); i++)
        if (read_copy((struct str){rows[i].bytes, rows[i].n}, LINK_MOST, &read, &left) !=
            LINK_BROKEN)
            fail_msg("row %zu was not refused", i);
    link_put(&out, &(struct link_frame){.kind = LINK_PROOF, .bytes = STR("0123456789")});
    assert_int_equal(read_copy(buf_str(&out), 9, &read, &left), LINK_BROKEN);
    assert_int_equal(read_copy(buf_str(&out), 10, &read, &left), LINK_READ);
}

static void test_written_in_place(void **state)
{
    struct buf whole = {0};
    struct link_frame f = {.kind = LINK_OUT, .id = 3, .flags = 1};
    (void)state;
    size_t begun = link_begin(&out, &f);
    buf_puts(&out, "one\ntwo");
    link_end(&out, begun);
    f.bytes = STR("one\ntwo");
    link_put(&whole, &f);
    assert_true(str_eq(buf_str(&out), buf_str(&whole)));
    buf_done(&whole);
}

static struct link_frame hello(uint64_t version, uint64_t incarnation, const char *cluster)
{
    static char nonce[LINK_NONCE];
    return (struct link_frame){.kind = LINK_HELLO,
                               .number = {version, incarnation},
                               .text = {str_of(cluster), STR("n")},
                               .bytes = {nonce, sizeof nonce}};
}

static void test_refusals(void **state)
{
    const struct link_frame mine = hello(1, 10, "a");
    (void)state;
    struct link_frame theirs = hello(1, 11, "a");
    assert_null(link_refuses(&mine, &theirs));
    theirs = hello(2, 11, "a");
    assert_string_equal(link_refuses(&mine, &theirs), "it speaks another version of links");
    theirs = hello(1, 11, "b");
    assert_string_equal(link_refuses(&mine, &theirs), "it belongs to another cluster");
    theirs = hello(1, 10, "a");
    assert_string_equal(link_refuses(&mine, &theirs), "it is this node");
    theirs = hello(1, 11, "a");
    theirs.bytes.n--;
    assert_string_equal(link_refuses(&mine, &theirs), "it does not begin with a hello");
    theirs = (struct link_frame){.kind = LINK_PING};
    assert_string_equal(link_refuses(&mine, &theirs), "it does not begin with a hello");
}

/* A proof of one side is none of the other, nor of another pair of hellos. */
static void test_proofs_differ(void **state)
{
    const struct link_frame a = hello(1, 10, "a"), b = hello(1, 11, "a");
    struct buf texts[4] = {{0}};
    (void)state;
    link_put_proven(&texts[0], true, &a, &b, STR_NULL);
    link_put_proven(&texts[1], false, &a, &b, STR_NULL);
    link_put_proven(&texts[2], true, &b, &a, STR_NULL);
    link_put_proven(&texts[3], true, &a, &b, STR("a channel"));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_false(str_eq(buf_str(&texts[i]), buf_str(&texts[j])));
    for (int i = 0; i < 4; i++)
        buf_done(&texts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bytes_of_every_kind), TEST(test_whole_frames_alone), TEST(test_broken_bytes),
        TEST(test_written_in_place),    TEST(test_refusals),           TEST(test_proofs_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
