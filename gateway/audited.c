#include "gateway/audited.h"

/* Every connection says these, or they change and show nothing. */
static bool is_left_out(enum verb verb)
{
    return verb == VERB_HELLO || verb == VERB_PING || verb == VERB_UNSUBSCRIBE ||
           verb == VERB_CLOSE || verb == VERB_ACK;
}

static const char *const audited_events[N_VERBS] = {
#define X(name, wire, flags) [name] = wire,
    VERB_TABLE(X)
#undef X
};

const char *audited_event(enum verb verb)
{
    return audited_events[verb];
}

void audited_call(struct audit *audit, const struct call *c, enum error e)
{
    const struct request *r = &c->req;
    if (!audit || is_left_out(r->verb))
        return;
    struct audit_line line = {.event = audited_events[r->verb],
                              .outcome = e ? error_code(e) : "ok",
                              .owner = str_of(c->owner->name),
                              .actor = r->actor,
                              .from = c->from ? str_of(c->from) : STR_NULL,
                              .conversation = r->conversation_id,
                              .task = r->task_id,
                              .agent = r->agent,
                              .input = r->input_id};
    if (c->stream && !line.task.p) /* what a chat has made */
        line.task = str_of(c->stream->task_id);
    if (c->stream && !line.conversation.p)
        line.conversation = stream_conversation_id(c->stream);
    audit_write(audit, c->hub->clock.wall_ms, &line);
}
