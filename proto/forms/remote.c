#include "proto/forms/remote.h"

#include <stdlib.h>

#include "proto/forms/form.h"
#include "proto/str.h"

#define COMPLAINT 1000       /* bytes of a server's words in a failure */
#define SCRATCH (256 * 1024) /* bytes; buffers that one long event has grown are not kept */

static const struct remote_form *const forms[N_REMOTE_KINDS] = {
    [REMOTE_RESPONSES] = &remote_responses,
    [REMOTE_AG_UI] = &remote_ag_ui,
    [REMOTE_A2A] = &remote_a2a,
    [REMOTE_AI_SDK] = &remote_ai_sdk,
    [REMOTE_LANGGRAPH] = &remote_langgraph,
};

const struct remote_form *remote_form_of(enum remote_kind kind)
{
    return forms[kind];
}

static bool is_over(const struct remote *r)
{
    return r->state == REMOTE_DONE || r->state == REMOTE_FAILED;
}

/* --- ends ------------------------------------------------------------------------------------- */

void remote_fail(struct remote *r, struct str why)
{
    if (is_over(r))
        return;
    r->state = REMOTE_FAILED;
    buf_clear(&r->failure);
    buf_putstr(&r->failure, why.n ? why : STR("it failed, and does not say why"));
}

/* The text in an object, wherever such servers have it; 0: there is none. */
static uint32_t find_complaint(const struct js_doc *doc, uint32_t node, int depth)
{
    static const char *const members[] = {"message", "errorText", "error", "detail", "msg"};
    if (js_type(doc, node) == JS_STRING)
        return js_raw(doc, node).n ? node : 0;
    if (js_type(doc, node) != JS_OBJECT || depth == 0)
        return 0;
    for (size_t i = 0; i < countof(members); i++) {
        uint32_t at = js_get(doc, node, members[i]);
        uint32_t found = at ? find_complaint(doc, at, depth - 1) : 0;
        if (found)
            return found;
    }
    return 0;
}

void remote_complain(struct remote *r, uint32_t node)
{
    struct buf why = {0};
    struct str text = say_text(&r->doc, find_complaint(&r->doc, node, 3), &r->text);
    buf_puts(&why, "the agent said: ");
    buf_put(&why, text.p, utf8_cut(text, COMPLAINT));
    if (text.n == 0)
        buf_puts(&why, "error");
    remote_fail(r, buf_str(&why));
    buf_done(&why);
}

void remote_take_row(struct remote *r, const struct remote_event_row *rows, size_t n,
                     void (*other)(struct remote *r))
{
    if (js_type(&r->doc, 0) != JS_OBJECT)
        return;
    for (size_t i = 0; i < n; i++)
        if (say_is(&r->doc, 0, "type", rows[i].type)) {
            rows[i].take(r);
            return;
        }
    if (js_get(&r->doc, 0, "type"))
        other(r);
    else
        remote_complain(r, 0);
}

static void put_result(struct remote *r, struct buf *out)
{
    buf_putc(out, '{');
    if (r->has_usage) {
        js_put_key(out, "usage");
        buf_putc(out, '{');
        js_put_int(out, "prompt_tokens", r->tokens_in);
        js_put_int(out, "completion_tokens", r->tokens_out);
        js_put_int(out, "total_tokens", r->tokens_in + r->tokens_out);
        buf_putc(out, '}');
    }
    if (r->result.len)
        js_put_raw(out, "result", buf_str(&r->result));
    buf_putc(out, '}');
}

void remote_finish(struct remote *r)
{
    if (is_over(r))
        return;
    r->state = REMOTE_DONE;
    if (r->has_usage || r->result.len) {
        buf_clear(&r->text);
        put_result(r, &r->text);
        say_result(&r->said, buf_str(&r->text));
    }
    if (r->answer.len && !r->answer_cut)
        say_final_answer(&r->said, buf_str(&r->answer));
}

/* --- what is said ----------------------------------------------------------------------------- */

void remote_token(struct remote *r, struct str text)
{
    r->has_said |= text.n > 0;
    say_token(&r->said, text);
    if (r->answer.len + text.n > MAX_OUTPUT)
        r->answer_cut = true;
    else
        buf_putstr(&r->answer, text);
}

void remote_thinking(struct remote *r, struct str text)
{
    say_thinking(&r->said, text);
}

void remote_call_node(struct remote *r, struct str id, struct str name, uint32_t arguments)
{
    if (say_is_open(&r->calls, id))
        return;
    say_call(&r->said, &r->calls, &(struct say_tool){id, name, &r->doc, arguments, "value"});
    buf_clear(&r->answer);
    r->answer_cut = false;
}

void remote_call(struct remote *r, struct str id, struct str name, struct str arguments)
{
    struct buf json = {0};
    if (say_is_open(&r->calls, id))
        return;
    buf_putc(&json, '[');
    buf_putstr(&json, str_is_blank(arguments) ? STR("{}") : arguments);
    buf_putc(&json, ']');
    if (!js_parse(&r->other, json.bytes, json.len, JS_AGENT) ||
        js_next(&r->other, 1) != js_end(&r->other, 0)) {
        buf_clear(&json);
        buf_putc(&json, '[');
        js_put_str(&json, arguments);
        buf_putc(&json, ']');
        if (!js_parse(&r->other, json.bytes, json.len, JS_AGENT))
            UNREACHABLE();
    }
    say_call(&r->said, &r->calls, &(struct say_tool){id, name, &r->other, 1, "value"});
    buf_clear(&r->answer);
    r->answer_cut = false;
    buf_done(&json);
}

void remote_called(struct remote *r, struct str id, struct str output, bool is_error)
{
    say_called(&r->said, &r->calls, id, output, is_error);
}

struct str remote_as_text(struct remote *r, uint32_t node, struct buf *scratch)
{
    buf_clear(scratch);
    if (node && js_type(&r->doc, node) == JS_STRING)
        js_value(&r->doc, node, scratch);
    else if (node && js_type(&r->doc, node) != JS_NULL)
        js_copy(&r->doc, node, scratch);
    return buf_str(scratch);
}

static int64_t count_in(const struct js_doc *doc, uint32_t node, const char *const names[4])
{
    int64_t n;
    for (size_t i = 0; i < 4; i++) {
        uint32_t at = js_get(doc, node, names[i]);
        if (at && js_int(doc, at, &n) && n >= 0 && n <= MAX_SAFE_INTEGER / REMOTE_QUESTIONS)
            return n;
    }
    return 0;
}

void remote_usage(struct remote *r, uint32_t node)
{
    static const char *const in[] = {"input_tokens", "prompt_tokens", "inputTokens",
                                     "promptTokens"};
    static const char *const out[] = {"output_tokens", "completion_tokens", "outputTokens",
                                      "completionTokens"};
    if (!node || js_type(&r->doc, node) != JS_OBJECT)
        return;
    int64_t tokens_in = count_in(&r->doc, node, in), tokens_out = count_in(&r->doc, node, out);
    if (tokens_in + tokens_out == 0 || r->tokens_in > MAX_SAFE_INTEGER / 4 ||
        r->tokens_out > MAX_SAFE_INTEGER / 4)
        return;
    r->has_usage = true;
    r->tokens_in += tokens_in;
    r->tokens_out += tokens_out;
}

bool remote_set_id(struct buf *id, const struct js_doc *doc, uint32_t node)
{
    if (!node || js_type(doc, node) != JS_STRING || js_raw(doc, node).n == 0 ||
        js_raw(doc, node).n > REMOTE_PEER_ID)
        return false;
    buf_clear(id);
    js_value(doc, node, id);
    return true;
}

void remote_set_session(struct remote *r, struct str id)
{
    if (!form_is_session(id) || str_eq(id, buf_str(&r->session)))
        return;
    buf_clear(&r->session);
    buf_putstr(&r->session, id);
    r->new_session = true;
}

/* --- requests --------------------------------------------------------------------------------- */

static void request_begin(struct remote *r, struct str url, bool is_get)
{
    struct remote_request *q = &r->request;
    q->wanted = true;
    q->is_get = is_get;
    q->again = false;
    q->may_repeat = is_get;
    buf_clear(&q->url);
    buf_clear(&q->body);
    buf_clear(&q->last_id);
    buf_putstr(&q->url, url);
    r->posted++;
}

struct buf *remote_post(struct remote *r, struct str url)
{
    request_begin(r, url, false);
    return &r->request.body;
}

void remote_get(struct remote *r, struct str url)
{
    request_begin(r, url, true);
}

void remote_put_role_content(struct buf *out, size_t number, struct str role, struct str content)
{
    (void)number;
    js_put_field(out, "role", role);
    js_put_field(out, "content", content);
}

static void put_item(struct buf *out, remote_put_message put, size_t number, struct str role,
                     struct str content)
{
    if (out->len && out->bytes[out->len - 1] == '}')
        buf_putc(out, ',');
    buf_putc(out, '{');
    put(out, number, role, content);
    buf_putc(out, '}');
}

void remote_put_messages(struct str history, struct str input, remote_put_message put,
                         struct buf *out)
{
    struct js_doc doc = {0};
    struct buf role = {0}, content = {0};
    size_t n = 0;
    if (history.n && js_parse(&doc, history.p, history.n, JS_OURS) && js_type(&doc, 0) == JS_ARRAY)
        for (uint32_t i = js_first(&doc, 0); i < js_end(&doc, 0); i = js_next(&doc, i)) {
            uint32_t said = js_type(&doc, i) == JS_OBJECT ? js_get(&doc, i, "content") : 0;
            if (!said || js_type(&doc, said) != JS_STRING)
                continue;
            put_item(out, put, ++n, say_text(&doc, js_get(&doc, i, "role"), &role),
                     say_text(&doc, said, &content));
        }
    put_item(out, put, ++n, STR("user"), input);
    js_done(&doc);
    buf_done(&role);
    buf_done(&content);
}

/* --- parts ------------------------------------------------------------------------------------ */

#define PARTS 256

struct remote_part *remote_part(struct remote_parts *parts, struct str id)
{
    for (size_t i = 0; i < parts->n; i++)
        if (str_eq(str_of(parts->list[i].id), id))
            return &parts->list[i];
    if (parts->n == PARTS)
        return NULL;
    if (parts->n == parts->cap) {
        parts->cap = parts->cap ? parts->cap * 2 : 8;
        parts->list = xrealloc(parts->list, parts->cap * sizeof *parts->list);
    }
    struct remote_part *part = &parts->list[parts->n++];
    *part = (struct remote_part){.id = xstrdup(id)};
    return part;
}

void remote_part_drop(struct remote_parts *parts, struct remote_part *part)
{
    size_t at = (size_t)(part - parts->list);
    free(part->id);
    free(part->name);
    buf_done(&part->text);
    parts->n--;
    memmove(part, part + 1, (parts->n - at) * sizeof *part);
}

/* --- questions -------------------------------------------------------------------------------- */

/* NULL: there are too many, and the turn has failed. */
static struct remote_question *question_new(struct remote *r, struct str about)
{
    if (r->n_questions == REMOTE_QUESTIONS) {
        remote_fail(r, STR("it asks too many questions at once"));
        return NULL;
    }
    struct remote_question *q = &r->questions[r->n_questions++];
    *q = (struct remote_question){.number = ++r->asked};
    buf_putstr(&q->about, about);
    return q;
}

static void put_input_id(const struct remote_question *q, struct buf *out)
{
    buf_clear(out);
    buf_putf(out, "ask-%u", q->number);
}

void remote_ask_text(struct remote *r, struct str prompt, struct str about)
{
    struct remote_question *q = question_new(r, about);
    struct buf id = {0};
    if (!q)
        return;
    put_input_id(q, &id);
    say_question(&r->said, buf_str(&id), prompt.n ? prompt : STR("The agent asks for an answer."));
    buf_done(&id);
}

void remote_ask_approval(struct remote *r, struct str prompt, struct str tool, uint32_t arguments,
                         struct str about)
{
    struct remote_question *q = question_new(r, about);
    struct buf id = {0};
    if (!q)
        return;
    put_input_id(q, &id);
    say_approval(&r->said,
                 &(struct say_approval){buf_str(&id),
                                        prompt.n ? prompt : STR("The agent asks for a permission."),
                                        tool, &r->doc, arguments, STR("")});
    buf_done(&id);
}

static void questions_drop(struct remote *r)
{
    while (r->n_questions) {
        struct remote_question *q = &r->questions[--r->n_questions];
        buf_done(&q->about);
        buf_done(&q->answer);
    }
}

static bool all_answered(const struct remote *r)
{
    for (size_t i = 0; i < r->n_questions; i++)
        if (r->questions[i].answer.len == 0)
            return false;
    return true;
}

static void go_on(struct remote *r)
{
    r->state = REMOTE_WORKS;
    r->rejoined = false;
    r->form->answered(r);
    questions_drop(r);
}

/* The answers may be there before the reply that asked has ended. */
void remote_wait(struct remote *r)
{
    if (is_over(r))
        return;
    if (r->n_questions == 0)
        remote_fail(r, STR("it waits for an answer, and asks nothing"));
    else if (all_answered(r))
        go_on(r);
    else
        r->state = REMOTE_ASKS;
}

void remote_answer(struct remote *r, struct str line)
{
    struct js_doc *doc = &r->doc;
    if (is_over(r) || !js_parse(doc, line.p, line.n, JS_OURS) || js_type(doc, 0) != JS_OBJECT)
        return;
    uint32_t id = js_get(doc, 0, "input_id"), answer = js_get(doc, 0, "answer");
    for (size_t i = 0; id && answer && i < r->n_questions; i++) {
        struct remote_question *q = &r->questions[i];
        put_input_id(q, &r->text);
        if (q->answer.len == 0 && js_is(doc, id, r->text.bytes))
            js_copy(doc, answer, &q->answer);
    }
    if (r->state == REMOTE_ASKS && all_answered(r))
        go_on(r);
}

/* --- a turn ----------------------------------------------------------------------------------- */

void remote_open(struct remote *r, enum remote_kind kind, const struct remote_turn *turn)
{
    *r = (struct remote){.form = forms[kind]};
    buf_putstr(&r->url, turn->url);
    buf_putstr(&r->model, turn->model);
    buf_putstr(&r->conversation_id, turn->conversation_id);
    buf_putstr(&r->task_id, turn->task_id);
    buf_putstr(&r->input, turn->input);
    buf_putstr(&r->history, turn->history);
    buf_putstr(&r->recap, turn->recap.n ? turn->recap : turn->input);
    buf_putstr(&r->session, turn->session);
}

void remote_begin(struct remote *r, enum remote_kind kind, const struct remote_turn *turn)
{
    remote_open(r, kind, turn);
    r->form->begin(r);
}

void remote_begin_anew(struct remote *r)
{
    struct buf *const of_the_old[] = {&r->peer_id, &r->last_id, &r->answer,
                                      &r->result,  &r->kept,    &r->pending};
    for (size_t i = 0; i < countof(of_the_old); i++)
        buf_clear(of_the_old[i]);
    while (r->parts.n)
        remote_part_drop(&r->parts, &r->parts.list[r->parts.n - 1]);
    r->tokens_in = r->tokens_out = 0;
    r->has_usage = r->has_said = r->answer_cut = r->rejoined = r->goes_on = false;
    r->step = 0;
    r->posted = 0;
    r->n_items = 0;
    r->anew = true;
    r->form->begin(r);
    r->request.may_repeat = true;
}

static void scratch_trim(struct buf *b)
{
    if (b->cap > SCRATCH)
        buf_done(b);
}

static void take_json(struct remote *r, struct str json, struct str event, const char *what)
{
    struct buf why = {0};
    bool good = js_parse(&r->doc, json.p, json.n, JS_AGENT);
    if (good && js_type(&r->doc, 0) >= JS_ARRAY) {
        if (str_eq(event, STR("error")) && !r->form->takes_errors)
            remote_complain(r, 0);
        else
            r->form->take(r, event);
    } else if (good) {
        buf_putf(&why, "%s is neither an object nor an array", what);
        remote_fail(r, buf_str(&why));
    } else {
        buf_putf(&why, "%s is no JSON: %s at byte %zu", what, r->doc.error, r->doc.error_at);
        remote_fail(r, buf_str(&why));
    }
    buf_done(&why);
    scratch_trim(&r->text);
    scratch_trim(&r->more);
}

/* An event that only keeps the connection alive. */
static bool is_idle(const struct sse_event *e)
{
    static const char *const names[] = {"ping", "keepalive", "keep-alive", "heartbeat"};
    for (size_t i = 0; i < countof(names); i++)
        if (str_eq(e->event, str_of(names[i])))
            return true;
    return str_is_blank(e->data) || str_eq(e->data, STR("null"));
}

static void keep_last_id(struct remote *r, struct str id)
{
    if (!sse_id_can_be_sent(id))
        return;
    buf_clear(&r->last_id);
    buf_putstr(&r->last_id, id);
}

void remote_event(struct remote *r, const struct sse_event *event)
{
    if (r->state != REMOTE_WORKS)
        return;
    keep_last_id(r, event->id);
    if (is_idle(event))
        return;
    if (str_eq(str_trim(event->data), STR("[DONE]")))
        remote_end(r, STR_NULL);
    else
        take_json(r, event->data, event->event, "an event of the reply");
}

void remote_body(struct remote *r, struct str body)
{
    if (r->state == REMOTE_WORKS && !str_is_blank(body))
        take_json(r, body, STR(""), "the reply");
}

void remote_end(struct remote *r, struct str why)
{
    if (r->state != REMOTE_WORKS || r->request.wanted)
        return;
    if (r->form->end && r->form->end(r, why))
        return;
    remote_fail(r, why.p ? why : STR("the reply ended before its turn"));
}

void remote_refused(struct remote *r, int status, struct str why)
{
    if (r->state != REMOTE_WORKS)
        return;
    if (!r->form->refused || !r->form->refused(r, status))
        remote_fail(r, why);
}

bool remote_cancel(struct remote *r)
{
    if (is_over(r) || !r->form->cancel)
        return false;
    return r->form->cancel(r);
}

void remote_done(struct remote *r)
{
    struct buf *const all[] = {&r->request.url, &r->request.body, &r->request.last_id,
                               &r->said,        &r->failure,      &r->session,
                               &r->url,         &r->model,        &r->input,
                               &r->history,     &r->recap,        &r->conversation_id,
                               &r->task_id,     &r->answer,       &r->last_id,
                               &r->peer_id,     &r->result,       &r->kept,
                               &r->pending,     &r->peer_state,   &r->text,
                               &r->more};
    for (size_t i = 0; i < countof(all); i++)
        buf_done(all[i]);
    while (r->parts.n)
        remote_part_drop(&r->parts, &r->parts.list[r->parts.n - 1]);
    free(r->parts.list);
    questions_drop(r);
    say_calls_done(&r->calls);
    js_done(&r->doc);
    js_done(&r->other);
}
