#include "proto/sentences.h"

#include "proto/errors.h"
#include "proto/str.h"

static const struct {
    const char *word, *sentence;
} sentences[] = {
    /* reasons of a model */
    {"model_busy", "The model is busy. Try again in a moment."},
    {"model_overloaded", "The model’s servers are overloaded. Try again in a while."},
    {"model_refused", "The model refuses this gateway’s key. Please tell the person who runs it."},
    {"model_unreachable", "The model cannot be reached. Try again in a while."},
    {"context_too_long", "This conversation has become too long for the model. Begin a new one."},
    {"broke_off", "The answer broke off."},
    /* codes of a task */
    {"agent_error", "The assistant broke off."},
    {"timeout", "It took too long, and was stopped."},
    {"cancelled", "It was stopped."},
    {"orphaned", "The gateway was restarted while this ran."},
    {"limit", "It reached a limit of this gateway."},
    /* codes of a request */
    {"bad_request", "The gateway does not understand this."},
    {"unauthorized", "You are not signed in."},
    {"not_found", "This is no longer there."},
    {"conflict", "This has been answered, or changed, elsewhere."},
    {"out_of_range", "What was shown here is no longer there. Open the conversation again."},
    {"task_terminated", "The task has ended already."},
    {"no_inbox", "This agent takes no messages while it works."},
    {"too_large", "This is too long to be sent."},
    {"rate_limited", "That was too fast. Wait a moment."},
    {"overloaded", "There is no room for it at the moment."},
    {"unsupported", "This gateway cannot do that."},
    {"internal", "Something went wrong in the gateway."},
};

static const char *find_sentence(struct str word)
{
    for (size_t i = 0; i < countof(sentences); i++)
        if (str_eq(word, str_of(sentences[i].word)))
            return sentences[i].sentence;
    return NULL;
}

const char *sentence_of(struct str reason, struct str code)
{
    const char *by_reason = find_sentence(reason), *by_code = find_sentence(code);
    return by_reason ? by_reason : by_code ? by_code : "Something went wrong.";
}

/* A gateway says this instead of details. */
static bool is_untold(struct str own)
{
    static const char *const said[] = {"the agent broke off", "the agent could not go on"};
    for (size_t i = 0; i < countof(said); i++)
        if (str_eq(own, str_of(said[i])))
            return true;
    if (str_begins(own, STR("model: ")))
        own = str_from(own, sizeof "model: " - 1);
    for (int reason = MODEL_FAULT_OTHER; reason <= BROKE_OFF; reason++)
        if (str_eq(own, str_of(model_reason_text((enum model_reason)reason))))
            return true;
    return false;
}

struct str sentence_detail(struct str code, struct str message)
{
    struct str own = message;
    if (own.n > code.n && memcmp(own.p, code.p, code.n) == 0 && own.p[code.n] == ':')
        own = str_from(own, code.n + 1);
    own = str_trim(own);
    return str_eq(own, code) || is_untold(own) ? STR("") : own;
}
