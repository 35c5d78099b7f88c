/* Answers of the core to a model's calls (react_call.h): lines of PROTOCOL.md section 8. */
#include <stdlib.h>

#include "gateway/agents/react_call.h"

static struct react_call *find_open(const struct react_calls *c, uint32_t node, bool by_id)
{
    for (size_t i = 0; node && js_type(&c->doc, node) == JS_STRING && i < c->n; i++) {
        struct react_call *call = c->list[i];
        const char *id = by_id ? call->id : call->awaits;
        if (call->state == CALL_OPEN && id && js_is(&c->doc, node, id))
            return call;
    }
    return NULL;
}

static void put_value(const struct js_doc *doc, uint32_t object, const char *member,
                      struct buf *out)
{
    uint32_t node = js_get(doc, object, member);
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, out);
    else if (node)
        js_copy(doc, node, out);
}

static bool wants_to_wait(const struct react_call *call)
{
    struct js_doc doc = {0};
    uint32_t node = 0;
    bool waits = js_parse(&doc, call->arguments, strlen(call->arguments), JS_AGENT);
    if (waits)
        node = js_get(&doc, 0, "wait");
    waits = waits && (!node || js_type(&doc, node) != JS_FALSE);
    js_done(&doc);
    return waits;
}

void react_call_take_child(struct react_call *call, struct str task_id)
{
    if (wants_to_wait(call)) {
        free(call->awaits);
        call->awaits = xstrdup(task_id);
        return;
    }
    struct buf output = {0};
    buf_puts(&output, "started as task ");
    buf_putstr(&output, task_id);
    buf_puts(&output, "; a message will report its end");
    react_call_close(call, true, buf_str(&output));
    buf_done(&output);
}

static void take_child(struct react_calls *c, struct react_call *call)
{
    struct buf text = {0};
    put_value(&c->doc, 0, "task_id", &text);
    react_call_take_child(call, buf_str(&text));
    buf_done(&text);
}

/* The end of a child that a call waits for. */
static bool take_child_end(struct react_calls *c)
{
    uint32_t child = js_get(&c->doc, 0, "child");
    if (!child || js_type(&c->doc, child) != JS_OBJECT)
        return false;
    struct react_call *call = find_open(c, js_get(&c->doc, child, "task_id"), false);
    if (!call)
        return false;
    struct buf output = {0};
    uint32_t status = js_get(&c->doc, child, "status");
    bool good = status && js_is(&c->doc, status, "completed");
    if (!good) {
        buf_puts(&output, "the task ended as ");
        put_value(&c->doc, child, "status", &output);
        uint32_t error = js_get(&c->doc, child, "error");
        if (error && js_type(&c->doc, error) == JS_OBJECT) {
            buf_puts(&output, " (");
            put_value(&c->doc, error, "message", &output);
            buf_puts(&output, ")");
        }
        buf_puts(&output, "; its output was: ");
    }
    put_value(&c->doc, 0, "content", &output);
    react_call_close(call, good, buf_str(&output));
    buf_done(&output);
    return true;
}

static void take_ok(struct react_calls *c, struct react_call *call)
{
    struct buf output = {0};
    if (js_get(&c->doc, 0, "cancelled")) {
        buf_puts(&output, "tasks cancelled: ");
        put_value(&c->doc, 0, "cancelled", &output);
    } else {
        buf_puts(&output, "sent");
    }
    react_call_close(call, true, buf_str(&output));
    buf_done(&output);
}

enum approved react_call_approved(const struct js_doc *doc, uint32_t answer)
{
    struct buf json = {0};
    if (answer)
        js_copy(doc, answer, &json);
    enum approved approved = approval_read(buf_str(&json));
    buf_done(&json);
    return approved;
}

static void take_approval(struct react_call *call, enum approved approved)
{
    const struct teller *t = call->calls->teller;
    struct buf output = {0};
    call->asking = false;
    if (approved == APPROVED_CONVERSATION)
        approval_allow(call->tool, &call->calls->caller, str_of(call->arguments), t->events.allow,
                       t->task);
    if (!approved)
        buf_puts(&output, "the user did not approve the call");
    if (!approved || !react_call_start(call, &output))
        react_call_close(call, false, buf_str(&output));
    buf_done(&output);
}

/* The job may ask again, or be done, before this returns. */
static void take_job_answer(struct react_call *call, const struct js_doc *doc, uint32_t answer)
{
    struct buf json = {0};
    if (answer)
        js_copy(doc, answer, &json);
    else
        buf_puts(&json, "null");
    call->job_asks = false;
    call->tool->answer(call->job, buf_str(&json));
    buf_done(&json);
}

void react_call_take_input(struct react_call *call, const struct js_doc *doc, uint32_t answer)
{
    struct buf output = {0};
    if (call->asking) {
        take_approval(call, react_call_approved(doc, answer));
        return;
    }
    if (call->job_asks) {
        take_job_answer(call, doc, answer);
        return;
    }
    switch (answer ? js_type(doc, answer) : JS_NULL) {
    case JS_TRUE: buf_puts(&output, "the user approves"); break;
    case JS_FALSE: buf_puts(&output, "the user did not approve the call"); break;
    case JS_NULL: buf_puts(&output, "the user did not answer in time"); break;
    case JS_STRING: js_value(doc, answer, &output); break;
    default: js_copy(doc, answer, &output); break;
    }
    react_call_close(call, true, buf_str(&output));
    buf_done(&output);
}

static void take_error(struct react_calls *c, struct react_call *call)
{
    struct buf output = {0};
    put_value(&c->doc, 0, "message", &output);
    react_call_close(call, false, buf_str(&output));
    buf_done(&output);
}

static bool take_answer(struct react_calls *c)
{
    uint32_t type = js_get(&c->doc, 0, "type");
    if (!type || js_type(&c->doc, type) != JS_STRING)
        return false;
    if (js_is(&c->doc, type, "message"))
        return take_child_end(c);
    bool is_input = js_is(&c->doc, type, "input");
    struct react_call *call =
        find_open(c, js_get(&c->doc, 0, is_input ? "input_id" : "call_id"), !is_input);
    if (!call)
        return false;
    if (is_input)
        react_call_take_input(call, &c->doc, js_get(&c->doc, 0, "answer"));
    else if (js_is(&c->doc, type, "child"))
        take_child(c, call);
    else if (js_is(&c->doc, type, "ok"))
        take_ok(c, call);
    else if (js_is(&c->doc, type, "error"))
        take_error(c, call);
    return true;
}

bool react_calls_deliver(struct react_calls *c)
{
    size_t n_open = c->n_open;
    bool taken = take_answer(c);
    if (c->n_open < n_open)
        c->on_closed(c->user);
    return taken;
}
