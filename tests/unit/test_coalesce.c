#include "proto/event.h"
#include "tests/support/t.h"

#define TID "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define LINE(seq, event, data)                                                   \
    "{\"type\":\"event\",\"task_id\":\"" TID "\",\"seq\":" seq ",\"ts\":100" seq \
    ",\"event\":\"" event "\",\"data\":" data "}\n"
#define MERGED(seq, from, event, data)                                                             \
    "{\"type\":\"event\",\"task_id\":\"" TID "\",\"seq\":" seq ",\"from\":" from ",\"ts\":100" seq \
    ",\"event\":\"" event "\",\"data\":" data "}\n"

static struct buf out;

static int teardown(void **state)
{
    (void)state;
    buf_done(&out);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static void test_coalesce_merges_runs_of_lone_texts(void **state)
{
    (void)state;
    const struct {
        const char *lines, *merged;
    } rows[] = {
        {"", ""},
        {json(LINE("1", "token", "{'text':'a'}")), json(LINE("1", "token", "{'text':'a'}"))},
        {json(LINE("1", "token", "{'text':'a'}") LINE("2", "token", "{'text':'b\\n'}")
                  LINE("3", "token", "{'text':''}")),
         json(MERGED("3", "1", "token", "{'text':'ab\\n'}"))},
        /* another kind of event ends a run */
        {json(LINE("1", "token", "{'text':'a'}") LINE("2", "thinking", "{'text':'b'}")
                  LINE("3", "thinking", "{'text':'c'}") LINE("4", "progress", "{'progress':1}")
                      LINE("5", "token", "{'text':'d'}")),
         json(LINE("1", "token", "{'text':'a'}") MERGED("3", "2", "thinking", "{'text':'bc'}")
                  LINE("4", "progress", "{'progress':1}") LINE("5", "token", "{'text':'d'}"))},
        /* only tokens and thoughts are merged, and only bare ones */
        {json(LINE("1", "custom", "{'text':'a'}") LINE("2", "custom", "{'text':'b'}")),
         json(LINE("1", "custom", "{'text':'a'}") LINE("2", "custom", "{'text':'b'}"))},
        {json(LINE("1", "token", "{'text':'a','x':''}") LINE("2", "token", "{'text':'b'}")
                  LINE("3", "token", "{'x':1,'text':'c'}")),
         json(LINE("1", "token", "{'text':'a','x':''}") LINE("2", "token", "{'text':'b'}")
                  LINE("3", "token", "{'x':1,'text':'c'}"))},
        /* quotes and backslashes at the ends */
        {json(LINE("1", "token", "{'text':'\\''}") LINE("2", "token", "{'text':'\\\\'}")
                  LINE("3", "token", "{'text':'\\\\\\''}")),
         json(MERGED("3", "1", "token", "{'text':'\\'\\\\\\\\\\''}"))},
        {json(LINE("1", "token", "{'text':'a\\\\','b':''}") LINE("2", "token", "{'text':'b'}")),
         json(LINE("1", "token", "{'text':'a\\\\','b':''}") LINE("2", "token", "{'text':'b'}"))},
        /* a hole is not papered over */
        {json(LINE("1", "token", "{'text':'a'}") LINE("3", "token", "{'text':'b'}")),
         json(LINE("1", "token", "{'text':'a'}") LINE("3", "token", "{'text':'b'}"))},
        /* what was merged can be merged again */
        {json(MERGED("3", "1", "token", "{'text':'ab'}")
                  MERGED("5", "4", "token", "{'text':'cd'}")),
         json(MERGED("5", "1", "token", "{'text':'abcd'}"))},
        /* what is no line of ours passes */
        {json("x\n\n" LINE("1", "token", "{'text':'a'}") "y"),
         json("x\n\n" LINE("1", "token", "{'text':'a'}") "y")},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        buf_clear(&out);
        event_coalesce(str_of(rows[i].lines), &out);
        assert_span(buf_str(&out), rows[i].merged, strlen(rows[i].merged));
    }
}

static size_t first_line_len(size_t text_len, size_t *ret_n_lines)
{
    struct buf lines = {0}, data = {0};
    for (uint64_t seq = 9; seq <= 10; seq++) {
        buf_clear(&data);
        buf_puts(&data, json("{'text':'"));
        for (size_t i = 0; i < text_len / 2 + (seq == 9 ? text_len % 2 : 0); i++)
            buf_putc(&data, 'x');
        buf_puts(&data, json("'}"));
        event_line(&lines, TID, seq, 1000, EVENT_TOKEN, buf_str(&data));
    }
    buf_clear(&out);
    event_coalesce(buf_str(&lines), &out);
    buf_done(&lines);
    buf_done(&data);
    *ret_n_lines = 0;
    for (size_t i = 0; i < out.len; i++)
        *ret_n_lines += out.bytes[i] == '\n';
    return (size_t)(strchr(out.bytes, '\n') + 1 - out.bytes);
}

static void test_coalesce_merged_line_fills_a_message_at_most(void **state)
{
    (void)state;
    const size_t around =
        sizeof(MERGED("10", "9", "token", "{\"text\":\"\"}")) - 1 - 1; /* ts 10010 is one longer */
    size_t n_lines;
    assert_int_equal(first_line_len(MAX_MESSAGE_OUT - around, &n_lines), MAX_MESSAGE_OUT);
    assert_int_equal(n_lines, 1);
    (void)first_line_len(MAX_MESSAGE_OUT - around + 1, &n_lines);
    assert_int_equal(n_lines, 2);
}

static void test_coalesce_longer_line_stays_as_it_is(void **state)
{
    (void)state;
    struct buf lines = {0}, data = {0};
    buf_puts(&data, json("{'text':'"));
    for (size_t i = 0; i < 2 * MAX_MESSAGE_OUT; i++)
        buf_putc(&data, 'x');
    buf_puts(&data, json("'}"));
    for (uint64_t seq = 1; seq <= 3; seq++)
        event_line(&lines, TID, seq, 1000, EVENT_TOKEN,
                   seq == 2 ? buf_str(&data) : str_of(json("{'text':'a'}")));
    event_coalesce(buf_str(&lines), &out);
    bool same = str_eq(buf_str(&out), buf_str(&lines));
    buf_done(&lines);
    buf_done(&data);
    assert_true(same);
}

/* --- the naive oracle: an array of events, merged by the rule's words ------------------------- */

enum { MOST = 60 };

struct event {
    uint64_t seq, from;
    enum event_type type;
    bool bare;
    char text[MOST * 12]; /* escaped */
};

static size_t render(const struct event *e, char *line, size_t size)
{
    char from[40] = "";
    if (e->from != e->seq)
        snprintf(from, sizeof from, json(",'from':%llu"), (unsigned long long)e->from);
    int n = snprintf(line, size,
                     json("{'type':'event','task_id':'" TID "','seq':%llu%s,'ts':%llu,"
                          "'event':'%s','data':{'text':'%s'%s}}\n"),
                     (unsigned long long)e->seq, from, 5000ull + e->seq, event_name(e->type),
                     e->text, e->bare ? "" : json(",'x':''"));
    return (size_t)n;
}

static struct event make_event(uint64_t *random, uint64_t seq)
{
    const char *const texts[] = {"",     "a",       "hello ",         "\\n",
                                 "\\\"", "\\\\",    "\\\\\\\"",       "\xf0\x9f\x98\x80",
                                 "}}",   "\\u0000", json(",\\'b\\':")};
    static const enum event_type types[] = {EVENT_TOKEN, EVENT_TOKEN, EVENT_TOKEN, EVENT_THINKING,
                                            EVENT_CUSTOM};
    struct event e = {.seq = seq,
                      .from = seq,
                      .type = types[t_below(random, countof(types))],
                      .bare = t_below(random, 8) > 0};
    snprintf(e.text, sizeof e.text, "%s", texts[t_below(random, countof(texts))]);
    return e;
}

static void test_coalesce_random_lines_come_out_as_from_the_oracle(void **state)
{
    (void)state;
    uint64_t random = t_seed();
    for (int round = 0; round < 3000; round++) {
        static struct event events[MOST], merged[MOST];
        struct buf lines = {0}, expected = {0};
        size_t n = t_below(&random, MOST), n_merged = 0;
        uint64_t seq = 1 + t_below(&random, 200);
        char line[2000];
        for (size_t i = 0; i < n; i++, seq++) {
            events[i] = make_event(&random, seq);
            buf_put(&lines, line, render(&events[i], line, sizeof line));
            struct event *last = n_merged > 0 ? &merged[n_merged - 1] : NULL;
            if (last && last->bare && events[i].bare && last->type == events[i].type &&
                last->type != EVENT_CUSTOM) {
                last->seq = seq;
                size_t len = strlen(last->text);
                snprintf(last->text + len, sizeof last->text - len, "%s", events[i].text);
            } else {
                merged[n_merged++] = events[i];
            }
        }
        for (size_t i = 0; i < n_merged; i++)
            buf_put(&expected, line, render(&merged[i], line, sizeof line));
        buf_clear(&out);
        event_coalesce(buf_str(&lines), &out);
        bool same = str_eq(buf_str(&out), buf_str(&expected));
        if (!same)
            print_error("round %d\n%s\n---\n%s\n", round, out.bytes, expected.bytes);
        buf_done(&lines);
        buf_done(&expected);
        assert_true(same);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_coalesce_merges_runs_of_lone_texts),
        TEST(test_coalesce_merged_line_fills_a_message_at_most),
        TEST(test_coalesce_longer_line_stays_as_it_is),
        TEST(test_coalesce_random_lines_come_out_as_from_the_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
