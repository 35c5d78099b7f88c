/* One conversation with a gateway, from the first connection to the end of the task.
 *
 * Design.  The client is in one of these:
 *
 *   connecting ──▶ greeting ──▶ asking ──▶ following ──▶ over
 *        ▲            (hello)     (chat, resume, …)        ▲
 *        └── a break, or a gateway that is busy ◀──────────┤
 *                                                          └ the terminal event, a reply, a refusal
 *
 * After a break it begins again, with the same request key until it knows its task, then with a
 * resume after the last event that it has seen.  So it starts one task, and prints each event
 * once. */
#include "gateway/cli/chat.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/backoff.h"
#include "gateway/cli/chat_private.h"
#include "gateway/cli/chat_token.h"

#define BACKOFF_MS 250
#define BACKOFF_MAX_MS 8000
#define ANSWER_MS 20000    /* for a connection and its welcome */
#define PATIENCE_MS 120000 /* without a welcome; then the client gives up */

/* --- small things ----------------------------------------------------------------------------- */

static uint32_t random_below(uint64_t n)
{
    uint32_t r = 0;
    if (getrandom(&r, sizeof r, GRND_NONBLOCK) < 0)
        r = (uint32_t)uv_hrtime();
    return n ? (uint32_t)(r % n) : 0;
}

static void make_request_key(char ret[33])
{
    for (int i = 0; i < 4; i++)
        snprintf(ret + i * 8, 9, "%08" PRIx32, random_below(UINT32_MAX));
}

void chat_new_key(struct chat *c)
{
    make_request_key(c->request_key);
}

void chat_finish(struct chat *c, int code)
{
    if (c->state == CHAT_OVER)
        return;
    c->state = CHAT_OVER;
    chat_talk_cooked(c);
    c->code = code;
    chat_show_end(&c->show);
    chat_save_tell_unfinished(c);
    uv_stop(&c->loop);
}

static void say_how_to_resume(struct chat *c)
{
    if (!c->task)
        return;
    chat_show_aside(&c->show, "The task continues. To see the rest:");
    chat_show_aside(&c->show, "  holdfast chat %s%s--resume %s/%s --after %" PRIu64,
                    c->o->url_text ? c->o->url_text : "", c->o->url_text ? " " : "",
                    c->conversation, c->task, c->seen);
}

void chat_give_up(struct chat *c, const char *why)
{
    chat_show_end(&c->show);
    chat_show_aside(&c->show, "holdfast: %s", why);
    if (c->state == CHAT_FOLLOWING || c->is_broken)
        say_how_to_resume(c);
    chat_finish(c, 1);
}

/* --- requests --------------------------------------------------------------------------------- */

struct buf chat_request(const char *type)
{
    struct buf out = {0};
    buf_putc(&out, '{');
    js_put_field(&out, "type", str_of(type));
    js_put_field(&out, "id", str_of(type));
    return out;
}

void chat_send(struct chat *c, struct buf *request)
{
    buf_putc(request, '}');
    chat_link_send(&c->link, buf_str(request));
    buf_done(request);
}

static void put_optional(struct buf *out, const char *key, const char *value)
{
    if (value)
        js_put_field(out, key, str_of(value));
}

void chat_put_task(struct chat *c, struct buf *out)
{
    js_put_field(out, "conversation_id", str_of(c->conversation));
    js_put_field(out, "task_id", str_of(c->task));
}

static void say_hello(struct chat *c)
{
    struct buf r = chat_request("hello");
    put_optional(&r, "token", c->token);
    js_put_raw(&r, "client",
               STR("{\"name\":\"holdfast chat\",\"version\":\"" HOLDFAST_VERSION "\"}"));
    chat_send(c, &r);
    c->state = CHAT_GREETING;
}

void chat_ask(struct chat *c)
{
    bool lists_tasks = c->o->what == CHAT_LIST && c->o->conversation;
    struct buf r = chat_request(c->o->what == CHAT_LIST ? lists_tasks ? "tasks" : "conversations"
                                : c->o->what == CHAT_CANCEL ? "cancel"
                                : c->task                   ? "resume"
                                                            : "chat");
    if (c->o->what == CHAT_LIST) {
        put_optional(&r, "conversation_id", c->o->conversation);
        put_optional(&r, "before", c->older_than.len ? c->older_than.bytes : NULL);
    } else if (c->task) {
        chat_put_task(c, &r);
        if (c->o->what != CHAT_CANCEL)
            js_put_int(&r, "after", (int64_t)c->seen);
        if (c->o->what != CHAT_CANCEL && c->epoch)
            js_put_int(&r, "epoch", (int64_t)c->epoch);
    } else {
        chat_attach_put_message(c, &r);
        js_put_field(&r, "request_key", str_of(c->request_key));
        put_optional(&r, "conversation_id", c->conversation);
        put_optional(&r, "agent", c->agent);
    }
    chat_send(c, &r);
    c->state = CHAT_ASKING;
}

/* --- connections ------------------------------------------------------------------------------ */

/* A peer that takes the connection, and is silent: plain text at a port of TLS, for example. */
static void chat_on_late(uv_timer_t *timer)
{
    struct chat *c = timer->data;
    if (c->was_welcome)
        chat_link_drop(&c->link);
    else
        chat_give_up(c, "the address answers nothing: does it speak TLS (https:// or wss://)?");
}

static void chat_connect(struct chat *c)
{
    uv_timer_start(&c->again, chat_on_late, ANSWER_MS, 0);
    chat_link_connect(&c->link);
}

static void chat_on_again(uv_timer_t *timer)
{
    chat_connect(timer->data);
}

static void on_open(void *arg)
{
    say_hello(arg);
}

/* Why coming back makes no sense; NULL when it does. */
static const char *last_word(int code)
{
    switch (code) {
    case 1007:
    case 1008: return "the gateway does not understand this client";
    case 1009: return "the message is too long for the gateway";
    case 4401: return "the token is not valid, or has expired";
    default: return NULL;
    }
}

static uint64_t pause_before_next(struct chat *c)
{
    if (c->retry_ms)
        return c->retry_ms;
    if (c->away_ms)
        return random_below(c->away_ms);
    uint64_t most = (uint64_t)backoff_ms(c->attempts + 1, BACKOFF_MS, BACKOFF_MAX_MS);
    return most / 2 + random_below(most / 2);
}

static void chat_on_closed(void *arg, int code, const char *why)
{
    struct chat *c = arg;
    char text[512];
    if (c->state == CHAT_OVER)
        return;
    const char *last = c->retry_ms ? NULL : last_word(code);
    if (last) {
        chat_give_up(c, last);
        return;
    }
    if (!c->was_welcome && !c->retry_ms) {
        snprintf(text, sizeof text, "cannot connect to %s port %d: %s", c->o->url.host,
                 c->o->url.port, why);
        chat_give_up(c, text);
        return;
    }
    if (!c->is_broken && !c->retry_ms) {
        c->is_broken = true;
        c->broken_at = uv_now(&c->loop);
        chat_show_aside(&c->show, "· the connection broke; %sconnecting again",
                        c->task ? "the task continues; " : "");
    }
    if (c->is_broken && uv_now(&c->loop) - c->broken_at > PATIENCE_MS) {
        chat_give_up(c, "the gateway does not come back");
        return;
    }
    c->state = CHAT_CONNECTING;
    c->may_miss_answers = true;
    chat_talk_draw(c);
    uv_timer_start(&c->again, chat_on_again, pause_before_next(c), 0);
    c->attempts++;
    c->retry_ms = 0;
}

static void on_signal(uv_signal_t *signal, int signum)
{
    struct chat *c = signal->data;
    if (signum == SIGINT && c->talk_began && chat_talk_interrupt(c))
        return;
    if (c->talk_began) {
        chat_talk_leave(c);
        return;
    }
    chat_show_end(&c->show);
    say_how_to_resume(c);
    chat_finish(c, 1);
}

/* Ctrl-Z: the shell gets the terminal as it was, and a line of its own.  The system's own way of
 * stopping spares a talk that no shell could continue, such as the only program of a terminal. */
static void chat_on_stop(uv_signal_t *signal, int signum)
{
    struct chat *c = signal->data;
    const struct sigaction as_usual = {.sa_handler = SIG_DFL};
    struct sigaction ours;
    chat_talk_cooked(c);
    if (c->show.out_is_terminal)
        chat_show_end(&c->show);
    if (sigaction(signum, &as_usual, &ours) < 0)
        return;
    (void)raise(signum);
    (void)sigaction(signum, &ours, NULL);
    chat_talk_again(c); /* a shell that continues it sends SIGCONT; nobody else does */
}

static void chat_on_terminal(uv_signal_t *signal, int signum)
{
    struct chat *c = signal->data;
    (void)signum;
    chat_talk_again(c);
}

static void on_settle(uv_prepare_t *settle)
{
    struct chat *c = settle->data;
    chat_show_settle(&c->show);
}

/* --- start and end ---------------------------------------------------------------------------- */

static void chat_watch(struct chat *c, uv_signal_t *signal, int number, uv_signal_cb on_it)
{
    uv_signal_init(&c->loop, signal);
    signal->data = c;
    uv_signal_start(signal, on_it, number);
}

/* libuv makes the terminal non-blocking, for all programs that have it: those that come after would
 * fail to read, and what it cannot take at once would be lost. */
static void chat_watch_keyboard(struct chat *c)
{
    int flags = isatty(STDIN_FILENO) ? fcntl(STDIN_FILENO, F_GETFL) : -1;
    if (flags < 0 || uv_poll_init(&c->loop, &c->keyboard, STDIN_FILENO) != 0)
        return;
    c->keyboard.data = c;
    (void)fcntl(STDIN_FILENO, F_SETFL, flags & ~O_NONBLOCK);
}

static void chat_start(struct chat *c)
{
    uv_timer_init(&c->loop, &c->again);
    uv_prepare_init(&c->loop, &c->settle);
    c->again.data = c->settle.data = c;
    uv_prepare_start(&c->settle, on_settle);
    chat_watch(c, &c->sigint, SIGINT, on_signal);
    chat_watch(c, &c->sigterm, SIGTERM, on_signal);
    chat_watch(c, &c->sigtstp, SIGTSTP, chat_on_stop);
    chat_watch(c, &c->sigcont, SIGCONT, chat_on_terminal);
    chat_watch(c, &c->sigwinch, SIGWINCH, chat_on_terminal);
    chat_watch_keyboard(c);
    if (c->o->token) {
        c->token = xstrdup(str_of(c->o->token));
    } else {
        c->token = chat_token_load(&c->o->url);
        c->is_stored_token = c->token != NULL;
    }
    if (c->o->task) {
        c->conversation = xstrdup(str_of(c->o->task));
        c->task = xstrdup(str_of(c->o->task + strlen(c->o->task) + 1));
        c->seen = c->o->after;
        c->show.has_missed = c->o->after > 0;
    } else if (c->o->conversation)
        c->conversation = xstrdup(str_of(c->o->conversation));
    c->agent = c->o->agent ? xstrdup(str_of(c->o->agent)) : NULL;
    buf_putstr(&c->message, buf_str(&c->o->message));
    chat_new_key(c);
    chat_connect(c);
}

static void chat_stop(struct chat *c)
{
    uv_handle_t *const handles[] = {(uv_handle_t *)&c->again,    (uv_handle_t *)&c->settle,
                                    (uv_handle_t *)&c->sigint,   (uv_handle_t *)&c->sigterm,
                                    (uv_handle_t *)&c->sigtstp,  (uv_handle_t *)&c->sigcont,
                                    (uv_handle_t *)&c->sigwinch, (uv_handle_t *)&c->keyboard};
    for (size_t i = 0; i < countof(handles); i++)
        if (handles[i]->data)
            uv_close(handles[i], NULL);
    chat_attach_drop(c);
    (void)chat_save_stop(c);
    chat_link_done(&c->link);
    while (uv_run(&c->loop, UV_RUN_ONCE))
        ;
    uv_loop_close(&c->loop);
    free(c->token);
    free(c->conversation);
    free(c->task);
    chat_question_clear(&c->questions);
    free(c->agent);
    free(c->attached);
    chat_save_forget(c);
    free(c->files);
    buf_done(&c->to_follow);
    buf_done(&c->message);
    buf_done(&c->agents);
    buf_done(&c->typed);
    buf_done(&c->waiting);
    chat_edit_done(&c->edit);
    buf_done(&c->older_than);
    js_done(&c->doc);
}

int chat_run(const struct chat_options *o)
{
    static const struct chat_link_ops ops = {
        .on_open = on_open, .on_line = chat_take_line, .on_closed = chat_on_closed};
    struct chat c = {.o = o, .code = 1};
    chat_show_init(&c.show);
    uv_loop_init(&c.loop);
    if (chat_link_init(&c.link, &c.loop, &o->url, &ops, &c)) {
        chat_start(&c);
        while (c.state != CHAT_OVER)
            uv_run(&c.loop, UV_RUN_DEFAULT);
        chat_stop(&c);
    } else {
        fprintf(stderr, "holdfast: libwebsockets cannot be started\n");
    }
    chat_show_done(&c.show);
    return c.code;
}
