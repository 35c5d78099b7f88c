/* Connections of workers are cut, and the gateway is killed, between any two steps of the store. */
#include "tests/support/worker_end.h"

/* --- cuts at random --------------------------------------------------------------------------- */

/* A worker that says count tokens, as section 10 of the protocol has it: it numbers, keeps, and
 * sends again. */
struct model {
    struct end end;
    uint64_t received, said, count, durable, messages;
    bool welcome, begun, over;
};

static unsigned crashes, returns;

static void model_line(struct model *m, uint64_t n)
{
    char text[32];
    if (!m->end.instance || m->end.closed)
        return;
    snprintf(text, sizeof text, "%d.", (int)n);
    if (n <= m->count)
        end_token(&m->end, run_id, (int)n, text);
    else
        end_says(&m->end, run_id, (int)n, json("'end':'done'"));
}

static void model_take(struct model *m, const char *line)
{
    const char *n = strstr(line, json("'n':"));
    const char *mark = strstr(line, run_id);
    if (strstr(line, json("'type':'welcome'"))) {
        m->welcome = true;
        if (m->begun && !mark)
            m->over = true;
        if (mark)
            m->durable = strtoull(mark + TASK_ID_LEN + 2, NULL, 10);
        for (uint64_t k = m->durable + 1; m->begun && mark && k <= m->said; k++)
            model_line(m, k);
    } else if (strstr(line, json("'type':'ack'"))) {
        m->durable = strtoull(n + 4, NULL, 10);
        assert_true(m->durable <= m->said);
    } else if (strstr(line, json("'type':'gone'"))) {
        m->over = true;
    } else if (n) {
        char ack[128];
        uint64_t number = strtoull(n + 4, NULL, 10);
        assert_int_equal(number, m->received + 1); /* none lost, none doubled */
        m->received = number;
        m->messages += strstr(line, json("'type':'message'")) != NULL;
        m->begun = true;
        snprintf(ack, sizeof ack, json("{'type':'ack','run':'%s','n':%d}"), run_id, (int)number);
        end_say(&m->end, ack);
    }
}

static void model_connect(struct model *m)
{
    char open[64] = "";
    m->welcome = false;
    returns++;
    buf_clear(&m->end.got);
    m->end.seen = 0;
    if (m->begun)
        snprintf(open, sizeof open, json("'%s':%d"), run_id, (int)m->received);
    end_join(&m->end, "model", 4, open);
}

static void send_message(void)
{
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'send','conversation_id':'c%d','task_id':'%s','content':'psst'}"),
             n_asked, run_id);
    session_receive(&ann->session, str_of(line));
}

static uint64_t count_lines(const struct client *c, const char *part)
{
    uint64_t n = 0;
    for (const char *at = c->got.bytes; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

static void random_life(uint64_t *random)
{
    struct model m = {.count = 5 + t_random(random) % 20};
    char expected[512] = "";
    ask(ann, "first");
    for (uint64_t n = 1; n <= m.count; n++)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%d.", (int)n);
    while (!m.over) {
        switch (t_random(random) % 8) {
        case 0:
            if (!m.end.instance)
                model_connect(&m);
            break;
        case 1:
            if (t_random(random) % 3 == 0)
                end_cut(&m.end);
            break;
        case 2: {
            const char *line = m.end.instance ? end_next(&m.end) : "";
            if (*line)
                model_take(&m, line);
            break;
        }
        case 3:
            if (m.begun && m.said <= m.count && m.welcome && m.end.instance)
                model_line(&m, ++m.said);
            break;
        case 4: kit_turn(kit); break;
        case 5: (void)kit_step(kit); break;
        case 7:
            if (t_random(random) % 40 == 0) {
                end_cut(&m.end);
                crash();
                crashes++;
            }
            break;
        case 6:
            if (t_random(random) % 20 == 0)
                send_message();
            break;
        }
        assert_int_equal(m.end.closed, 0);
    }
    char want[600], resume[256];
    end_done(&m.end);
    client_free(ann);
    ann = client_new(kit, "ann");
    snprintf(resume, sizeof resume,
             json("{'type':'resume','conversation_id':'c%d','task_id':'%s','after':0}"), n_asked,
             run_id);
    client_say(ann, resume);
    snprintf(want, sizeof want, json("'output':'%s'"), expected);
    expect_end(ann, want);
    assert_true(count_lines(ann, json("'event':'message'")) <= m.messages);
}

static void test_cuts_at_any_place_lose_and_double_nothing(void **state)
{
    uint64_t random = t_seed();
    (void)state;
    unsigned n = t_often(2000, 600);
    for (unsigned i = 0; i < n; i++)
        random_life(&random);
    assert_true(crashes > n / 4 && returns > n);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cuts_at_any_place_lose_and_double_nothing),
    };
    return worker_end_run(tests, countof(tests));
}
