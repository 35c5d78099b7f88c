/* A talk on a terminal: a prompt that stays, one answer after another in one conversation.
 *
 * Design. The terminal is raw during the whole talk: chat_edit edits the line, and it is the footer
 * of chat_show, so that answers stream above it. A line that is typed during an answer waits for
 * its end, unless it is a command that can be obeyed at once, or answers the agent's question. A
 * terminal without escapes edits by itself, and has a prompt between answers alone. Ctrl-C stops
 * the answer; twice in a row it leaves. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/cli/chat_history.h"
#include "gateway/cli/chat_private.h"

#define PROMPT "> "
#define BUSY "… "            /* an answer is under way */
#define PASTES "\033[?2004h" /* the terminal brackets what is pasted */
#define NO_PASTES "\033[?2004l"

/* --- the terminal ----------------------------------------------------------------------------- */

static bool set_raw(struct chat *c)
{
    struct termios raw = c->cooked;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* Ctrl-C and Ctrl-Z stay signals */
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    return tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static void make_raw(struct chat *c)
{
    const char *term = getenv("TERM");
    bool is_dumb = !term || !*term || strcmp(term, "dumb") == 0;
    if (c->is_raw || is_dumb || !c->show.err_is_terminal || tcgetattr(STDIN_FILENO, &c->cooked) < 0)
        return;
    c->is_raw = set_raw(c);
    if (c->is_raw)
        fputs(PASTES, stderr);
}

void chat_talk_cooked(struct chat *c)
{
    if (!c->is_raw)
        return;
    chat_show_footer(&c->show, STR(""));
    fputs(NO_PASTES, stderr);
    tcsetattr(STDIN_FILENO, TCSANOW, &c->cooked);
    c->is_raw = false;
}

void chat_talk_draw(struct chat *c)
{
    struct buf out = {0};
    char prompt[CHAT_QUESTION_PROMPT];
    if (!c->is_raw)
        return;
    const struct chat_question *asked = chat_question_asked(&c->questions);
    if (asked)
        chat_question_prompt(asked, prompt);
    else if (c->n_waiting > 0)
        snprintf(prompt, sizeof prompt, "(%u waiting) ", c->n_waiting);
    else if (c->state != CHAT_IDLE || chat_attach_is_busy(c))
        snprintf(prompt, sizeof prompt, BUSY);
    else if (c->n_attached > 0)
        snprintf(prompt, sizeof prompt, "(%zu file%s) " PROMPT, c->n_attached,
                 c->n_attached > 1 ? "s" : "");
    else
        snprintf(prompt, sizeof prompt, PROMPT);
    chat_edit_draw(&c->edit, prompt, chat_show_columns(), &out);
    chat_show_footer(&c->show, buf_str(&out));
    buf_done(&out);
}

void chat_talk_again(struct chat *c)
{
    if (!c->is_raw && c->talk_began && tcgetpgrp(STDIN_FILENO) == getpgrp())
        make_raw(c); /* it was stopped, and goes on in the foreground */
    else if (c->is_raw && set_raw(c))
        fputs(PASTES, stderr); /* another program may have had the terminal */
    chat_talk_draw(c);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void ask(struct chat *c, const char *line)
{
    buf_clear(&c->message);
    buf_puts(&c->message, line);
    chat_new_key(c);
    c->tells_questions = false;
    chat_ask(c);
}

/* The line was typed, and now it counts. */
static void talk_line(struct chat *c, const char *line)
{
    if (c->is_raw)
        chat_show_typed(&c->show, PROMPT, str_of(line));
    if (chat_command_of(line))
        chat_command_obey(c, line);
    else if (line[strspn(line, " \t\n")])
        ask(c, line);
}

static bool is_ready(const struct chat *c)
{
    return c->state == CHAT_IDLE && !chat_attach_is_busy(c);
}

/* Lines that have waited, up to the first question or file. */
static void take_waiting(struct chat *c)
{
    while (is_ready(c) && c->n_waiting > 0) {
        char *line = xstrdup(str_of(c->waiting.bytes));
        buf_consume(&c->waiting, strlen(line) + 1);
        c->n_waiting--;
        talk_line(c, line);
        free(line);
    }
}

/* Waiting lines were meant for after the answer: they go back to the prompt, and nothing of them is
 * asked by itself. */
void chat_talk_take_back(struct chat *c)
{
    bool has_more = c->edit.line.len > 0;
    c->edit.at = 0;
    for (; c->n_waiting > 0; c->n_waiting--) {
        struct str line = str_of(c->waiting.bytes);
        if (c->is_raw) {
            chat_edit_insert(&c->edit, line);
            if (c->n_waiting > 1 || has_more)
                chat_edit_insert(&c->edit, STR("\n"));
        } else {
            chat_show_aside(&c->show, "· not asked: %.*s", (int)line.n, line.p);
        }
        buf_consume(&c->waiting, line.n + 1);
    }
    c->edit.at = c->edit.line.len;
}

/* --- what is followed ------------------------------------------------------------------------- */

void chat_talk_follow(struct chat *c, struct str task)
{
    c->tells_questions = c->to_follow.len > 0;
    buf_putstr(&c->to_follow, task);
    buf_putc(&c->to_follow, 0);
}

static void follow_next(struct chat *c)
{
    if (c->state != CHAT_IDLE || c->to_follow.len == 0)
        return;
    free(c->task);
    c->task = xstrdup(str_of(c->to_follow.bytes));
    buf_consume(&c->to_follow, strlen(c->task) + 1);
    chat_ask(c);
}

void chat_talk_go_on(struct chat *c)
{
    follow_next(c);
    take_waiting(c);
    if (is_ready(c) && !c->is_raw)
        chat_show_prompt(&c->show, PROMPT);
    chat_talk_draw(c);
}

void chat_talk_line(struct chat *c, struct str typed)
{
    char *line = xstrdup(typed);
    enum chat_command command = chat_command_of(line);
    if (chat_question_asked(&c->questions) && command <= CHAT_COMMAND_UNKNOWN) {
        if (c->is_raw)
            chat_show_typed(&c->show, "", typed);
        chat_answer(c, typed); /* which may be a path, or a command of another program */
    } else if (is_ready(c) || command >= CHAT_COMMAND_NOW || command == CHAT_COMMAND_UNKNOWN) {
        talk_line(c, line);
    } else if (line[strspn(line, " \t\n")]) {
        buf_put(&c->waiting, line, strlen(line) + 1);
        c->n_waiting++;
    }
    free(line);
    if (is_ready(c) && !c->is_raw)
        chat_show_prompt(&c->show, PROMPT);
}

void chat_talk_forget(struct chat *c)
{
    free(c->task);
    c->task = NULL;
    c->seen = c->epoch = 0;
    c->is_stopping = false;
    chat_show_begin(&c->show);
}

void chat_talk_idle(struct chat *c)
{
    chat_show_end(&c->show);
    chat_talk_forget(c);
    buf_clear(&c->message);
    chat_question_clear(&c->questions);
    c->state = CHAT_IDLE;
    chat_talk_go_on(c);
}

void chat_talk_begin(struct chat *c)
{
    make_raw(c);
    chat_history_load(&c->edit);
    chat_show_aside(&c->show, "Ask something; /help lists the commands.");
}

/* --- keys ------------------------------------------------------------------------------------- */

static void enter_line(struct chat *c)
{
    char *line = xstrdup(buf_str(&c->edit.line));
    bool is_secret = chat_question_asked(&c->questions) != NULL; /* an answer may be a password */
    if (!is_secret && chat_edit_next(&c->edit))
        chat_history_add(str_of(line));
    else if (is_secret)
        chat_edit_clear(&c->edit);
    chat_talk_line(c, str_of(line));
    free(line);
}

void chat_talk_keys(struct chat *c, const char *keys, size_t n)
{
    c->is_warned = false;
    for (size_t i = 0; i < n && c->state != CHAT_OVER; i++) {
        if (keys[i] == '\t' && chat_edit_is_between(&c->edit)) {
            chat_command_complete(c);
            continue;
        }
        enum chat_edit_result result = chat_edit_take(&c->edit, keys[i]);
        if (result == EDIT_LINE)
            enter_line(c);
        else if (result == EDIT_END)
            chat_talk_leave(c);
    }
    chat_talk_draw(c);
}

void chat_talk_leave(struct chat *c)
{
    const char *url = c->o->url_text ? c->o->url_text : "", *blank = *url ? " " : "";
    chat_talk_cooked(c);
    chat_show_end(&c->show);
    if (c->task)
        chat_show_aside(&c->show, "The task continues: holdfast chat%s%s --resume %s/%s", blank,
                        url, c->conversation, c->task);
    else if (c->conversation)
        chat_show_aside(&c->show, "To go on: holdfast chat%s%s --conversation %s", blank, url,
                        c->conversation);
    chat_finish(c, 0);
}

/* --- stopping --------------------------------------------------------------------------------- */

void chat_talk_send_stop(struct chat *c)
{
    struct buf r = chat_request("cancel");
    chat_put_task(c, &r);
    js_put_bool(&r, "tree", true);
    chat_send(c, &r);
}

bool chat_talk_stop(struct chat *c)
{
    bool runs = c->task || c->message.len > 0;
    if (!runs || c->is_stopping)
        return false;
    c->is_stopping = true;
    if (c->state == CHAT_FOLLOWING)
        chat_talk_send_stop(c); /* else when the task is known, or the connection is back */
    return true;
}

bool chat_talk_interrupt(struct chat *c)
{
    if (c->is_warned)
        return false;
    c->is_warned = true;
    if (chat_talk_stop(c)) {
        chat_talk_take_back(c);
        chat_show_aside(&c->show, "· it stops; Ctrl-C again leaves");
    } else if (chat_attach_stop(c) || chat_save_stop(c)) {
        chat_talk_take_back(c);
    } else if (c->edit.line.len > 0) {
        c->is_warned = false;
        chat_edit_clear(&c->edit);
    } else {
        chat_show_aside(&c->show, "· Ctrl-C again leaves, and so does Ctrl-D");
    }
    chat_talk_draw(c);
    return true;
}
