#include "gateway/cli/chat_errors.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/cli/chat_private.h"
#include "gateway/cli/chat_token.h"
#include "proto/sentences.h"

/* --- members of lines ------------------------------------------------------------------------- */

static char *text_member(const struct js_doc *doc, uint32_t object, const char *key)
{
    struct buf value = {0};
    uint32_t node = js_get(doc, object, key);
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, &value);
    return value.bytes ? buf_take(&value) : xstrdup(STR(""));
}

char *chat_member(struct chat *c, uint32_t object, const char *key)
{
    return text_member(&c->doc, object, key);
}

int64_t chat_number(struct chat *c, uint32_t object, const char *key)
{
    int64_t n = 0;
    uint32_t node = js_get(&c->doc, object, key);
    return node && js_int(&c->doc, node, &n) ? n : 0;
}

/* --- errors ----------------------------------------------------------------------------------- */

char *chat_error_words(const struct js_doc *doc, uint32_t error)
{
    struct buf out = {0};
    char *code = text_member(doc, error, "code"), *reason = text_member(doc, error, "reason");
    char *message = text_member(doc, error, "message");
    struct str detail = sentence_detail(str_of(code), str_of(message));
    buf_puts(&out, sentence_of(str_of(reason), str_of(code)));
    buf_puts(&out, detail.n > 0 ? "\n  " : "");
    buf_putstr(&out, detail);
    free(code);
    free(reason);
    free(message);
    return buf_take(&out);
}

/* The store has lost events that were shown here: what it has of the task comes from its first. */
static void begin_again(struct chat *c)
{
    chat_show_end(&c->show);
    chat_show_begin(&c->show);
    chat_show_aside(&c->show, "· the gateway has lost a part of this task: from its beginning,");
    c->seen = c->epoch = 0;
    chat_question_clear(&c->questions); /* those that it still has come again */
    chat_ask(c);
}

/* Another answer was first, or the question is over; anything else can be answered again. */
static void on_answer_refused(struct chat *c, const char *code, const char *message)
{
    bool is_over = strcmp(code, "conflict") == 0 || strcmp(code, "not_found") == 0;
    chat_show_aside(&c->show, "· the answer was not accepted: %s", message);
    if (chat_question_refused(&c->questions, !is_over) && !is_over)
        chat_ask_user(c);
}

/* A token that this program was given; the error says no more than that it is none. */
static void on_bad_token(struct chat *c)
{
    const char *from = c->o->token_from ? c->o->token_from : "the kept guest";
    char text[160];
    if (!c->token)
        snprintf(text, sizeof text,
                 "this gateway serves no guests: set HOLDFAST_TOKEN, or use --token");
    else
        snprintf(text, sizeof text,
                 "the gateway does not accept the token of %s: it has expired, or is none of its "
                 "keys'",
                 from);
    chat_give_up(c, text);
}

/* The kept guest's key or time is gone: another guest asks. */
static void begin_as_new_guest(struct chat *c)
{
    chat_token_forget(&c->o->url);
    free(c->token);
    c->token = NULL;
    c->is_stored_token = false;
    c->retry_ms = 1;
    chat_link_drop(&c->link);
}

static void on_busy(struct chat *c, const char *message)
{
    uint64_t wait = (uint64_t)chat_number(c, 0, "retry_after_ms");
    chat_show_aside(&c->show, "· the gateway is busy (%s); asking again", message);
    c->retry_ms = wait ? wait : 1000;
    chat_link_drop(&c->link);
}

static void on_failed_request(struct chat *c)
{
    char *words = chat_error_words(&c->doc, 0);
    bool has_begun = !c->o->continues || c->has_looked_back;
    if (c->o->talks && c->was_welcome && has_begun) {
        chat_show_aside(&c->show, "holdfast: %s", words);
        if (c->state == CHAT_ASKING)
            chat_talk_idle(c);
    } else {
        chat_give_up(c, words);
    }
    free(words);
}

void chat_take_error(struct chat *c)
{
    char *code = chat_member(c, 0, "code"), *message = chat_member(c, 0, "message"),
         *id = chat_member(c, 0, "id");
    bool asks = c->o->what == CHAT_ASK || c->o->what == CHAT_RESUME;
    if (strcmp(code, "unauthorized") == 0 && strstr(message, "unknown guest") &&
        c->is_stored_token && c->o->what == CHAT_ASK && !c->task)
        begin_as_new_guest(c);
    else if (strcmp(code, "unauthorized") == 0)
        on_bad_token(c);
    else if (strcmp(code, "out_of_range") == 0 && c->seen > 0)
        begin_again(c);
    else if (strcmp(id, "respond") == 0)
        on_answer_refused(c, code, message);
    else if ((strcmp(code, "overloaded") == 0 || strcmp(code, "rate_limited") == 0) && asks)
        on_busy(c, message);
    else
        on_failed_request(c);
    free(code);
    free(message);
    free(id);
}
