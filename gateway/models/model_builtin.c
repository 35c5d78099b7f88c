#include "gateway/models/model_builtin.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/stepper.h"
#include "gateway/models/model_rules.h"
#include "proto/js.h"

#define TURN_MAGIC 0x6275696cu
#define BURST 64      /* words in one turn of the loop, without a pace */
#define WORD_BYTES 48 /* a longer word comes in parts: not every script has spaces */

struct model_turn {
    unsigned magic;
    struct model_events events;
    void *user;
    struct stepper stepper;
    struct rules_plan plan;
    size_t n_thought, n_said; /* bytes of thinking and answer that were sent */
    bool paused;
    bool done;
};

static struct model_turn *turn_of(void *arg)
{
    struct model_turn *t = arg;
    ASSERT(t && t->magic == TURN_MAGIC);
    return t;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n';
}

/* A word with the space after it. */
static size_t word_length(struct str text)
{
    size_t n = 0;
    while (n < text.n && !is_space(text.p[n]))
        n++;
    while (n < text.n && is_space(text.p[n]))
        n++;
    return n > WORD_BYTES ? utf8_cut(text, WORD_BYTES) : n;
}

static void say_word(struct model_turn *t, enum model_piece kind, const struct buf *text,
                     size_t *at)
{
    struct str word = {text->bytes + *at, text->len - *at};
    word.n = word_length(word);
    *at += word.n;
    t->paused = true; /* first, so that an unpause from inside is not forgotten */
    if (t->events.on_piece(t->user, kind, word))
        t->paused = false;
}

static void builtin_finish(struct model_turn *t)
{
    t->done = true;
    stepper_stop(&t->stepper);
    for (size_t i = 0; i < t->plan.n_calls; i++) {
        const struct rules_call *call = &t->plan.calls[i];
        char id[32];
        snprintf(id, sizeof id, "call_%zu", t->plan.first_call + i);
        t->events.on_tool_call(t->user,
                               &(struct model_call){.id = str_of(id),
                                                    .name = str_of(call->name),
                                                    .arguments = buf_str(&call->arguments)});
    }
    t->events.on_done(t->user, MODEL_FAULT_OTHER, str_of(t->plan.error));
}

static void builtin_on_step(void *arg)
{
    struct model_turn *t = turn_of(arg);
    for (int i = t->stepper.pace_ms ? 1 : BURST; i > 0 && !t->paused; i--) {
        if (t->n_thought < t->plan.thinking.len) {
            say_word(t, PIECE_THINKING, &t->plan.thinking, &t->n_thought);
        } else if (t->n_said < t->plan.answer.len) {
            say_word(t, PIECE_TOKEN, &t->plan.answer, &t->n_said);
        } else {
            builtin_finish(t);
            return;
        }
    }
    if (t->paused)
        stepper_stop(&t->stepper);
}

static void builtin_unpause(struct model_turn *turn)
{
    struct model_turn *t = turn_of(turn);
    if (t->done || !t->paused)
        return;
    t->paused = false;
    stepper_start(&t->stepper);
}

static void builtin_on_closed(void *arg)
{
    struct model_turn *t = turn_of(arg);
    t->magic = 0;
    free(t);
}

static void builtin_free(struct model_turn *turn)
{
    if (!turn)
        return;
    struct model_turn *t = turn_of(turn);
    t->done = true;
    rules_plan_done(&t->plan);
    stepper_close(&t->stepper, builtin_on_closed);
}

static struct model_turn *builtin_start(void *settings, const struct model_request *request,
                                        const struct model_events *events, void *user,
                                        char *ret_error)
{
    const struct builtin_settings *s = settings;
    struct rules_plan plan;
    if (!rules_answer(request, &plan)) {
        snprintf(ret_error, 256, "the messages are not a JSON array");
        return NULL;
    }
    struct model_turn *t = xcalloc(sizeof *t);
    t->magic = TURN_MAGIC;
    t->events = *events;
    t->user = user;
    t->plan = plan;
    stepper_init(&t->stepper, s->loop, plan.slow ? BUILTIN_SLOW_PACE_MS : s->pace_ms,
                 builtin_on_step, t);
    stepper_start(&t->stepper);
    return t;
}

const struct model_ops model_builtin_ops = {
    .kind = "builtin",
    .start = builtin_start,
    .unpause = builtin_unpause,
    .free = builtin_free,
};
