/* A kill between any two steps: each story is told again and again, and the gateway dies one step
 * of the store later each time, once with that step on disk and untold, once without it. Everything
 * acknowledged is there afterwards, and nothing has happened twice.
 *
 * Every commit and every look-up of a story is such a step, so that every state that can be on disk
 * while it runs is found by a restart. */
#include "tests/support/hub_kit.h"

struct story {
    struct kit *k;
    struct client *c;
    char task[TASK_ID_LEN + 1];
};

/* Asks without insisting on a reply: the gateway may be dead. */
static void say(struct story *s, const char *line)
{
    client_say(s->c, line);
}

static bool has_told(const struct story *s, const char *part)
{
    return s->c->got.len > 0 && strstr(s->c->got.bytes, part);
}

static bool is_acked(const struct story *s, const char *id)
{
    char part[64];
    snprintf(part, sizeof part, json("{'type':'ok','id':'%s'"), id);
    return has_told(s, part);
}

/* Starts a task, and says whether it was told that it did. */
static bool start(struct story *s, const char *id, const char *more)
{
    char line[256], part[64];
    snprintf(line, sizeof line,
             json("{'type':'chat','id':'%s','conversation_id':'c','message':'%s'%s}"), id, id,
             more);
    snprintf(part, sizeof part, json("{'type':'started','id':'%s'"), id);
    say(s, line);
    if (!has_told(s, part))
        return false;
    snprintf(s->task, sizeof s->task, "%s", line_field(strstr(s->c->got.bytes, part), "task_id"));
    return true;
}

static void ask(struct story *s, const char *type, const char *id, const char *more)
{
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'%s','id':'%s','conversation_id':'c','task_id':'%s'%s}"), type, id,
             s->task, more);
    say(s, line);
}

static struct run *find_run(const struct story *s, const char *input)
{
    for (size_t i = s->k->n_runs; i-- > 0;)
        if (strcmp(s->k->runs[i]->input, input) == 0)
            return s->k->runs[i];
    return NULL;
}

static unsigned count_runs(const struct story *s, const char *input)
{
    unsigned n = 0;
    for (size_t i = 0; i < s->k->n_runs; i++)
        n += strncmp(s->k->runs[i]->input, input, strlen(input)) == 0;
    return n;
}

static void end_run(struct story *s, const char *input)
{
    struct run *r = find_run(s, input);
    if (r && !r->freed)
        run_end(s->k, r, RUN_DONE, "");
}

static unsigned count(const char *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text; at && (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

/* All that is known of the story's task: its record, and its stream. */
static const char *told_of_task(struct story *s)
{
    s->c->seen = s->c->got.len;
    ask(s, "resume", "r", "");
    return s->c->got.bytes + s->c->seen;
}

/* --- send ------------------------------------------------------------------------------------- */

static void send_story(struct story *s)
{
    if (!start(s, "work", ""))
        return;
    ask(s, "send", "m1", json(",'content':'first'"));
    struct run *r = find_run(s, "work");
    if (r)
        r->full = true;
    ask(s, "send", "m2", json(",'content':'second'"));
    ask(s, "send", "m3", json(",'content':'third'"));
    if (r)
        r->full = false;
    kit_pass(s->k, 100);
    ask(s, "send", "m4", json(",'content':'fourth'"));
    end_run(s, "work");
}

static void check_send(struct story *s, const bool acked[4])
{
    const char *const messages[] = {json("'content':'first'"), json("'content':'second'"),
                                    json("'content':'third'"), json("'content':'fourth'")};
    const char *told = told_of_task(s), *before = NULL;
    for (size_t i = 0; i < countof(messages); i++) {
        unsigned n = count(told, messages[i]); /* an event, or undelivered */
        assert_true(n <= 1);
        if (acked[i])
            assert_int_equal(n, 1);
        const char *at = strstr(told, json("'event':'message'")) ? strstr(told, messages[i]) : NULL;
        if (before && at && strstr(told, json("'undelivered'")) == NULL)
            assert_true(at > before);
        before = at ? at : before;
    }
}

/* --- respond ---------------------------------------------------------------------------------- */

static void respond_story(struct story *s)
{
    if (!start(s, "work", ""))
        return;
    struct run *r = find_run(s, "work");
    if (r && !r->freed)
        run_say(s->k, r,
                json("{'event':'input_required','data':{'input_id':'q','kind':'approval',"
                     "'prompt':'?'}}"));
    ask(s, "respond", "m1", json(",'input_id':'q','answer':true"));
    ask(s, "respond", "m2", json(",'input_id':'q','answer':true"));
    end_run(s, "work");
}

static void check_respond(struct story *s, const bool acked[4])
{
    const char *told = told_of_task(s);
    unsigned received = count(told, json("'event':'input_received'"));
    assert_true(received <= 1);
    if (!acked[0] && !acked[1] && received == 0)
        return;
    assert_int_equal(received, 1);
    ask(s, "respond", "a1", json(",'input_id':'q','answer':true"));
    assert_true(is_acked(s, "a1"));
    ask(s, "respond", "a2", json(",'input_id':'q','answer':false"));
    assert_true(has_told(s, json("{'type':'error','id':'a2','code':'conflict'")));
    ask(s, "respond", "a3", json(",'input_id':'other','answer':true"));
    assert_true(has_told(s, json("{'type':'error','id':'a3','code':'not_found'")));
}

/* --- ack -------------------------------------------------------------------------------------- */

static void ack_story(struct story *s)
{
    if (!start(s, "work", json(",'background':true")))
        return;
    struct run *r = find_run(s, "work");
    if (r && !r->freed)
        run_say(s->k, r, json("{'event':'final_answer','data':{'output':'42'}}"));
    end_run(s, "work");
    char more[64];
    snprintf(more, sizeof more, json(",'task_ids':['%s']"), s->task);
    say(s, json("{'type':'results','conversation_id':'c'}"));
    char line[160];
    snprintf(line, sizeof line, json("{'type':'ack','id':'m1','conversation_id':'c'%s}"), more);
    say(s, line);
    snprintf(line, sizeof line, json("{'type':'ack','id':'m2','conversation_id':'c'%s}"), more);
    say(s, line);
    if (is_acked(s, "m1"))
        assert_true(has_told(s, json("'id':'m1','acked':1}")));
    if (is_acked(s, "m2"))
        assert_true(has_told(s, json("'id':'m2','acked':0}")));
}

static void check_ack(struct story *s, const bool acked[4])
{
    s->c->seen = s->c->got.len;
    say(s, json("{'type':'results','conversation_id':'c'}"));
    unsigned offered = count(s->c->got.bytes + s->c->seen, json("'answer':"));
    assert_true(offered <= 1);
    if (acked[0])
        assert_int_equal(offered, 0);
    ask(s, "task", "t", ""); /* it is known all the same */
    assert_true(has_told(s, json("{'type':'task','id':'t'")));
}

/* --- notify_on_complete ----------------------------------------------------------------------- */

static void notify_story(struct story *s)
{
    if (!start(s, "work", json(",'background':true,'notify_on_complete':true")))
        return;
    start(s, "chat", "");
    end_run(s, "work");
    end_run(s, "chat"); /* now the turn begins */
    for (size_t i = 0; i < s->k->n_runs; i++)
        if (strncmp(s->k->runs[i]->input, "Background task", 15) == 0 && !s->k->runs[i]->freed)
            run_end(s->k, s->k->runs[i], RUN_DONE, "");
}

static void check_notify(struct story *s, const bool acked[4])
{
    (void)acked;
    end_run(s, "chat"); /* one that had not begun before the kill */
    end_run(s, "work");
    s->c->seen = s->c->got.len;
    say(s, json("{'type':'tasks','conversation_id':'c'}"));
    say(s, json("{'type':'history','conversation_id':'c'}"));
    const char *told = s->c->got.bytes + s->c->seen;
    assert_int_equal(count(told, json("'type':'notice'")), 1);
    assert_int_equal(count(told, json("'role':'system'")), 1);
    assert_true(count_runs(s, "Background task") <= 1);
}

/* --- enqueue ---------------------------------------------------------------------------------- */

static void enqueue_story(struct story *s)
{
    if (!start(s, "one", ""))
        return;
    start(s, "two", json(",'when_busy':'enqueue'"));
    start(s, "three", json(",'when_busy':'enqueue'"));
    end_run(s, "one");
    end_run(s, "two");
    end_run(s, "three");
}

static void check_enqueue(struct story *s, const bool acked[4])
{
    static const char *const inputs[] = {"one", "two", "three"};
    (void)acked;
    for (int i = 0; i < 3; i++) /* those that waited run now, one after the other */
        for (size_t n = 0; n < countof(inputs); n++) {
            struct run *r = find_run(s, inputs[n]);
            for (size_t other = n + 1; r && !r->freed && other < countof(inputs); other++)
                assert_true(!find_run(s, inputs[other]) || find_run(s, inputs[other])->freed);
            end_run(s, inputs[n]);
        }
    say(s, json("{'type':'tasks','id':'all','conversation_id':'c'}"));
    const char *all = strstr(s->c->got.bytes, json("{'type':'tasks','id':'all'"));
    for (size_t n = 0; n < countof(inputs); n++)
        assert_true(count_runs(s, inputs[n]) <= 1);
    assert_int_equal(count(all, json("'status':'pending'")), 0);
    assert_int_equal(count(all, json("'status':'running'")), 0);
}

/* --- the telling ------------------------------------------------------------------------------ */

struct plot {
    const char *name;
    void (*tell)(struct story *s);
    void (*check)(struct story *s, const bool acked[4]);
};

/* False when the story ended before the kill came. */
static bool tell_until(const struct plot *plot, unsigned steps, bool applied)
{
    struct story s = {.k = kit_new()};
    s.c = client_new(s.k, "ann");
    s.k->bounded = true;
    s.k->steps_left = steps;
    plot->tell(&s);
    bool killed = s.k->steps_left == 0;
    bool acked[4];
    for (size_t i = 0; i < countof(acked); i++) {
        char id[] = {'m', (char)('1' + i), 0};
        acked[i] = is_acked(&s, id);
    }
    if (applied)
        store_inline_apply(s.k->inline_store);
    client_free(s.c);
    for (size_t i = 0; i < s.k->n_runs; i++) /* their processes die with the gateway */
        s.k->runs[i]->full = false;
    kit_crash(s.k);
    s.c = client_new(s.k, "ann");
    if (s.task[0])
        plot->check(&s, acked);
    client_free(s.c);
    kit_free_all(s.k);
    return killed;
}

static void test_steps_a_kill_between_any_two_loses_nothing_and_does_nothing_twice(void **state)
{
    static const struct plot plots[] = {{"send", send_story, check_send},
                                        {"respond", respond_story, check_respond},
                                        {"ack", ack_story, check_ack},
                                        {"notify_on_complete", notify_story, check_notify},
                                        {"enqueue", enqueue_story, check_enqueue}};
    (void)state;
    for (size_t i = 0; i < countof(plots); i++) {
        unsigned steps = 0;
        for (bool killed = true; killed; steps++) {
            killed = tell_until(&plots[i], steps, false);
            tell_until(&plots[i], steps, true);
        }
        print_message("%s: killed at %u steps\n", plots[i].name, steps - 1);
        assert_true(steps > 6); /* else the story was not told */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_a_kill_between_any_two_loses_nothing_and_does_nothing_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
