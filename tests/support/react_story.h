/* react_story -- one task of the ReAct loop under the real core: its model, its tools, its kills.
 *
 * Shape:    for the tests of what a restart finds (contract/test_agent_react_restart.c and
 *           test_agent_react_stop.c): tools in a world that outlives the gateway, a model that is a
 *           function of what it is told, and a story: a task whose model calls tools of every kind,
 *           asks the user, starts a child, gets a message and uses up a budget.
 *           For one test file each, hence static.
 * Thread:   one.
 */
#ifndef TESTS_SUPPORT_REACT_STORY_H
#define TESTS_SUPPORT_REACT_STORY_H

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

static inline bool model_calls(struct model_turn *t, const char *id, const char *name,
                               const char *arguments)
{
    t->events.on_tool_call(t->user, &(struct model_call){.id = str_of(id),
                                                         .name = str_of(name),
                                                         .arguments = str_of(arguments)});
    return true;
}

static inline void say_piece(struct model_turn *t, enum model_piece kind, const char *text)
{
    (void)t->events.on_piece(t->user, kind, str_of(text));
}

/* One act a turn of the loop; false at its end. */
static inline bool act(struct model_turn *t)
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

static inline void on_act(void *arg)
{
    struct model_turn *t = arg;
    if (act(t))
        return;
    stepper_stop(&t->stepper);
    t->events.on_usage(t->user, &(struct model_usage){10, 1, 0});
    t->events.on_done(t->user, MODEL_FAULT_OTHER, STR_NULL);
}

static inline unsigned count(const char *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text; at && (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

static inline struct model_turn *fake_start(void *settings, const struct model_request *request,
                                            const struct model_events *events, void *user,
                                            char *ret_error)
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

static inline void fake_free(struct model_turn *t)
{
    if (t)
        stepper_close(&t->stepper, free);
}

static inline void fake_unpause(struct model_turn *t)
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
    const char *place; /* NULL: "here" */
} world;

static inline int n_of(struct str arguments)
{
    return arguments.n > 5 ? arguments.p[5] - '0' : 0;
}

static inline struct tool_job *job_new(tool_done_fn done, void *user, int n)
{
    struct tool_job *job = xcalloc(sizeof *job);
    *job = (struct tool_job){.done = done, .user = user, .n = n};
    list_push(&world.jobs, &job->node);
    return job;
}

static inline void job_free(struct tool_job *job)
{
    list_remove(&job->node);
    free(job);
}

static inline struct tool_job *pay(const struct tool *tool, const struct tool_caller *caller,
                                   struct str arguments, tool_done_fn done, void *user,
                                   struct buf *out)
{
    (void)tool, (void)caller, (void)out;
    world.paid[n_of(arguments)]++;
    return job_new(done, user, n_of(arguments));
}

static inline struct tool_job *look(const struct tool *tool, const struct tool_caller *caller,
                                    struct str arguments, tool_done_fn done, void *user,
                                    struct buf *out)
{
    (void)tool, (void)caller, (void)arguments, (void)out;
    return job_new(done, user, (int)++world.looks); /* it sees something else each time */
}

static inline struct tool_job *command(const struct tool *tool, const struct tool_caller *caller,
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
static inline struct tool_job *command_attach(const struct tool *tool,
                                              const struct tool_caller *caller,
                                              struct str arguments, tool_done_fn done, void *user,
                                              struct buf *out)
{
    for (size_t i = 0; i < world.n_commands; i++)
        if (str_eq(caller->call, str_of(world.commands[i].call)))
            return job_new(done, user, n_of(arguments));
    return command(tool, caller, arguments, done, user, out);
}

static inline const char *command_place(const struct tool *tool)
{
    (void)tool;
    return world.place ? world.place : "here";
}

static inline bool guard_asks(const struct tool *tool, const struct tool_caller *caller,
                              struct str arguments, struct buf *question)
{
    (void)tool, (void)caller, (void)arguments;
    buf_puts(question, "May it?");
    return true;
}

static inline bool guard_topic(const struct tool *tool, const struct tool_caller *caller,
                               struct str arguments, struct tool_topic *ret)
{
    (void)caller, (void)arguments;
    buf_puts(&ret->name, tool->name);
    buf_puts(&ret->key, tool->name);
    return true;
}

#define TOOL(its_name, its_start) \
    .name = its_name, .description = "", .parameters = "{}", .start = its_start, .stop = job_free
static const struct tool own_tools[] = {
    {TOOL("pay", pay)},
    {TOOL("look", look), .again = TOOL_AGAIN},
    {TOOL("command", command), .again = TOOL_ATTACH, .attach = command_attach,
     .place = command_place},
    {TOOL("guarded", pay), .asks = guard_asks, .topic = guard_topic}};
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

static inline bool has_told(const struct story *s, const char *part)
{
    return s->c->got.len > 0 && strstr(s->c->got.bytes, part);
}

static inline void ask(struct story *s, const char *type, const char *id, const char *more)
{
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'%s','id':'%s','conversation_id':'c','task_id':'%s'%s}"), type, id,
             s->task, more);
    session_receive(&s->c->session, str_of(line));
}

/* All that has asked for an answer gets it, as often as it asks on a new connection. */
static inline void answer(struct story *s)
{
    if (!s->answered[0] && has_told(s, json("'input_id':'ask-1'"))) {
        ask(s, "respond", "r1", json(",'input_id':'ask-1','answer':'conversation'"));
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
static inline void live(struct story *s)
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

static inline bool is_over(const struct story *s)
{
    return has_told(s, json("'event':'task.completed'")) ||
           has_told(s, json("'event':'task.failed'"));
}

/* Until the task has ended, or the gateway dies: some turns after the last step of the store. */
static inline void run_on(struct story *s)
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

static inline void begin(struct story *s)
{
    s->k = kit_new();
    s->k->agents[0].ops = &agent_react_ops;
    s->k->agents[0].settings = &settings;
    s->k->agents[0].goes_on = true;
    s->k->agents[0].is_process = false;
    s->c = client_new(s->k, "ann");
}

static inline void start(struct story *s)
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
static inline unsigned settled(struct story *s)
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
static inline bool kill_at(struct story *s, unsigned steps, bool applied)
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

static inline void end(struct story *s)
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

static inline int setup(void **state)
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

static inline int teardown(void **state)
{
    (void)state;
    return uv_loop_close(&loop);
}

#endif
