/* Handles the gateway's lines: replies, events, questions of the agent. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/cli/chat_errors.h"
#include "gateway/cli/chat_private.h"
#include "gateway/cli/chat_token.h"
#include "proto/event.h"

#define MAX_ANSWER 4096 /* in one answer */
#define SHOWN_BYTES 200 /* of a call's arguments and of its result */

static void keep_member(struct chat *c, uint32_t object, const char *key, char **to)
{
    free(*to);
    *to = chat_member(c, object, key);
}

/* --- questions of the agent ------------------------------------------------------------------- */

void chat_answer(struct chat *c, struct str typed)
{
    const struct chat_question *its = chat_question_asked(&c->questions);
    struct buf r = chat_request("respond");
    chat_put_task(c, &r);
    js_put_field(&r, "input_id", str_of(its->id));
    chat_question_put_answer(its, typed, &r);
    chat_send(c, &r);
    chat_question_sent(&c->questions);
    chat_ask_user(c);
}

/* The lines that a terminal has edited. */
static void take_typed(struct chat *c)
{
    for (const char *newline;
         c->typed.len > 0 && (newline = memchr(c->typed.bytes, '\n', c->typed.len)) != NULL;) {
        size_t n = (size_t)(newline - c->typed.bytes);
        char *line = xstrdup((struct str){c->typed.bytes, n});
        buf_consume(&c->typed, n + 1);
        if (c->o->talks)
            chat_talk_line(c, str_of(line));
        else if (chat_question_asked(&c->questions))
            chat_answer(c, str_of(line));
        free(line);
    }
}

static void on_typed(uv_poll_t *poll, int status, int events)
{
    struct chat *c = poll->data;
    char bytes[MAX_ANSWER];
    ssize_t n = status < 0 ? 0 : read(STDIN_FILENO, bytes, sizeof bytes);
    (void)events;
    if (n <= 0) {
        uv_poll_stop(poll);
        if (c->o->talks)
            chat_talk_leave(c);
        return;
    }
    if (c->is_raw) {
        chat_talk_keys(c, bytes, (size_t)n);
        return;
    }
    buf_put(&c->typed, bytes, (size_t)n);
    take_typed(c);
}

/* Shows the next open question, if there is one, and listens for its answer. */
void chat_ask_user(struct chat *c)
{
    const struct chat_question *its = chat_question_asked(&c->questions);
    char prompt[CHAT_QUESTION_PROMPT] = "";
    if (its && its->is_approval && !c->is_raw)
        chat_question_prompt(its, prompt);
    if (its) {
        const char *before = strchr(its->text, '\n') ? "\n  " : " ";
        chat_show_aside(&c->show, "? %s%s%s", its->text, *prompt ? before : "", prompt);
    }
    if (c->o->talks)
        chat_talk_draw(c);
    else if (!c->keyboard.data && its)
        chat_show_aside(&c->show,
                        "  It waits for an answer, which can only be typed on a terminal.");
    else if (c->keyboard.data && its)
        uv_poll_start(&c->keyboard, UV_READABLE, on_typed);
    else if (c->keyboard.data)
        uv_poll_stop(&c->keyboard);
}

static void on_question(struct chat *c, uint32_t data)
{
    if (chat_question_add(&c->questions, &c->doc, data))
        chat_ask_user(c);
}

static void chat_answered(struct chat *c, uint32_t data)
{
    char *id = chat_member(c, data, "input_id");
    if (chat_question_close(&c->questions, str_of(id)))
        chat_ask_user(c);
    free(id);
}

/* --- events ----------------------------------------------------------------------------------- */

static void show_failure(struct chat *c, uint32_t data)
{
    uint32_t error = js_get(&c->doc, data, "error");
    char *why = error ? chat_error_words(&c->doc, error) : xstrdup(STR("It failed."));
    char *output = chat_member(c, data, "output");
    chat_show_answer(&c->show, str_of(output)); /* its text so far: promise 8 */
    chat_show_end(&c->show);
    chat_show_aside(&c->show, "holdfast: %s", why);
    free(why);
    free(output);
}

static void show_call(struct chat *c, uint32_t data, const char *member_key, bool is_result)
{
    char *name = chat_member(c, data, "name");
    struct buf detail = {0};
    uint32_t node = js_get(&c->doc, data, member_key);
    if (node && js_type(&c->doc, node) == JS_STRING)
        js_value(&c->doc, node, &detail);
    else if (node)
        js_copy(&c->doc, node, &detail);
    size_t n = utf8_cut(buf_str(&detail), SHOWN_BYTES);
    for (size_t i = 0; detail.bytes && i < n; i++)
        detail.bytes[i] = detail.bytes[i] == '\n' ? ' ' : detail.bytes[i];
    chat_show_aside(&c->show, "· %s%s%.*s%s%s", name, is_result ? " → " : "(", (int)n,
                    detail.bytes ? detail.bytes : "", n < detail.len ? "…" : "",
                    is_result ? "" : ")");
    buf_done(&detail);
    free(name);
}

/* A file of the conversation, in words; its number is for /save. */
static void put_file(struct chat *c, uint32_t file, struct buf *out)
{
    char *name = chat_member(c, file, "name"), *id = chat_member(c, file, "file_id");
    int64_t size = chat_number(c, file, "size");
    size_t number = chat_save_know(c, str_of(id), str_of(name), size);
    buf_putf(out, "%s (%" PRId64 " bytes, ", *name ? name : "without a name", size);
    if (c->o->talks)
        buf_putf(out, "/save %zu)", number);
    else
        buf_putf(out, "%s)", id);
    free(name);
    free(id);
}

static void show_file(struct chat *c, uint32_t data)
{
    struct buf text = {0};
    char *name = chat_member(c, data, "name"), *id = chat_member(c, data, "file_id");
    put_file(c, data, &text);
    chat_show_aside(&c->show, "· it gives a file: %s", text.bytes);
    chat_save_given(c, id, name);
    free(name);
    free(id);
    buf_done(&text);
}

static void show_resumed(struct chat *c, uint32_t data)
{
    uint32_t keep = js_get(&c->doc, data, "keep");
    bool withdraws = keep && js_type(&c->doc, keep) == JS_OBJECT;
    chat_show_aside(&c->show, "· the gateway was restarted, and the task goes on%s",
                    withdraws ? "; its last words come anew" : "");
    if (withdraws)
        chat_show_withdraw(&c->show, (size_t)chat_number(c, keep, "text"));
}

/* Several tasks are followed, one after another: each says what it answers. */
static void show_question(struct chat *c, uint32_t data)
{
    char *input = chat_member(c, data, "input");
    if (c->tells_questions)
        chat_show_aside(&c->show, "· the answer to: %.*s",
                        (int)utf8_cut(str_of(input), SHOWN_BYTES), input);
    free(input);
}

static void show_event(struct chat *c, enum event_type event, uint32_t data)
{
    static const char *const text_keys[N_EVENT_TYPES] = {[EVENT_TOKEN] = "text",
                                                         [EVENT_THINKING] = "text",
                                                         [EVENT_FINAL_ANSWER] = "output",
                                                         [EVENT_PROGRESS] = "note",
                                                         [EVENT_CHILD] = "name"};
    char *text = chat_member(c, data, text_keys[event] ? text_keys[event] : "text");
    switch (event) {
    case EVENT_TASK_CREATED: show_question(c, data); break;
    case EVENT_TOKEN: chat_show_token(&c->show, str_of(text)); break;
    case EVENT_THINKING: chat_show_thinking(&c->show, str_of(text)); break;
    case EVENT_FINAL_ANSWER: chat_show_answer(&c->show, str_of(text)); break;
    case EVENT_TASK_RESUMED: show_resumed(c, data); break;
    case EVENT_TOOL_CALL: show_call(c, data, "arguments", false); break;
    case EVENT_TOOL_RESULT: show_call(c, data, "output", true); break;
    case EVENT_PROGRESS:
        if (*text)
            chat_show_aside(&c->show, "· %s", text);
        break;
    case EVENT_CHILD: chat_show_aside(&c->show, "· it started another task %s", text); break;
    case EVENT_FILE: show_file(c, data); break;
    case EVENT_INPUT_REQUIRED: on_question(c, data); break;
    case EVENT_INPUT_RECEIVED: chat_answered(c, data); break;
    case EVENT_TASK_FAILED: show_failure(c, data); break;
    default: break;
    }
    free(text);
}

/* The task has ended. */
static void end(struct chat *c, int code)
{
    if (c->o->talks)
        chat_talk_idle(c);
    else
        chat_save_end(c, code);
}

static void on_event(struct chat *c)
{
    enum event_type event;
    char *name = chat_member(c, 0, "event");
    uint64_t seq = (uint64_t)chat_number(c, 0, "seq");
    uint32_t data = js_get(&c->doc, 0, "data");
    bool known = event_find(str_of(name), &event);
    free(name);
    if (seq <= c->seen || c->state == CHAT_OVER)
        return;
    c->seen = seq;
    if (c->o->prints_json)
        chat_show_row(&c->show, c->line);
    if (!known || !data)
        return;
    if (!c->o->prints_json || event == EVENT_INPUT_REQUIRED || event == EVENT_INPUT_RECEIVED ||
        (event == EVENT_FILE && c->o->save))
        show_event(c, event, data);
    if (event_is_terminal(event))
        end(c, event == EVENT_TASK_COMPLETED ? 0 : 1);
    else if (c->show.has_failed)
        chat_finish(c, 1); /* nobody reads the output */
}

/* --- replies ---------------------------------------------------------------------------------- */

/* The agents of the welcome, for /agents. */
static void keep_agents(struct chat *c)
{
    uint32_t agents = js_get(&c->doc, 0, "agents");
    buf_clear(&c->agents);
    if (!agents || js_type(&c->doc, agents) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(&c->doc, agents); i < js_end(&c->doc, agents);
         i = js_next(&c->doc, i)) {
        char *name = chat_member(c, i, "name"), *description = chat_member(c, i, "description");
        buf_putf(&c->agents, "%s%s%s%s", c->agents.len ? "\n" : "", name, *description ? "  " : "",
                 description);
        free(name);
        free(description);
    }
}

static void begin_talk(struct chat *c)
{
    bool is_first = !c->talk_began;
    if (is_first)
        chat_talk_begin(c);
    c->talk_began = true;
    if (c->keyboard.data)
        uv_poll_start(&c->keyboard, UV_READABLE, on_typed);
    chat_talk_idle(c);
    if (is_first && c->conversation)
        chat_command_look_back(c);
}

/* A wrong name is told before anything is asked. */
static bool has_agent(struct chat *c)
{
    struct buf why = {0};
    if (!c->o->agent || chat_command_has_agent(c, c->o->agent))
        return true;
    buf_putf(&why, "there is no agent \"%s\"; there are: ", c->o->agent);
    chat_command_put_agents(c, &why);
    chat_give_up(c, why.bytes);
    buf_done(&why);
    return false;
}

/* The files of --attach. */
static void attach_given(struct chat *c)
{
    const struct buf *given = &c->o->attach;
    bool is_first = !c->has_attached;
    c->has_attached = true;
    for (size_t at = 0; is_first && at < given->len && c->state != CHAT_OVER;
         at += strlen(given->bytes + at) + 1)
        chat_attach(c, given->bytes + at);
}

static void begin(struct chat *c)
{
    bool talks = c->o->talks && !c->task && c->message.len == 0;
    if (talks)
        begin_talk(c);
    attach_given(c);
    if (talks || c->state == CHAT_OVER)
        return;
    if (chat_attach_is_busy(c))
        c->state = CHAT_IDLE;
    else
        chat_ask(c);
}

static void on_welcome(struct chat *c)
{
    uint32_t token = js_get(&c->doc, 0, "token");
    if (token && !c->o->token) {
        keep_member(c, 0, "token", &c->token);
        chat_token_save(&c->o->url, str_of(c->token));
        c->is_stored_token = true;
    }
    if (c->is_broken)
        chat_show_aside(&c->show, "· connected again");
    bool is_first = !c->was_welcome;
    uv_timer_stop(&c->again);
    c->was_welcome = true;
    c->attempts = 0;
    c->is_broken = false;
    c->away_ms = 0;
    c->epoch_now = (uint64_t)chat_number(c, 0, "epoch");
    keep_agents(c);
    if (is_first && !has_agent(c))
        return;
    if (c->o->continues && !c->has_looked_back && !c->task)
        chat_command_list(c, 1);
    else
        begin(c);
}

static void on_started(struct chat *c)
{
    uint32_t task = js_get(&c->doc, 0, "task");
    if (!task)
        return;
    keep_member(c, task, "task_id", &c->task);
    keep_member(c, task, "conversation_id", &c->conversation);
    c->epoch = c->epoch_now;
    chat_attach_asked(c);
    if (!c->o->talks)
        chat_show_aside(&c->show, "· task %s/%s", c->conversation, c->task);
    c->state = CHAT_FOLLOWING;
    if (c->is_stopping)
        chat_talk_send_stop(c);
}

static void on_resumed(struct chat *c)
{
    uint64_t first = (uint64_t)chat_number(c, 0, "first");
    c->epoch = (uint64_t)chat_number(c, 0, "epoch");
    c->state = CHAT_FOLLOWING;
    if (c->is_stopping)
        chat_talk_send_stop(c);
    if (first <= c->seen + 1)
        return;
    chat_show_aside(&c->show, "· events before %" PRIu64 " are no longer kept", first);
    c->seen = first - 1;
}

/* Answers that a break has swallowed: their questions are open, or the events before had said. */
static void ask_again(struct chat *c)
{
    bool any = false;
    while (c->may_miss_answers && chat_question_refused(&c->questions, true))
        any = true;
    c->may_miss_answers = false;
    if (any)
        chat_ask_user(c);
}

/* Also for a task that has ended with nothing after --after. */
static void on_caught_up(struct chat *c)
{
    ask_again(c);
    uint64_t head = (uint64_t)chat_number(c, 0, "seq");
    if (c->state != CHAT_FOLLOWING || head != c->seen || c->seen != c->o->after)
        return;
    struct buf r = chat_request("task");
    chat_put_task(c, &r);
    chat_send(c, &r);
}

static void chat_on_task(struct chat *c)
{
    uint32_t task = js_get(&c->doc, 0, "task");
    uint32_t status = task ? js_get(&c->doc, task, "status") : 0;
    if (!status || js_is(&c->doc, status, "pending") || js_is(&c->doc, status, "running"))
        return;
    chat_show_aside(&c->show, "· it has ended without further output");
    end(c, js_is(&c->doc, status, "completed") ? 0 : 1);
}

static void on_cancelled(struct chat *c)
{
    bool any = chat_number(c, 0, "cancelled") > 0;
    chat_show_aside(&c->show, any ? "· it stops" : "· it has ended, or was cancelled before");
    chat_finish(c, 0);
}

static void put_column(struct chat *c, uint32_t row, const char *key, struct buf *out)
{
    char *text = chat_member(c, row, key);
    for (char *at = text; *at; at++)
        if (*at == '\t' || *at == '\n')
            *at = ' ';
    buf_puts(out, text);
    free(text);
}

static void show_row(struct chat *c, uint32_t row, bool is_task)
{
    struct buf line = {0};
    put_column(c, row, "conversation_id", &line);
    if (is_task)
        buf_putc(&line, '/');
    buf_clear(&c->older_than);
    put_column(c, row, is_task ? "task_id" : "conversation_id", &c->older_than);
    if (is_task)
        buf_putstr(&line, buf_str(&c->older_than));
    buf_putc(&line, '\t');
    if (is_task)
        put_column(c, row, "status", &line);
    else
        buf_putf(&line, "%" PRId64 " running", chat_number(c, row, "running"));
    buf_putc(&line, '\t');
    put_column(c, row, is_task ? "name" : "title", &line);
    if (c->o->talks)
        chat_show_aside(&c->show, "%s", line.bytes);
    else
        chat_show_row(&c->show, buf_str(&line));
    buf_done(&line);
}

/* The tasks that run in the conversation in which a talk goes on, the oldest first. */
static void follow_running(struct chat *c, const uint32_t *tasks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *status = chat_member(c, tasks[i], "status"),
             *id = chat_member(c, tasks[i], "task_id");
        if (strcmp(status, "running") == 0 || strcmp(status, "pending") == 0)
            chat_talk_follow(c, str_of(id));
        free(status);
        free(id);
    }
    chat_talk_go_on(c);
}

/* --continue: the conversation that changed last; a new one when there is none. */
static void go_on_in(struct chat *c, uint32_t conversations)
{
    uint32_t newest = js_first(&c->doc, conversations);
    c->has_looked_back = true;
    if (newest < js_end(&c->doc, conversations))
        keep_member(c, newest, "conversation_id", &c->conversation);
    begin(c);
}

static void on_list(struct chat *c, const char *key)
{
    uint32_t rows = js_get(&c->doc, 0, key), more = js_get(&c->doc, 0, "more");
    bool is_task = strcmp(key, "tasks") == 0;
    uint32_t at[LIST_MAX];
    size_t n = 0;
    bool has_rows = rows && js_type(&c->doc, rows) == JS_ARRAY;
    if (has_rows && c->o->continues && !c->has_looked_back) {
        go_on_in(c, rows);
        return;
    }
    if (has_rows)
        for (uint32_t i = js_first(&c->doc, rows); i < js_end(&c->doc, rows) && n < LIST_MAX;
             i = js_next(&c->doc, i))
            at[n++] = i;
    if (c->o->talks && is_task) {
        if (chat_command_still_wants(c))
            follow_running(c, at, n);
        return;
    }
    /* A page of tasks has its oldest first, one of conversations its newest: all show the
     * newest. */
    for (size_t i = 0; i < n; i++)
        show_row(c, at[is_task ? n - 1 - i : i], is_task);
    if (c->o->talks) {
        chat_show_aside(&c->show, n ? "/resume and a name goes on in it" : "there are none yet");
        return;
    }
    if (n > 0 && more && js_type(&c->doc, more) == JS_TRUE && !c->show.has_failed)
        chat_ask(c);
    else
        chat_finish(c, c->show.has_failed ? 1 : 0);
}

static void show_files(struct chat *c, uint32_t message)
{
    uint32_t parts = js_get(&c->doc, message, "parts");
    struct buf text = {0};
    if (!parts || js_type(&c->doc, parts) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(&c->doc, parts); i < js_end(&c->doc, parts);
         i = js_next(&c->doc, i)) {
        uint32_t id = js_get(&c->doc, i, "file_id");
        buf_clear(&text);
        if (!id)
            continue;
        put_file(c, i, &text);
        chat_show_aside(&c->show, "· with a file: %s", text.bytes);
    }
    buf_done(&text);
}

/* The last messages of the conversation in which a talk goes on. */
static void chat_on_history(struct chat *c)
{
    uint32_t messages = js_get(&c->doc, 0, "messages");
    if (!messages || js_type(&c->doc, messages) != JS_ARRAY || !chat_command_still_wants(c))
        return;
    if (js_first(&c->doc, messages) == js_end(&c->doc, messages))
        chat_show_aside(&c->show, "· it has no messages yet");
    for (uint32_t i = js_first(&c->doc, messages); i < js_end(&c->doc, messages);
         i = js_next(&c->doc, i)) {
        char *role = chat_member(c, i, "role"), *content = chat_member(c, i, "content");
        if (strcmp(role, "user") == 0)
            chat_show_typed(&c->show, "> ", str_of(content));
        else
            chat_show_answer(&c->show, str_of(content));
        chat_show_end(&c->show);
        show_files(c, i);
        chat_show_begin(&c->show);
        free(role);
        free(content);
    }
}

void chat_take_line(void *arg, struct str line)
{
    struct chat *c = arg;
    static const struct {
        const char *type;
        void (*take)(struct chat *c);
    } kinds[] = {{"event", on_event},        {"welcome", on_welcome},     {"started", on_started},
                 {"resumed", on_resumed},    {"caught_up", on_caught_up}, {"task", chat_on_task},
                 {"error", chat_take_error}, {"history", chat_on_history}};
    if (c->state == CHAT_OVER || !js_parse(&c->doc, line.p, line.n, JS_OURS))
        return;
    uint32_t type = js_get(&c->doc, 0, "type");
    if (!type)
        return;
    c->line = line;
    for (size_t i = 0; i < countof(kinds); i++)
        if (js_is(&c->doc, type, kinds[i].type)) {
            kinds[i].take(c);
            return;
        }
    if (js_is(&c->doc, type, "ok") && c->o->what == CHAT_CANCEL)
        on_cancelled(c);
    else if (js_is(&c->doc, type, "tasks"))
        on_list(c, "tasks");
    else if (js_is(&c->doc, type, "conversations"))
        on_list(c, "conversations");
    else if (js_is(&c->doc, type, "goaway"))
        c->away_ms = (uint64_t)chat_number(c, 0, "retry_after_ms");
}
