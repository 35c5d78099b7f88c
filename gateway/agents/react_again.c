#include "gateway/agents/react_again.h"

#include <stdlib.h>
#include <uv.h>

#include "gateway/agents/react_call.h"
#include "gateway/agents/react_files.h"
#include "gateway/base/fault.h"

/* --- notes ------------------------------------------------------------------------------------ */

static void tell_note(const struct teller *t, struct buf *note, struct str message)
{
    buf_putc(note, '\n');
    buf_putstr(note, message);
    t->events.on_note(t->task, false, buf_str(note));
    FAULT_DIE(NOTE);
    buf_done(note);
}

/* Where calls begin now; NULL: none of the tools has a place. */
static const char *place_of(const struct react_calls *c)
{
    for (size_t i = 0; i < c->n_tools; i++)
        if (c->tools[i]->place)
            return c->tools[i]->place(c->tools[i]);
    return NULL;
}

void react_again_note_turn(const struct teller *t, const struct react_calls *calls,
                           const struct model_usage *usage, struct str message)
{
    struct buf note = {0};
    buf_puts(&note, "{\"turn\":{");
    if (usage)
        buf_putf(&note, "\"usage\":[%lld,%lld,%lld],", (long long)usage->prompt_tokens,
                 (long long)usage->completion_tokens, (long long)usage->cached_tokens);
    buf_puts(&note, "\"faults\":[");
    for (size_t i = 0; i < calls->n; i++) {
        buf_puts(&note, i ? "," : "");
        js_put_str(&note, str_of(calls->list[i]->fault));
    }
    buf_putc(&note, ']');
    if (calls->n && place_of(calls))
        js_put_field(&note, "place", str_of(place_of(calls)));
    buf_puts(&note, "}}");
    tell_note(t, &note, message);
}

void react_again_note_message(const struct teller *t, struct str message)
{
    struct buf note = {0};
    buf_puts(&note, "{\"message\":{}}");
    tell_note(t, &note, message);
}

/* --- the calls of a turn ---------------------------------------------------------------------- */

static char *recall_text(const struct js_doc *doc, uint32_t object, const char *member)
{
    struct buf text = {0};
    uint32_t node = js_type(doc, object) == JS_OBJECT ? js_get(doc, object, member) : 0;
    if (!node || js_type(doc, node) != JS_STRING)
        return NULL;
    buf_puts(&text, "");
    js_value(doc, node, &text);
    return buf_take(&text);
}

static struct react_call *recall_find_call(const struct recall *r, const char *id)
{
    for (size_t i = 0; id && i < r->calls.n; i++)
        if (strcmp(r->calls.list[i]->id, id) == 0)
            return r->calls.list[i];
    return NULL;
}

static bool add_call(struct recall *r, uint32_t node)
{
    const struct js_doc *doc = &r->doc;
    struct react_calls *c = &r->calls;
    bool is_object = js_type(doc, node) == JS_OBJECT;
    uint32_t function = is_object ? js_get(doc, node, "function") : 0;
    struct react_call *call = xcalloc(sizeof *call);
    call->id = is_object ? recall_text(doc, node, "id") : NULL;
    call->name = function ? recall_text(doc, function, "name") : NULL;
    call->arguments = function ? recall_text(doc, function, "arguments") : NULL;
    if (!call->id || !call->name || !call->arguments || recall_find_call(r, call->id)) {
        react_call_free(call);
        return false;
    }
    call->number = ++c->n_numbers;
    call->more = xstrdup(STR("")); /* they stand in the talk already */
    call->function_more = xstrdup(STR(""));
    c->list = xrealloc(c->list, (c->n + 1) * sizeof(struct react_call *));
    c->list[c->n++] = call;
    return true;
}

static bool add_calls(struct recall *r, struct str message)
{
    struct js_doc *doc = &r->doc;
    if (!js_parse(doc, message.p, message.n, JS_OURS) || js_type(doc, 0) != JS_OBJECT)
        return false;
    uint32_t calls = js_get(doc, 0, "tool_calls");
    if (!calls)
        return true;
    if (js_type(doc, calls) != JS_ARRAY)
        return false;
    for (uint32_t i = js_first(doc, calls); i < js_end(doc, calls); i = js_next(doc, i))
        if (!add_call(r, i))
            return false;
    r->has_called = true;
    return true;
}

/* The turn before is over: its results follow it in the talk. */
static bool close_turn(struct recall *r)
{
    for (size_t i = 0; i < r->calls.n; i++)
        if (r->calls.list[i]->state != CALL_CLOSED)
            return false;
    react_calls_put_results(&r->calls, &r->talk);
    react_calls_clear(&r->calls);
    return true;
}

#define MAX_TOKENS (INT64_MAX / 4) /* no sum of two overflows */

/* --- recalling notes -------------------------------------------------------------------------- */

static bool recall_usage(struct recall *r, uint32_t turn)
{
    const struct js_doc *doc = &r->doc;
    uint32_t usage = js_get(doc, turn, "usage");
    if (!usage)
        return true;
    int64_t *const to[] = {&r->usage.prompt_tokens, &r->usage.completion_tokens,
                           &r->usage.cached_tokens};
    size_t n = 0;
    bool good = js_type(doc, usage) == JS_ARRAY;
    for (uint32_t i = js_first(doc, usage); good && i < js_end(doc, usage); i = js_next(doc, i))
        good = n < countof(to) && js_int(doc, i, to[n++]) && *to[n - 1] >= 0 &&
               *to[n - 1] <= MAX_TOKENS;
    r->has_usage = true;
    return good && n == countof(to);
}

/* One for each call, null for none; kept until the calls are known. */
static char **copy_faults(const struct recall *r, uint32_t turn, size_t *ret_n)
{
    const struct js_doc *doc = &r->doc;
    uint32_t faults = js_get(doc, turn, "faults");
    char **all = NULL;
    *ret_n = 0;
    if (!faults || js_type(doc, faults) != JS_ARRAY)
        return NULL;
    for (uint32_t i = js_first(doc, faults); i < js_end(doc, faults); i = js_next(doc, i)) {
        struct buf text = {0};
        all = xrealloc(all, (*ret_n + 1) * sizeof(char *));
        if (js_type(doc, i) == JS_STRING)
            js_value(doc, i, &text);
        all[(*ret_n)++] = text.len ? buf_take(&text) : NULL;
        buf_done(&text);
    }
    return all;
}

/* A call that had come so far may have begun at the place before. */
static bool recall_place(struct recall *r, uint32_t object)
{
    char *place = recall_text(&r->doc, object, "place");
    bool moves = !place || !r->place || strcmp(place, r->place) != 0;
    for (size_t i = 0; moves && i < r->calls.n; i++)
        r->calls.list[i]->is_elsewhere |= r->calls.list[i]->state == CALL_TOLD;
    free(r->place);
    r->place = place;
    return true;
}

static bool recall_turn(struct recall *r, uint32_t turn, struct str message)
{
    size_t n = 0;
    if (js_type(&r->doc, turn) != JS_OBJECT || !recall_usage(r, turn))
        return false;
    (void)recall_place(r, turn);
    char **faults = copy_faults(r, turn, &n);
    bool good = add_calls(r, message) && n == r->calls.n;
    for (size_t i = 0; i < n; i++) {
        if (good)
            r->calls.list[i]->fault = faults[i];
        else
            free(faults[i]);
    }
    free(faults);
    if (!good)
        return false;
    talk_put_raw(&r->talk, TALK_ASSISTANT, message);
    r->n_turns++;
    return true;
}

static bool recall_note(struct recall *r, struct str note)
{
    const char *newline = note.n ? memchr(note.p, '\n', note.n) : NULL;
    size_t n = newline ? (size_t)(newline - note.p) : 0;
    struct str message = newline ? (struct str){newline + 1, note.n - n - 1} : STR_NULL;
    if (!newline || !js_parse(&r->doc, note.p, n, JS_OURS) || js_type(&r->doc, 0) != JS_OBJECT)
        return false;
    if (js_get(&r->doc, 0, "place"))
        return recall_place(r, 0);
    if (message.n == 0 || !close_turn(r))
        return false;
    uint32_t turn = js_get(&r->doc, 0, "turn");
    if (turn)
        return recall_turn(r, turn, message);
    if (!js_get(&r->doc, 0, "message"))
        return false;
    talk_put_raw(&r->talk, TALK_USER, message);
    r->n_turns = 0;
    return true;
}

/* --- recalling events ------------------------------------------------------------------------- */

static void recall_result(struct recall *r, struct react_call *call)
{
    uint32_t output = js_get(&r->doc, 0, "output"), error = js_get(&r->doc, 0, "is_error");
    call->state = CALL_CLOSED;
    if (error && js_type(&r->doc, error) == JS_TRUE)
        buf_puts(&call->output, "error: ");
    if (output && js_type(&r->doc, output) == JS_STRING)
        js_value(&r->doc, output, &call->output);
}

/* The number in an id that begins so; 0: it does not. */
static unsigned recall_number(const char *id, const char *prefix)
{
    size_t n = strlen(prefix);
    return id && strncmp(id, prefix, n) == 0 ? (unsigned)strtoul(id + n, NULL, 10) : 0;
}

static void recall_asked(struct recall *r, struct react_call *call)
{
    free(call->awaits);
    call->awaits = recall_text(&r->doc, 0, "input_id");
    unsigned n = recall_number(call->awaits, "ask-");
    call->is_moot = js_get(&r->doc, 0, "by") != 0;
    r->calls.n_questions = n > r->calls.n_questions ? n : r->calls.n_questions;
}

static int64_t tokens_of(const struct model_usage *u)
{
    return u->prompt_tokens + u->completion_tokens;
}

static void recall_answer(struct recall *r)
{
    char *id = recall_text(&r->doc, 0, "input_id");
    uint32_t answer = js_get(&r->doc, 0, "answer");
    for (size_t i = 0; id && answer && i < r->calls.n; i++) {
        struct react_call *call = r->calls.list[i];
        struct buf json = {0};
        if (call->state != CALL_TOLD || !call->awaits || strcmp(call->awaits, id) != 0)
            continue;
        buf_puts(&json, "{\"answer\":");
        js_copy(&r->doc, answer, &json);
        buf_putc(&json, '}');
        free(call->answer);
        call->answer = buf_take(&json);
    }
    free(id);
}

static void recall_call_event(struct recall *r, enum event_type event, struct react_call *call)
{
    if (event == EVENT_TOOL_CALL && call->state == CALL_NEW)
        call->state = CALL_TOLD;
    if (event == EVENT_TOOL_RESULT && call->state == CALL_TOLD)
        recall_result(r, call);
    if (event == EVENT_INPUT_REQUIRED && call->state == CALL_TOLD)
        recall_asked(r, call);
    if (event == EVENT_FILE && call->state == CALL_TOLD)
        react_files_put_image(&r->doc, &call->images);
    if (event == EVENT_CHILD && call->state == CALL_TOLD) {
        free(call->awaits);
        call->awaits = recall_text(&r->doc, 0, "task_id");
    }
}

static bool is_fallback(const struct js_doc *doc)
{
    uint32_t type = js_get(doc, 0, "event_type");
    return type && js_type(doc, type) == JS_STRING && js_is(doc, type, "model_fallback");
}

static void recall_event(struct recall *r, const struct event_parts *event)
{
    if (!js_parse(&r->doc, event->data.p, event->data.n, JS_OURS) ||
        js_type(&r->doc, 0) != JS_OBJECT)
        return;
    if (event->event == EVENT_CUSTOM && is_fallback(&r->doc))
        r->n_fallbacks++;
    if (event->event == EVENT_INPUT_RECEIVED)
        recall_answer(r);
    budget_recall(&r->budget, event, &r->doc, tokens_of(&r->usage));
    char *id = recall_text(&r->doc, 0, "call_id");
    struct react_call *call = recall_find_call(r, id);
    if (call)
        recall_call_event(r, event->event, call);
    free(id);
}

struct recall *react_again_recall(struct recall *recall, const struct recalled *item,
                                  bool *ret_settled)
{
    struct recall *r = recall;
    if (!r) {
        r = xcalloc(sizeof *r);
        talk_init(&r->talk);
    }
    bool is_text =
        item->event && (item->event->event == EVENT_TOKEN || item->event->event == EVENT_THINKING);
    *ret_settled = !is_text;
    if (item->event && !is_text)
        recall_event(r, item->event);
    if (!item->event && !recall_note(r, item->note)) {
        react_again_free(r);
        return NULL;
    }
    return r;
}

void react_again_free(struct recall *r)
{
    if (!r)
        return;
    talk_done(&r->talk);
    react_calls_done(&r->calls);
    js_done(&r->doc);
    free(r->place);
    free(r);
}

/* --- going on --------------------------------------------------------------------------------- */

/* It waits for an answer, which may come before the first step of the run. */
static bool is_open(struct react_call *call)
{
    if (call->state != CALL_TOLD || !call->awaits || call->answer || !call->tool || call->is_moot)
        return false;
    call->asking = !call->tool->says;
    return true;
}

void react_again_move_budget(const struct recall *r, struct budget *to, msec_t now_ms)
{
    uv_timeval64_t wall = {0};
    uv_gettimeofday(&wall);
    budget_resume(to, &r->budget, tokens_of(&r->usage), wall.tv_sec * 1000 + wall.tv_usec / 1000,
                  now_ms);
}

/* Those that have come so far are looked for here, or nobody knows; the others begin here. */
static void move_place(const struct recall *r, struct react_calls *to)
{
    const char *here = place_of(to);
    struct buf note = {0};
    bool is_over = true;
    for (size_t i = 0; i < to->n; i++) {
        struct react_call *call = to->list[i];
        call->is_elsewhere |= call->state == CALL_TOLD && tool_is_elsewhere(call->tool, r->place);
        is_over &= call->state == CALL_CLOSED;
    }
    if (is_over || !here || (r->place && strcmp(here, r->place) == 0))
        return;
    buf_putc(&note, '{');
    js_put_field(&note, "place", str_of(here));
    buf_putc(&note, '}');
    tell_note(to->teller, &note, STR(""));
}

void react_again_move(struct recall *r, struct react_calls *to)
{
    to->list = r->calls.list;
    to->n = r->calls.n;
    to->n_numbers = r->calls.n_numbers;
    to->n_questions = r->calls.n_questions;
    r->calls.list = NULL;
    r->calls.n = 0;
    for (size_t i = 0; i < to->n; i++) {
        struct react_call *call = to->list[i];
        call->calls = to;
        call->tool = react_calls_find_tool(to, call->name);
    }
    move_place(r, to);
    for (size_t i = 0; i < to->n; i++) {
        struct react_call *call = to->list[i];
        if (!is_open(call))
            continue;
        call->state = CALL_OPEN;
        to->n_open++;
    }
    FAULT_DIE(AGAIN);
}
