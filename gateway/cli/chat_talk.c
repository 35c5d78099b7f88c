/* A talk on a terminal: a prompt that stays, one answer after another in one conversation.
 *
 * Design. Between two answers the client is CHAT_IDLE: the terminal is raw, and chat_edit edits the
 * line. During an answer the terminal edits, and its input waits; only "/cancel" is handled at
 * once. A terminal without escapes always edits by itself. Ctrl-C stops the answer, and at the
 * prompt, or a second time, leaves. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "gateway/cli/chat_private.h"

#define MAX_TYPED 4096 /* at once: what a terminal delivers as a line */
#define PROMPT "> "
#define COLUMNS 80 /* when the terminal does not tell */

/* --- the terminal ----------------------------------------------------------------------------- */

void chat_talk_cooked(struct chat *c)
{
    if (c->is_raw)
        tcsetattr(STDIN_FILENO, TCSANOW, &c->cooked);
    c->is_raw = false;
}

/* Keys come one by one and without echo; Ctrl-C stays a signal. Earlier input can still be read. */
static void make_raw(struct chat *c)
{
    const char *term = getenv("TERM");
    bool is_dumb = !term || !*term || strcmp(term, "dumb") == 0;
    if (c->is_raw || is_dumb || !c->show.err_is_terminal || tcgetattr(STDIN_FILENO, &c->cooked) < 0)
        return;
    struct termios raw = c->cooked;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    c->is_raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static void draw(struct chat *c)
{
    struct buf out = {0};
    struct winsize size;
    bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    chat_edit_draw(&c->edit, PROMPT, is_known ? size.ws_col : COLUMNS, &out);
    fwrite(out.bytes, 1, out.len, stderr);
    buf_done(&out);
}

static void prompt(struct chat *c)
{
    chat_show_end(&c->show);
    make_raw(c); /* first: the terminal itself would take a Ctrl-D right behind the prompt */
    chat_show_prompt(&c->show, PROMPT);
}

/* Takes the first typed line; false when none is complete. */
static bool take_typed(struct chat *c, struct buf *line)
{
    const char *newline = c->typed.len ? memchr(c->typed.bytes, '\n', c->typed.len) : NULL;
    if (!newline)
        return false;
    size_t n = (size_t)(newline - c->typed.bytes);
    buf_put(line, c->typed.bytes, n);
    c->typed.len -= n + 1;
    memmove(c->typed.bytes, newline + 1, c->typed.len);
    return true;
}

static void forget_task(struct chat *c)
{
    free(c->task);
    c->task = NULL;
    c->seen = 0;
    c->is_stopping = false;
    buf_clear(&c->show.said);
    c->show.has_missed = false;
}

static void resume(struct chat *c, const char *name)
{
    const char *slash = strchr(name, '/');
    if (!slash || slash == name || !slash[1]) {
        chat_show_aside(&c->show, "a task is named CONVERSATION/TASK");
        return;
    }
    forget_task(c);
    free(c->conversation);
    c->conversation = xstrdup((struct str){name, (size_t)(slash - name)});
    c->task = xstrdup(str_of(slash + 1));
    chat_talk_cooked(c);
    chat_ask(c);
}

static void choose_agent(struct chat *c, const char *name)
{
    free(c->agent);
    c->agent = xstrdup(str_of(name));
    chat_show_aside(&c->show, "· the next question is for %s", name);
}

static void help(struct chat *c)
{
    chat_show_aside(&c->show, "/agents             lists the agents\n"
                              "/agent NAME        asks that agent from now on\n"
                              "/new                begins another conversation\n"
                              "/resume CONVERSATION/TASK\n"
                              "/cancel, Ctrl-C     stops the answer\n"
                              "/quit, Ctrl-D       leaves; a running task continues");
}

/* False when the line begins with a slash, but is no command: a path, perhaps. */
static bool obey(struct chat *c, const char *line)
{
    size_t n = strcspn(line, " ");
    const char *word = line[n] ? line + n + 1 : "";
    struct str verb = {line, n};
    if (str_eq(verb, STR("/help")))
        help(c);
    else if (str_eq(verb, STR("/agents")))
        chat_show_aside(&c->show, "%s", c->agents.len ? c->agents.bytes : "there are none");
    else if (str_eq(verb, STR("/agent")) && *word)
        choose_agent(c, word);
    else if (str_eq(verb, STR("/new"))) {
        free(c->conversation);
        c->conversation = NULL;
        chat_show_aside(&c->show, "· a new conversation");
    } else if (str_eq(verb, STR("/resume")))
        resume(c, word);
    else if (str_eq(verb, STR("/cancel")))
        chat_show_aside(&c->show, "· nothing runs");
    else if (str_eq(verb, STR("/quit")))
        chat_finish(c, 0);
    else
        return false;
    return true;
}

static void ask(struct chat *c, struct buf *line)
{
    chat_talk_cooked(c);
    buf_clear(&c->message);
    buf_putstr(&c->message, buf_str(line));
    chat_new_key(c);
    chat_ask(c);
}

/* Takes typed lines up to the first question. */
static void take_lines(struct chat *c)
{
    struct buf line = {0};
    while (c->state == CHAT_IDLE && take_typed(c, &line)) {
        buf_putc(&line, 0);
        line.len--;
        if (line.bytes[0] == '/' && obey(c, line.bytes))
            ;
        else if (line.bytes[strspn(line.bytes, " \t")])
            ask(c, &line);
        if (c->state == CHAT_IDLE)
            prompt(c);
        buf_clear(&line);
    }
    buf_done(&line);
}

void chat_talk_idle(struct chat *c)
{
    forget_task(c);
    buf_clear(&c->message);
    c->state = CHAT_IDLE;
    prompt(c);
    take_lines(c);
}

/* Handles a line in the same way as one that the terminal has edited. */
static void enter_line(struct chat *c)
{
    draw(c);
    fputc('\n', stderr);
    buf_putstr(&c->typed, buf_str(&c->edit.line));
    buf_putc(&c->typed, '\n');
    chat_edit_next(&c->edit);
    take_lines(c);
}

void chat_talk_keys(struct chat *c, const char *keys, size_t n)
{
    bool is_drawn = true;
    for (size_t i = 0; i < n && c->state != CHAT_OVER; i++) {
        if (!c->is_raw) { /* a question was asked: the rest waits, as it would in the terminal */
            buf_put(&c->typed, keys + i, n - i);
            return;
        }
        enum chat_edit_result result = chat_edit_take(&c->edit, keys[i]);
        is_drawn = result == EDIT_LINE;
        if (result == EDIT_LINE)
            enter_line(c);
        else if (result == EDIT_END)
            chat_talk_leave(c);
    }
    if (!is_drawn && c->is_raw)
        draw(c);
}

void chat_talk_leave(struct chat *c)
{
    if (c->is_raw)
        fputc('\n', stderr);
    chat_show_end(&c->show);
    if (c->task)
        chat_show_aside(&c->show, "The task continues: holdfast chat%s%s --resume %s/%s",
                        c->o->url_text ? " " : "", c->o->url_text ? c->o->url_text : "",
                        c->conversation, c->task);
    chat_finish(c, 0);
}

bool chat_talk_stop(struct chat *c)
{
    if (c->state != CHAT_FOLLOWING || c->is_stopping)
        return false;
    c->is_stopping = true;
    struct buf r = chat_request("cancel");
    chat_put_task(c, &r);
    js_put_bool(&r, "tree", true);
    chat_send(c, &r);
    chat_show_aside(&c->show, "· it stops; Ctrl-C again leaves");
    return true;
}

void chat_talk_typed(struct chat *c)
{
    if (c->state == CHAT_IDLE)
        take_lines(c);
    else if (str_eq(buf_str(&c->typed), STR("/cancel\n")) && chat_talk_stop(c))
        buf_clear(&c->typed);
}
