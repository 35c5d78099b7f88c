#include "gateway/agents/react_input.h"

#include <stdio.h>

#include "gateway/agents/react_tell.h"
#include "gateway/base/log.h"
#include "gateway/config/config.h"
#include "gateway/models/model_stats.h"

bool react_input_put_past(const struct react_settings *s, const struct run_spec *spec,
                          struct talk *talk, struct js_doc *doc)
{
    struct str system = str_of(s->system);
    if (spec->is_context)
        return talk_put_context(talk, doc, system, spec->history);
    if (system.p)
        talk_put(talk, TALK_SYSTEM, system, true);
    return talk_put_history(talk, doc, spec->history);
}

/* The sender, when it is not the user: a task that this one started, or its parent. */
static void put_sender(const struct js_doc *doc, struct buf *out)
{
    uint32_t from = js_get(doc, 0, "from"), child = js_get(doc, 0, "child");
    if (!from || js_type(doc, from) != JS_STRING || js_is(doc, from, "user"))
        return;
    buf_puts(out, "[from ");
    js_value(doc, from, out);
    const char *const members[] = {"name", "task_id", "status"};
    for (size_t i = 0; child && js_type(doc, child) == JS_OBJECT && i < countof(members); i++) {
        uint32_t member = js_get(doc, child, members[i]);
        if (member && js_type(doc, member) == JS_STRING) {
            buf_putf(out, ", %s ", members[i]);
            js_value(doc, member, out);
        }
    }
    buf_puts(out, "]\n");
}

void react_input_put_message(const struct js_doc *line, struct buf *out)
{
    uint32_t content = js_get(line, 0, "content");
    put_sender(line, out);
    if (content && js_type(line, content) == JS_STRING)
        js_value(line, content, out);
}

bool react_input_is_at_limit(const struct react_settings *s, const struct model *model,
                             const struct talk *talk, unsigned n_turns, char ret_why[128])
{
    unsigned max_turns = s->max_turns ? s->max_turns : REACT_MAX_TURNS;
    size_t max = model->context_bytes;
    if (max == 0 || max > REACT_TALK_BYTES)
        max = REACT_TALK_BYTES;
    if (n_turns == max_turns)
        snprintf(ret_why, 128, "no answer within %u turns of the model", max_turns);
    else if (talk_size(talk) >= max)
        snprintf(ret_why, 128, "model: %s: the conversation with the model exceeds %zu bytes",
                 model_reason_word(CONTEXT_TOO_LONG), max);
    else
        return false;
    return true;
}

char *react_input_fault(const struct react_settings *s, const struct model *model,
                        const char *task_id, enum model_reason reason, struct str said)
{
    struct buf text = {0};
    const char *word = model_reason_word(reason);
    if (model->stats)
        model->stats->failures[reason]++;
    log_event_limited(LEVEL_WARN, "model", "failed", LOG_TEXT("model", model->name),
                      LOG_TEXT("task", task_id), LOG_TEXT("reason", *word ? word : "other"),
                      LOG_STR("said", said));
    buf_putf(&text, "model: %s%s", word, *word ? ": " : "");
    buf_putstr(&text, s->short_errors ? str_of(model_reason_text(reason)) : said);
    return buf_take(&text);
}

void react_input_put_turn(struct talk *talk, struct str text, struct str more,
                          const struct react_calls *calls)
{
    struct buf *out = &talk->json;
    if (calls->n == 0 && text.n == 0)
        return;
    talk_begin(talk, TALK_ASSISTANT);
    js_put_field(out, "content", text.n ? text : STR_NULL);
    if (calls->n && more.n) {
        buf_putc(out, ',');
        buf_putstr(out, more);
    }
    if (calls->n)
        react_calls_put(calls, out);
    talk_end(talk, false);
}

void react_input_fit(const struct model *model, struct talk *talk, struct teller *teller)
{
    size_t max = model->context_bytes, before = talk_size(talk);
    size_t n = max ? talk_shorten(talk, max) : 0;
    if (n > 0)
        react_tell_shortened(teller, n, before - talk_size(talk), max);
}

const struct model *react_input_fallback(const struct model *model, unsigned n)
{
    for (; n > 0 && model->fallback; n--)
        model = model->fallback;
    return model;
}
