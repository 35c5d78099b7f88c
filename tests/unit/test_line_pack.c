/* Lines that are packed come back byte for byte, whatever they are; a naive reader of the format,
 * written from its description alone, finds the same. */
#include "proto/line_pack.h"

#include "proto/event.h"
#include "proto/varint.h"
#include "tests/support/t.h"

#define TID "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define TS INT64_C(1764500000000)

static struct buf lines, packed, unpacked, data;

static int teardown(void **state)
{
    (void)state;
    buf_done(&lines);
    buf_done(&packed);
    buf_done(&unpacked);
    buf_done(&data);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

/* --- a naive reader --------------------------------------------------------------------------- */

static const char *const names[] = {
    "token",          "thinking",     "tool_call",      "tool_result",    "progress",
    "task.created",   "task.started", "task.resumed",   "child",          "message",
    "custom",         "file",         "input_required", "input_received", "final_answer",
    "task.completed", "task.failed"};

static char its_id[27];

static uint64_t number(struct str *from)
{
    uint64_t n;
    assert_true(varint_take(from, &n));
    return n;
}

static void take(struct str *from, size_t n, struct buf *to)
{
    assert_true(n <= from->n);
    buf_put(to, from->p, n);
    *from = (struct str){from->p + n, from->n - n};
}

static void naive_data(struct str *from, bool again, const struct buf *long_line, struct buf *to)
{
    size_t n = (size_t)number(from);
    if (!again) {
        take(from, n, to);
        return;
    }
    size_t place = (size_t)number(from), count = (size_t)number(from), there = (size_t)number(from);
    take(from, place, to);
    assert_true(there + count <= long_line->len);
    buf_put(to, long_line->bytes + there, count);
    take(from, n - place - count, to);
}

static void naive_line(struct str *from, uint64_t seq, int64_t *ts, const struct buf *long_line,
                       struct buf *to)
{
    unsigned op = (unsigned char)*from->p++;
    from->n--;
    if (op == 0x3f) {
        take(from, (size_t)number(from), to);
        return;
    }
    if (op & 0x40) {
        uint64_t change = number(from);
        *ts += change & 1 ? -(int64_t)(change / 2) - 1 : (int64_t)(change / 2);
    }
    bool text = op & 1;
    assert_true((op & 0x3f) / 2 < countof(names));
    buf_putf(
        to,
        "{\"type\":\"event\",\"task_id\":\"%s\",\"seq\":%llu,\"ts\":%lld,\"event\":\"%s\",\"data\":%s",
        its_id, (unsigned long long)seq, (long long)*ts, names[(op & 0x3f) / 2],
        text ? "{\"text\":\"" : "");
    naive_data(from, op & 0x80, long_line, to);
    buf_puts(to, text ? "\"}}\n" : "}\n");
}

static void naive_unpack(struct str from, struct buf *to)
{
    struct buf line = {0}, long_line = {0};
    if (from.n == 0 || *from.p != 1) {
        buf_putstr(to, from);
        return;
    }
    from = (struct str){from.p + 1, from.n - 1};
    size_t size = (size_t)number(&from);
    memcpy(its_id, from.p, 26);
    from = (struct str){from.p + 26, from.n - 26};
    uint64_t seq = number(&from);
    int64_t ts = (int64_t)number(&from);
    for (; from.n > 0; seq++) {
        buf_clear(&line);
        naive_line(&from, seq, &ts, &long_line, &line);
        buf_putstr(to, buf_str(&line));
        if (line.len >= 256) {
            buf_clear(&long_line);
            buf_putstr(&long_line, buf_str(&line));
        }
    }
    assert_int_equal(to->len, size);
    buf_done(&line);
    buf_done(&long_line);
}

/* --- what goes in comes out ------------------------------------------------------------------- */

/* Into memory of exactly its size, so that a sanitizer sees a byte too many. */
static bool unpack_exactly(struct str bytes, struct buf *to)
{
    size_t n;
    if (!line_pack_size(bytes, &n))
        return false;
    char *exact = malloc(n + !n), *copy = malloc(bytes.n + !bytes.n);
    memcpy(copy, bytes.p, bytes.n);
    bool good = line_unpack((struct str){copy, bytes.n}, exact, n);
    buf_clear(to);
    if (good)
        buf_put(to, exact, n);
    free(copy);
    free(exact);
    return good;
}

static void check_lines(void)
{
    struct buf naive = {0}, appended = {0};
    buf_clear(&packed);
    buf_puts(&packed, "before");
    line_pack(&packed, buf_str(&lines));
    assert_memory_equal(packed.bytes, "before", 6);
    buf_consume(&packed, 6);
    assert_true(packed.len <= lines.len);
    assert_true(line_pack_is(buf_str(&packed)) == (packed.len < lines.len));
    assert_true(unpack_exactly(buf_str(&packed), &unpacked));
    assert_span(buf_str(&unpacked), lines.bytes, lines.len);
    naive_unpack(buf_str(&packed), &naive);
    assert_span(buf_str(&naive), lines.bytes, lines.len);
    buf_puts(&appended, "x");
    assert_true(line_unpack_to(&appended, buf_str(&packed)));
    assert_int_equal(appended.len, 1 + lines.len);
    assert_memory_equal(appended.bytes + 1, lines.bytes, lines.len);
    buf_done(&appended);
    buf_done(&naive);
}

static void add(uint64_t seq, int64_t ts, enum event_type event, const char *object)
{
    event_line(&lines, TID, seq, ts, event, str_of(object));
}

static void test_pack_of_a_token_is_its_text_and_two_bytes(void **state)
{
    (void)state;
    for (uint64_t seq = 95; seq < 195; seq++)
        add(seq, TS, EVENT_TOKEN, json("{'text':'hello'}"));
    check_lines();
    assert_in_range(packed.len, 700, 740);
    buf_clear(&lines);
    for (uint64_t seq = 1; seq <= 100; seq++) /* a byte more for another time */
        add(seq, TS + 63 * (int64_t)(seq % 2), EVENT_TOKEN, json("{'text':'hello'}"));
    check_lines();
    assert_in_range(packed.len, 800, 840);
}

/* A change of the format breaks what is on disk. */
static void test_pack_has_these_bytes(void **state)
{
    (void)state;
    add(9, TS, EVENT_TOKEN, json("{'text':'hi'}"));
    add(10, TS + 5, EVENT_THINKING, json("{'text':''}"));
    add(11, TS + 3, EVENT_TASK_COMPLETED, json("{'status':'completed'}"));
    buf_puts(&lines, "{}\n");
    check_lines();
    static const char expected[] = "\x01\x80\x03" TID "\x09\x80\x9a\x95\xa3\xad\x33"
                                   "\x01\x02hi\x43\x0a\x00\x5e\x03\x16{\"status\":\"completed\"}"
                                   "\x3f\x03{}\n";
    assert_span(buf_str(&packed), expected, sizeof expected - 1);
}

static void test_pack_knows_every_event(void **state)
{
    (void)state;
    for (unsigned event = 0; event < N_EVENT_TYPES; event++) {
        static const char *const objects[] = {"{}", "{\"text\":\"x\"}", "{\"text\":1}",
                                              "{\"text\":\"\",\"a\":\"\"}"};
        for (size_t i = 0; i < countof(objects); i++) {
            buf_clear(&lines);
            add(7, TS, event, objects[i]);
            check_lines();
            if (packed.len > 40 + strlen(objects[i]))
                fail_msg("%s is stored whole", event_name(event));
        }
    }
}

static void test_pack_follows_times_and_numbers(void **state)
{
    (void)state;
    static const int64_t times[] = {1000000000000,
                                    9999999999999,
                                    1000000000001,
                                    1764509999999,
                                    1764510000000,
                                    1764509999999,
                                    1764519999999,
                                    999999999999,
                                    10000000000000,
                                    -1,
                                    0,
                                    1764500000001};
    static const uint64_t seqs[] = {1, 8, 98, 996, 99999999990, UINT64_MAX - 20};
    for (size_t s = 0; s < countof(seqs); s++) {
        buf_clear(&lines);
        for (size_t i = 0; i < countof(times); i++)
            add(seqs[s] + i, times[i], EVENT_TOKEN, json("{'text':'t'}"));
        check_lines();
        assert_in_range(packed.len, 1, 640); /* four of twelve lines are whole */
    }
}

/* Each of these lines stands between two others, which are packed all the same. */
static void test_pack_keeps_a_line_that_deviates_whole(void **state)
{
    (void)state;
#define LINE(id, rest) "{\"type\":\"event\",\"task_id\":\"" id "\",\"seq\":" rest "\n"
#define GOOD "\"event\":\"token\",\"data\":{\"text\":\"a\"}}"
    static const char *const odd[] = {
        "\n",
        "{}\n",
        "no line of ours\n",
        "\x01\n",
        LINE("01ARZ3NDEKTSV4RRFFQ69G5FAW", "2,\"ts\":1764500000000," GOOD),
        LINE(TID, "3,\"ts\":1764500000000," GOOD),
        LINE(TID, "02,\"ts\":1764500000000," GOOD),
        LINE(TID, "2,\"from\":1,\"ts\":1764500000000," GOOD),
        LINE(TID, "2, \"ts\":1764500000000," GOOD),
        LINE(TID, "2,\"ts\":176450000000," GOOD),
        LINE(TID, "2,\"ts\":17645000000000," GOOD),
        LINE(TID, "2,\"ts\":0764500000000," GOOD),
        LINE(TID, "2,\"ts\":17645000000x0," GOOD),
        LINE(TID, "2,\"ts\":-764500000000," GOOD),
        LINE(TID, "2,\"ts\":1764500000000,\"event\":\"tokens\",\"data\":{\"text\":\"a\"}}"),
        LINE(TID, "2,\"ts\":1764500000000,\"event\":\"token\",\"data\":{\"text\":\"a\"}} "),
        LINE(TID, "2,\"ts\":1764500000000,\"event\":\"token\",\"data\":"),
        LINE(TID, "2,\"ts\":1764500000000"),
        LINE(TID, "2,\"ts\":1764500000000,"),
    };
#undef LINE
#undef GOOD
    for (size_t i = 0; i < countof(odd); i++) {
        buf_clear(&lines);
        add(1, TS, EVENT_TOKEN, json("{'text':'one'}"));
        buf_puts(&lines, odd[i]);
        add(3, TS, EVENT_TOKEN, json("{'text':'three'}"));
        check_lines();
        assert_true(line_pack_is(buf_str(&packed)));
        assert_in_range(packed.len, strlen(odd[i]), strlen(odd[i]) + 60);
        /* it comes first, or alone, or without its newline */
        buf_clear(&lines);
        buf_puts(&lines, odd[i]);
        if (odd[i][0] == '\x01')
            continue;
        check_lines();
        add(3, TS, EVENT_TOKEN, json("{'text':'three'}"));
        check_lines();
        lines.len--;
        check_lines();
    }
    buf_clear(&lines); /* only at first sight a text */
    add(1, TS, EVENT_TOKEN, "{\"text\":\"}");
    check_lines();
    buf_clear(&lines);
    check_lines(); /* nothing */
}

static void put_long(struct buf *to, size_t n, unsigned salt)
{
    buf_clear(to);
    for (size_t i = 0; i < n; i++)
        buf_putc(to, (char)('a' + (i * 7 + salt + i / 26) % 26));
}

static void test_pack_stores_a_long_string_once(void **state)
{
    (void)state;
    struct buf object = {0};
    put_long(&data, 5000, 1);
    buf_putf(&object, "{\"output\":\"%s\"}", data.bytes);
    add(1, TS, EVENT_FINAL_ANSWER, object.bytes);
    add(2, TS, EVENT_PROGRESS, json("{'progress':1}"));
    buf_clear(&object);
    buf_putf(&object, "{\"status\":\"completed\",\"output\":\"%s\",\"more\":\"\\\"\"}", data.bytes);
    add(3, TS, EVENT_TASK_COMPLETED, object.bytes);
    buf_done(&object);
    check_lines();
    assert_in_range(packed.len, 5000, 5200);
}

static void test_pack_stores_strings_with_quotes_once(void **state)
{
    (void)state;
    struct buf object = {0};
    for (int i = 0; i < 200; i++)
        buf_puts(&data, "\\\"\\\\");
    buf_putf(&object, "{\"output\":\"%s\"}", data.bytes);
    add(1, TS, EVENT_FINAL_ANSWER, object.bytes);
    add(2, TS, EVENT_TASK_COMPLETED, object.bytes);
    buf_done(&object);
    check_lines();
    assert_in_range(packed.len, 800, 900);
}

static void test_pack_tells_long_strings_apart(void **state)
{
    (void)state;
    for (size_t other = 290; other <= 310; other += 10) {
        struct buf object = {0};
        buf_clear(&lines);
        put_long(&data, 300, 1);
        buf_putf(&object, "{\"output\":\"%s\"}", data.bytes);
        add(1, TS, EVENT_FINAL_ANSWER, object.bytes);
        put_long(&data, other, 1);
        data.bytes[280] = '!';
        buf_clear(&object);
        buf_putf(&object, "{\"output\":\"%s\"}", data.bytes);
        add(2, TS, EVENT_TASK_COMPLETED, object.bytes);
        buf_done(&object);
        check_lines();
        assert_true(packed.len > 300 + other);
    }
}

/* --- anything --------------------------------------------------------------------------------- */

static unsigned seed;

static unsigned any(unsigned n)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % n;
}

static void any_object(void)
{
    static struct buf text;
    if (any(3))
        put_long(&text, any(8) ? any(40) : any(2000), any(3));
    buf_clear(&data);
    switch (any(6)) {
    case 0: buf_puts(&data, "{}"); break;
    case 1: buf_putf(&data, "{\"call_id\":%u,\"text\":\"%s\"}", any(9), buf_str(&text).p); break;
    case 2: buf_putf(&data, "{\"a\":\"\\\"\\\\\",\"b\":\"%s\"}", buf_str(&text).p); break;
    default: buf_putf(&data, "{\"text\":\"%s\"}", buf_str(&text).p); break;
    }
    if (any(300) == 0)
        buf_done(&text);
}

static void spoil(size_t at)
{
    size_t n = lines.len - at;
    switch (any(3)) {
    case 0: lines.bytes[at + any((unsigned)n - 1)] ^= (char)(1 << any(5)); break;
    case 1:
        memmove(lines.bytes + at + n / 2, lines.bytes + at + n / 2 + 1, n - n / 2 - 1);
        lines.len--;
        break;
    default: buf_puts(&lines, "{\"x\":1}\n"); break;
    }
}

static void any_lines(void)
{
    uint64_t seq = any(2) ? 1 : any(2000);
    int64_t ts = any(20) ? TS : (int64_t)any(2000);
    buf_clear(&lines);
    for (unsigned n = 1 + any(60); n > 0; n--, seq++) {
        size_t at = lines.len;
        ts += any(4) ? 0 : any(9) ? (int64_t)any(200) - 20 : (int64_t)any(1u << 30) - (1 << 28);
        any_object();
        event_line(&lines, TID, seq, ts, any(4) ? EVENT_TOKEN : any(N_EVENT_TYPES), buf_str(&data));
        if (any(15) == 0)
            spoil(at);
        seq += any(40) == 0;
    }
}

static void test_any_lines_come_back(void **state)
{
    (void)state;
    unsigned shorter = 0;
    for (seed = 1; seed < 3000000000u && shorter < 3000;) {
        any_lines();
        if (lines.bytes[0] != '{')
            continue;
        check_lines();
        shorter += packed.len < lines.len;
    }
}

/* A pack that was changed or cut gives no lines, or other ones, but touches no byte elsewhere. */
static void test_damage_is_refused_or_harmless(void **state)
{
    (void)state;
    struct buf damaged = {0};
    put_long(&data, 400, 2);
    for (seed = 7; seed % 1000 != 8;) {
        static unsigned rounds;
        if (rounds++ == 60)
            break;
        any_lines();
        if (lines.bytes[0] != '{')
            continue;
        buf_clear(&packed);
        line_pack(&packed, buf_str(&lines));
        if (!line_pack_is(buf_str(&packed)))
            continue;
        for (size_t n = 0; n < packed.len; n += 1 + any(9))
            assert_false(n > 0 && unpack_exactly((struct str){packed.bytes, n}, &unpacked));
        for (int i = 0; i < 300; i++) {
            buf_clear(&damaged);
            buf_putstr(&damaged, buf_str(&packed));
            for (unsigned k = any(3) + 1; k > 0; k--)
                damaged.bytes[any((unsigned)(any(2) ? damaged.len : 48))] = (char)any(256);
            (void)unpack_exactly(buf_str(&damaged), &unpacked);
        }
    }
    buf_done(&damaged);
}

static void put_number(uint64_t n)
{
    unsigned char bytes[VARINT_MAX];
    buf_put(&packed, bytes, (size_t)(varint_put(bytes, n) - bytes));
}

/* A line of 300 and some bytes, and one that has a part of it again: in a place of its data, of
 * which n bytes are said to be there. */
static bool repeat(uint64_t n, uint64_t place, uint64_t count, uint64_t there)
{
    put_long(&data, 300, 1);
    buf_clear(&packed);
    buf_putstr(&packed, STR("\x01\xd0\x0f" TID "\x01\x80\x9a\x95\xa3\xad\x33\x1c\xac\x02"));
    buf_putstr(&packed, buf_str(&data));
    buf_putstr(&packed, STR("\x9e"));
    put_number(n);
    put_number(place);
    put_number(count);
    put_number(there);
    buf_putstr(&packed, STR("{}"));
    return unpack_exactly(buf_str(&packed), &unpacked);
}

static void test_damaged_repeats_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t n, place, count, there;
    } bad[] = {
        {258, 1, 256, 1 << 20},
        {258, 1, 256, UINT64_MAX - 8},
        {258, 1, 256, 200},
        {258, 200, 256, 10},
        {258, 259, 256, 10},
        {258, UINT64_MAX, 256, 10},
        {258, 1, 1 << 20, 10},
        {1 << 20, 1, (1 << 20) - 2, 10},
        {258, 1, UINT64_MAX, 10},
        {600, 1, 256, 10},
        {UINT64_MAX, 1, UINT64_MAX - 2, 10},
    };
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(repeat(bad[i].n, bad[i].place, bad[i].count, bad[i].there));
}

/* A line without data, as it is packed, and as one that repeats no byte of no line before it. */
static void test_repeat_of_no_line_is_refused(void **state)
{
    (void)state;
    add(1, TS, EVENT_TOKEN, "");
    buf_putstr(&packed, STR("\x01"));
    put_number(lines.len);
    buf_putstr(&packed, STR(TID "\x01\x80\x9a\x95\xa3\xad\x33\x00\x00"));
    assert_true(unpack_exactly(buf_str(&packed), &unpacked));
    packed.len -= 2;
    buf_putstr(&packed, STR("\x80\x00\x00\x00\x00"));
    assert_false(unpack_exactly(buf_str(&packed), &unpacked));
}

static void test_damaged_sizes_are_refused(void **state)
{
    (void)state;
    size_t n;
    static const struct str bad[] = {
        {"\x01", 1},
        {"\x02\x01", 2},
        {"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
        {"\x01\x81\x80\x80\x08", 5}, /* one more than LINE_PACK_MOST */
        {"\x00", 1},
    };
    for (size_t i = 0; i < countof(bad); i++) {
        assert_false(line_pack_size(bad[i], &n));
        assert_false(line_unpack_to(&unpacked, bad[i]));
        assert_int_equal(unpacked.len, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pack_of_a_token_is_its_text_and_two_bytes),
        TEST(test_pack_has_these_bytes),
        TEST(test_pack_knows_every_event),
        TEST(test_pack_follows_times_and_numbers),
        TEST(test_pack_keeps_a_line_that_deviates_whole),
        TEST(test_pack_stores_a_long_string_once),
        TEST(test_pack_stores_strings_with_quotes_once),
        TEST(test_pack_tells_long_strings_apart),
        TEST(test_any_lines_come_back),
        TEST(test_damage_is_refused_or_harmless),
        TEST(test_damaged_repeats_are_refused),
        TEST(test_repeat_of_no_line_is_refused),
        TEST(test_damaged_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
