/* A run of the ReAct loop, under the real core, and a kill between any two steps of the store.
 *
 * One story is told again and again: a task whose model calls tools of every kind, asks the user,
 * starts a child, gets a message and uses up a budget.  Each time the gateway dies one step of the
 * store later, once with that step on disk and untold, once without it; a second round kills it a
 * second time, on the way to its end.  The model is a function of what it is told, and that is what
 * is tested: each turn is asked with the same bytes, and never again once it is settled. */
#include <uv.h>

#include "gateway/agents/agent_react.h"
#include "gateway/base/stepper.h"
#include "gateway/tools/tools.h"
#include "tests/support/hub_kit.h"

static uv_loop_t loop;

/* --- the model -------------------------------------------------------------------------------- */

#define TURNS 8

struct model_turn {
    struct model_events events;
    void *user;
    struct stepper stepper;
    unsigned turn, act;
};

/* By the number of the model's answers in what it is told. */
static struct {
    char *requests[TURNS];
    unsigned asked[TURNS];
} told;

static bool model_calls(struct model_turn *t, const char *id, const char *name,
                        const char *arguments)
{
    t->events.on_tool_call(t->user, &(struct model_call){.id = str_of(id),
                                                         .name = str_of(name),
                                                         .arguments = str_of(arguments)});
    return true;
}

static void say_piece(struct model_turn *t, enum model_piece kind, const char *text)
{
    (void)t->events.on_piece(t->user, kind, str_of(text));
}

/* One act a turn of the loop; false at its end. */
static bool act(struct model_turn *t)
{
    switch (t->turn * 10 + t->act++) {
    case 0: say_piece(t, PIECE_TOKEN, "Let me "); return true;
    case 1: say_piece(t, PIECE_TOKEN, "see. "); return true;
    case 2: return model_calls(t, "a", "pay", json("{'n':1}"));
    case 3: return model_calls(t, "b", "command", json("{'n':1}"));
    case 4: return model_calls(t, "c", "pay", "no object");
    case 5: return model_calls(t, "d", "look", "{}");
    case 10: say_piece(t, PIECE_THINKING, "hm"); return true;
    case 11: say_piece(t, PIECE_TOKEN, "And now. "); return true;
    case 12: return model_calls(t, "a", "guarded", json("{'n':2}"));
    case 13: return model_calls(t, "b", "command", json("{'n':2}"));
    case 14: return model_calls(t, "c", "ask_user", json("{'prompt':'which?'}"));
    case 20: return model_calls(t, "a", "spawn_task", json("{'input':'child','agent':'second'}"));
    case 21: return model_calls(t, "b", "send_message", json("{'task_id':'parent','content':'x'}"));
    default: break;
    }
    if (t->turn < 3 || t->act > 1)
        return false;
    say_piece(t, PIECE_TOKEN, "Done.");
    return true;
}

static void on_act(void *arg)
{
    struct model_turn *t = arg;
    if (act(t))
        return;
    stepper_stop(&t->stepper);
    t->events.on_usage(t->user, &(struct model_usage){10, 1, 0});
    t->events.on_done(t->user, MODEL_FAULT_OTHER, STR_NULL);
}

static unsigned count(const char *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text; at && (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

static struct model_turn *fake_start(void *settings, const struct model_request *request,
                                     const struct model_events *events, void *user, char *ret_error)
{
    (void)settings, (void)ret_error;
    struct model_turn *t = xcalloc(sizeof *t);
    char *messages = xstrdup(request->messages);
    t->turn = count(messages, json("'role':'assistant'"));
    assert_true(t->turn < TURNS);
    if (told.requests[t->turn])
        assert_string_equal(messages, told.requests[t->turn]);
    free(told.requests[t->turn]);
    told.requests[t->turn] = messages;
    told.asked[t->turn]++;
    t->events = *events;
    t->user = user;
    stepper_init(&t->stepper, &loop, 0, on_act, t);
    stepper_start(&t->stepper);
    return t;
}

static void fake_free(struct model_turn *t)
{
    if (t)
        stepper_close(&t->stepper, free);
}

static void fake_unpause(struct model_turn *t)
{
    stepper_start(&t->stepper);
}

static const struct model_ops fake_ops = {"fake", fake_start, fake_unpause, fake_free};
static const struct model fake_model = {.name = "fake", .ops = &fake_ops};

/* --- the world, which outlives the gateway ---------------------------------------------------- */

struct tool_job {
    struct list node;
    tool_done_fn done;
    void *user;
    int n;
    bool told;
};

static struct {
    unsigned paid[3]; /* by the call's n */
    unsigned looks;
    struct {
        char call[33];
        bool ended;
    } commands[4];
    size_t n_commands;
    struct list jobs;
} world;

static int n_of(struct str arguments)
{
    return arguments.n > 5 ? arguments.p[5] - '0' : 0;
}

static struct tool_job *job_new(tool_done_fn done, void *user, int n)
{
    struct tool_job *job = xcalloc(sizeof *job);
    *job = (struct tool_job){.done = done, .user = user, .n = n};
    list_push(&world.jobs, &job->node);
    return job;
}

static void job_free(struct tool_job *job)
{
    list_remove(&job->node);
    free(job);
}

static struct tool_job *pay(const struct tool *tool, const struct tool_caller *caller,
                            struct str arguments, tool_done_fn done, void *user, struct buf *out)
{
    (void)tool, (void)caller, (void)out;
    world.paid[n_of(arguments)]++;
    return job_new(done, user, n_of(arguments));
}

static struct tool_job *look(const struct tool *tool, const struct tool_caller *caller,
                             struct str arguments, tool_done_fn done, void *user, struct buf *out)
{
    (void)tool, (void)caller, (void)arguments, (void)out;
    return job_new(done, user, (int)++world.looks); /* it sees something else each time */
}

static struct tool_job *command(const struct tool *tool, const struct tool_caller *caller,
                                struct str arguments, tool_done_fn done, void *user,
                                struct buf *out)
{
    (void)tool, (void)out;
    assert_true(world.n_commands < countof(world.commands));
    snprintf(world.commands[world.n_commands++].call, 33, "%.*s", (int)caller->call.n,
             caller->call.p);
    return job_new(done, user, n_of(arguments));
}

/* It lives on without a gateway, and its output is kept. */
static struct tool_job *command_attach(const struct tool *tool, const struct tool_caller *caller,
                                       struct str arguments, tool_done_fn done, void *user,
                                       struct buf *out)
{
    for (size_t i = 0; i < world.n_commands; i++)
        if (str_eq(caller->call, str_of(world.commands[i].call)))
            return job_new(done, user, n_of(arguments));
    return command(tool, caller, arguments, done, user, out);
}

static bool guard_asks(const struct tool *tool, const struct tool_caller *caller,
                       struct str arguments, struct buf *question)
{
    (void)tool, (void)caller, (void)arguments;
    buf_puts(question, "May it?");
    return true;
}

#define TOOL(its_name, its_start) \
    .name = its_name, .description = "", .parameters = "{}", .start = its_start, .stop = job_free
static const struct tool own_tools[] = {
    {TOOL("pay", pay)},
    {TOOL("look", look), .again = TOOL_AGAIN},
    {TOOL("command", command), .again = TOOL_ATTACH, .attach = command_attach},
    {TOOL("guarded", pay), .asks = guard_asks}};
static const struct tool *tools[countof(own_tools) + 3];
static struct react_settings settings;

/* --- the story -------------------------------------------------------------------------------- */

struct story {
    struct kit *k;
    struct client *c;
    char task[TASK_ID_LEN + 1];
    bool answered[3], sent, acked;
    bool planned; /* the first end is a planned one */
};

static bool has_told(const struct story *s, const char *part)
{
    return s->c->got.len > 0 && strstr(s->c->got.bytes, part);
}

static void ask(struct story *s, const char *type, const char *id, const char *more)
{
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'%s','id':'%s','conversation_id':'c','task_id':'%s'%s}"), type, id,
             s->task, more);
    session_receive(&s->c->session, str_of(line));
}

/* All that has asked for an answer gets it, as often as it asks on a new connection. */
static void answer(struct story *s)
{
    if (!s->answered[0] && has_told(s, json("'input_id':'ask-1'"))) {
        ask(s, "respond", "r1", json(",'input_id':'ask-1','answer':true"));
        s->answered[0] = true;
    }
    if (!s->answered[1] && has_told(s, json("'input_id':'ask-2'"))) {
        ask(s, "respond", "r2", json(",'input_id':'ask-2','answer':'this one'"));
        s->answered[1] = true;
    }
    if (!s->answered[2] && has_told(s, json("'input_id':'budget-1'"))) {
        ask(s, "respond", "r3", json(",'input_id':'budget-1','answer':true"));
        s->answered[2] = true;
    }
    if (!s->sent && has_told(s, json("'name':'guarded'"))) {
        ask(s, "send", "m", json(",'content':'by the way'"));
        s->sent = true;
    }
    s->acked = s->acked || has_told(s, json("{'type':'ok','id':'m'}"));
}

/* The oldest job is done; the child ends. */
static void live(struct story *s)
{
    list_each (it, &world.jobs) {
        struct tool_job *job = list_item(it, struct tool_job, node);
        char text[16];
        if (job->told)
            continue;
        snprintf(text, sizeof text, "result %d", job->n);
        job->told = true;
        job->done(job->user, true, str_of(text));
        break;
    }
    for (size_t i = 0; i < s->k->n_runs; i++)
        if (!s->k->runs[i]->freed)
            s->k->runs[i]->events->on_end(s->k->runs[i]->task, RUN_DONE, STR(""));
}

static bool is_over(const struct story *s)
{
    return has_told(s, json("'event':'task.completed'")) ||
           has_told(s, json("'event':'task.failed'"));
}

/* Until the task has ended, or the gateway dies: some turns after the last step of the store. */
static void run_on(struct story *s)
{
    int left = 12;
    for (int i = 0; i < 4000 && !is_over(s) && left > 0; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        live(s);
        kit_turn(s->k);
        kit_step(s->k);
        answer(s);
        left -= s->k->bounded && s->k->steps_left == 0;
    }
}

static void begin(struct story *s)
{
    s->k = kit_new();
    s->k->agents[0].ops = &agent_react_ops;
    s->k->agents[0].settings = &settings;
    s->k->agents[0].goes_on = true;
    s->k->agents[0].is_process = false;
    s->c = client_new(s->k, "ann");
}

static void start(struct story *s)
{
    session_receive(&s->c->session, str_of(json("{'type':'chat','id':'s','request_key':'once',"
                                                "'conversation_id':'c','message':'go'}")));
    for (int i = 0; i < 20 && !has_told(s, json("{'type':'started'")); i++) {
        kit_turn(s->k);
        kit_step(s->k);
    }
    const char *line = s->c->got.len ? strstr(s->c->got.bytes, json("{'type':'started'")) : NULL;
    if (line)
        snprintf(s->task, sizeof s->task, "%s", line_field(line, "task_id"));
}

/* Turns of the model that are settled on disk: a note for each that had calls. */
static unsigned settled(struct story *s)
{
    struct query live = {.kind = QUERY_LIVE, .limit = 10};
    struct answer a;
    unsigned n = 0;
    void *reader = store_memory_ops.reader_open(s->k->store);
    assert_int_equal(store_memory_ops.query(reader, &live, &a), 0);
    int64_t key = a.n_tasks ? a.tasks[0].key : 0;
    answer_done(&a);
    struct query notes = {.kind = QUERY_NOTES, .task_key = key};
    assert_int_equal(store_memory_ops.query(reader, &notes, &a), 0);
    for (size_t i = 0; i < a.n_blocks; i++)
        n += a.blocks[i]->len > 8 && memcmp(a.blocks[i]->bytes, "{\"turn\":", 8) == 0;
    answer_done(&a);
    store_memory_ops.reader_close(reader);
    return n;
}

/* True when it was killed before the story was over. */
static bool kill_at(struct story *s, unsigned steps, bool applied)
{
    s->k->bounded = true;
    s->k->steps_left = steps;
    if (!s->task[0])
        start(s);
    run_on(s);
    bool killed = s->k->steps_left == 0;
    if (s->planned) {
        s->k->bounded = false;
        hub_drain(&s->k->hub);
        for (int i = 0; i < 20; i++) {
            uv_run(&loop, UV_RUN_NOWAIT);
            kit_turn(s->k);
            kit_step(s->k);
        }
        s->planned = false;
    }
    if (applied)
        store_inline_apply(s->k->inline_store);
    client_free(s->c);
    unsigned asked[TURNS];
    kit_close_hub(s->k);
    uv_run(&loop, UV_RUN_NOWAIT);
    memcpy(asked, told.asked, sizeof asked);
    unsigned n = settled(s);
    kit_open_hub(s->k);
    int status = 1;
    s->k->bounded = false;
    hub_restore(&s->k->hub, kit_on_ready, &status);
    kit_settle(s->k);
    assert_int_equal(status, 0);
    s->c = client_new(s->k, "ann");
    memset(s->answered, 0, sizeof s->answered);
    if (!s->task[0])
        start(s);
    ask(s, "resume", "r", "");
    kit_turn(s->k);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(told.asked[i], asked[i]); /* a settled turn is not asked again … */
    return killed;
}

/* All that the events say, without what they withdraw. */
static void put_said(const char *lines, struct buf *out)
{
    struct said said = {0};
    for (const char *at = lines; at && (at = strstr(at, EVENT_PREFIX)); at++) {
        const char *newline = strchr(at, '\n');
        struct event_parts event;
        if (newline && event_line_split((struct str){at, (size_t)(newline - at)}, &event) &&
            event.event != EVENT_FINAL_ANSWER)
            said_line(&said, &event);
    }
    buf_puts(out, "");
    buf_putstr(out, buf_str(&said.tokens));
    said_done(&said);
}

static void check(struct story *s)
{
    const char *lines = s->c->got.bytes;
    struct buf said = {0};
    if (!is_over(s))
        fail_msg("it has not ended: %s", lines);
    assert_non_null(strstr(lines, json("'event':'task.completed','data':{'output':'Done.'")));
    assert_int_equal(count(lines, json("'event':'task.completed'")), 1);
    assert_int_equal(count(lines, json("'event':'tool_call'")), 9);
    assert_int_equal(count(lines, json("'event':'tool_result'")), 9);
    assert_int_equal(count(lines, json("'event':'child'")), 1);
    assert_int_equal(count(lines, json("'event':'input_required'")), 3);
    assert_int_equal(count(lines, json("'event':'input_received'")), 3);
    assert_null(strstr(lines, "budget-2"));
    assert_true(count(lines, json("'content':'by the way'")) >= s->acked);
    assert_true(count(lines, json("'event':'message','data':{'from':'user'")) <= 2);
    put_said(lines, &said);
    assert_non_null(strstr(said.bytes, "Let me see. And now. Done."));
    assert_int_equal(count(said.bytes, "Let me "), 1);
    assert_int_equal(count(said.bytes, "And now. "), 1);
    buf_done(&said);
    assert_true(world.paid[1] <= 1 && world.paid[2] <= 1); /* and every effect happens once … */
    assert_int_equal(world.n_commands, 2);
    for (int i = 1; i <= 2; i++) /* … unless its result says that nobody knows */
        assert_true(world.paid[i] == 1 || strstr(lines, TOOL_UNKNOWN));
}

static void end(struct story *s)
{
    client_free(s->c);
    kit_free_all(s->k);
    while (uv_run(&loop, UV_RUN_NOWAIT))
        ;
    for (size_t i = 0; i < TURNS; i++)
        free(told.requests[i]);
    memset(&told, 0, sizeof told);
    assert_true(list_is_empty(&world.jobs));
    memset(&world, 0, sizeof world);
    list_init(&world.jobs);
}

static void test_react_a_kill_between_any_two_steps_does_nothing_twice(void **state)
{
    (void)state;
    bool killed = true;
    unsigned steps = 0, unknown = 0;
    for (; killed; steps++) {
        for (int way = 0; way < 3; way++) {
            struct story s = {.planned = way == 2};
            begin(&s);
            killed = kill_at(&s, steps, way == 1);
            run_on(&s);
            unknown += count(s.c->got.bytes, TOOL_UNKNOWN);
            check(&s);
            end(&s);
        }
    }
    print_message("killed at %u steps, %u times nobody knew\n", steps - 1, unknown);
    assert_true(steps > 30 && unknown > 0);
}

static void test_react_a_second_kill_does_nothing_twice_either(void **state)
{
    (void)state;
    bool killed = true;
    for (unsigned steps = 0; killed; steps++) {
        for (unsigned more = 0; more < 50; more++) {
            struct story s = {0};
            begin(&s);
            killed = kill_at(&s, steps, (steps + more) % 2);
            (void)kill_at(&s, more, more % 4 < 2);
            run_on(&s);
            check(&s);
            end(&s);
        }
    }
}

/* Until that was told; nothing that runs comes to an end. */
static void run_until(struct story *s, const char *part)
{
    for (int i = 0; i < 2000 && !has_told(s, part); i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        kit_turn(s->k);
        if (!has_told(s, part))
            kit_step(s->k);
    }
    assert_true(has_told(s, part));
}

/* It does what it is up to; the store does nothing. */
static void pass_turns(struct story *s)
{
    for (int i = 0; i < 20; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        kit_turn(s->k);
    }
}

/* A budget of one call, of which there are more: the second is not granted while the first runs. */
static void refuse_budget(struct story *s)
{
    settings.budget.tool_calls = 1;
    begin(s);
    start(s);
    run_until(s, json("'input_id':'budget-1'"));
    assert_int_equal(world.paid[1], 1);
    assert_false(list_is_empty(&world.jobs));
    ask(s, "respond", "r", json(",'input_id':'budget-1','answer':false"));
    pass_turns(s);
}

#define REFUSED json("'code':'agent_error','message':'agent_error: the budget is used up: 1 of 1")

static void test_react_a_budget_that_ends_it_is_committed_before_its_commands_end(void **state)
{
    struct story s = {0};
    (void)state;
    refuse_budget(&s);
    assert_false(list_is_empty(&world.jobs));
    run_until(&s, "task.failed");
    assert_true(list_is_empty(&world.jobs));
    assert_true(has_told(&s, REFUSED));
    settings.budget.tool_calls = 5;
    end(&s);
}

/* With the answer and the decision on disk, or with neither: then it is asked still. */
static void test_react_a_budget_that_ended_it_ends_it_after_a_kill(void **state)
{
    (void)state;
    for (int applied = 0; applied < 2; applied++) {
        struct story s = {0};
        refuse_budget(&s);
        unsigned asked = told.asked[0];
        (void)kill_at(&s, 0, applied);
        if (!applied)
            ask(&s, "respond", "r", json(",'input_id':'budget-1','answer':false"));
        run_until(&s, "task.failed");
        assert_true(has_told(&s, REFUSED));
        assert_int_equal(told.asked[0], asked);
        assert_int_equal(told.asked[1], 0);
        assert_int_equal(world.paid[1], 1);
        end(&s);
    }
    settings.budget.tool_calls = 5;
}

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(own_tools); i++)
        tools[i] = &own_tools[i];
    tools[countof(own_tools)] = tool_find(STR("ask_user"));
    tools[countof(own_tools) + 1] = tool_find(STR("spawn_task"));
    tools[countof(own_tools) + 2] = tool_find(STR("send_message"));
    settings = (struct react_settings){.loop = &loop,
                                       .model = &fake_model,
                                       .tools = tools,
                                       .n_tools = countof(tools),
                                       .budget = {.tool_calls = 5}};
    list_init(&world.jobs);
    return uv_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    return uv_loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_react_a_kill_between_any_two_steps_does_nothing_twice),
        cmocka_unit_test(test_react_a_second_kill_does_nothing_twice_either),
        cmocka_unit_test(test_react_a_budget_that_ends_it_is_committed_before_its_commands_end),
        cmocka_unit_test(test_react_a_budget_that_ended_it_ends_it_after_a_kill),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
