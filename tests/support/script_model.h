/* script_model -- a model that follows a script, for the tests of the ReAct loop.
 *
 * Shape:    for one test file each, hence static: START(SAY("a"), DONE, …) starts a run whose model
 *           does that, one act in each turn of the loop; DONE ends a turn of the model, and the
 *           next turn continues after it.  The model's input is kept in script.requests.
 * Thread:   one.
 */
#ifndef TESTS_SUPPORT_SCRIPT_MODEL_H
#define TESTS_SUPPORT_SCRIPT_MODEL_H

#include "gateway/agents/agent_react.h"
#include "gateway/base/stepper.h"
#include "gateway/tools/tools.h"
#include "tests/support/run_probe.h"

struct act {
    enum { ACT_THINK, ACT_SAY, ACT_CALL, ACT_DONE, ACT_WAIT, ACT_REFUSE } kind;
    const char *a, *b, *c;
};

/* Keep each on its own line. */
/* clang-format off */
#define THINK(text) {.kind = ACT_THINK, .a = (text)}
#define SAY(text) {.kind = ACT_SAY, .a = (text)}
#define CALL(id, name, arguments) {.kind = ACT_CALL, .a = (id), .b = (name), .c = (arguments)}
#define DONE {.kind = ACT_DONE}
#define FAIL(error) {.kind = ACT_DONE, .a = (error)}
#define WAIT {.kind = ACT_WAIT} /* for ever */
#define REFUSE(error) {.kind = ACT_REFUSE, .a = (error)}
/* clang-format on */

struct model_turn {
    struct model_events events;
    void *user;
    struct stepper stepper;
};

static struct {
    const struct act *acts;
    size_t n, at;
    bool loops;          /* starts again at its end */
    struct buf requests; /* the messages of each turn, one a line */
    struct buf tools;    /* of the last turn */
    size_t n_turns;
} script;

static inline void on_act(void *arg)
{
    struct model_turn *t = arg;
    if (script.loops && script.at == script.n)
        script.at = 0;
    const struct act *act = script.at < script.n ? &script.acts[script.at++] : NULL;
    if (!act || act->kind == ACT_DONE || act->kind == ACT_WAIT)
        stepper_stop(&t->stepper);
    if (!act) {
        t->events.on_done(t->user, MODEL_FAULT_OTHER, STR("the script is over"));
        return;
    }
    switch (act->kind) {
    case ACT_THINK:
    case ACT_SAY:
        if (!t->events.on_piece(t->user, act->kind == ACT_SAY ? PIECE_TOKEN : PIECE_THINKING,
                                str_of(act->a)))
            stepper_stop(&t->stepper);
        break;
    case ACT_CALL:
        t->events.on_tool_call(t->user, &(struct model_call){.id = str_of(act->a),
                                                             .name = str_of(act->b),
                                                             .arguments = str_of(act->c)});
        break;
    case ACT_DONE: t->events.on_done(t->user, MODEL_FAULT_OTHER, str_of(act->a)); break;
    case ACT_WAIT:
    case ACT_REFUSE: break;
    }
}

static inline struct model_turn *fake_start(void *settings, const struct model_request *request,
                                            const struct model_events *events, void *user,
                                            char *ret_error)
{
    (void)settings;
    buf_putstr(&script.requests, request->messages);
    put(&script.requests, STR("\n"));
    buf_clear(&script.tools);
    put(&script.tools, request->tools);
    if (script.at < script.n && script.acts[script.at].kind == ACT_REFUSE) {
        snprintf(ret_error, 256, "%s", script.acts[script.at++].a);
        return NULL;
    }
    struct model_turn *t = xcalloc(sizeof *t);
    script.n_turns++;
    t->events = *events;
    t->user = user;
    stepper_init(&t->stepper, &loop, 0, on_act, t);
    stepper_start(&t->stepper);
    return t;
}

static inline void fake_unpause(struct model_turn *t)
{
    stepper_start(&t->stepper);
}

static inline void fake_free(struct model_turn *t)
{
    if (t)
        stepper_close(&t->stepper, free);
}

static const struct model_ops fake_ops = {"fake", fake_start, fake_unpause, fake_free};
static const struct model fake_model = {.name = "fake", .ops = &fake_ops};
static const struct tool *tools[2];
static struct react_settings settings;

static inline int setup_react(void **state)
{
    tools[0] = tool_find(STR("calculator"));
    tools[1] = tool_find(STR("clock"));
    settings = (struct react_settings){
        .loop = &loop, .model = &fake_model, .tools = tools, .n_tools = countof(tools)};
    memset(&script, 0, sizeof script);
    return setup(state);
}

static inline int teardown_react(void **state)
{
    int failed = teardown(state);
    buf_done(&script.requests);
    buf_done(&script.tools);
    return failed;
}

static inline void start_acts(const struct act *acts, size_t n)
{
    finish();
    script.acts = acts;
    script.n = n;
    script.at = script.n_turns = 0;
    buf_clear(&script.requests);
    assert_string_equal(probe_start(&agent_react_ops, &settings, STR("question"), NULL), "");
}
#define START(...)                                      \
    do {                                                \
        static const struct act acts[] = {__VA_ARGS__}; \
        start_acts(acts, countof(acts));                \
    } while (0)

static inline bool deliver(const char *line)
{
    return probe_deliver(line);
}

#define MESSAGE(text) "{\"type\":\"message\",\"from\":\"user\",\"content\":\"" text "\"}"
#define QUESTION "[{\"role\":\"user\",\"content\":\"question\"}"

#endif
