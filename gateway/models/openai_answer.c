#include "gateway/models/openai_answer.h"

void openai_answer_init(struct openai_answer *a, const struct model_events *events, void *user,
                        const char *think_tag)
{
    *a = (struct openai_answer){.events = events, .user = user};
    think_tags_init(&a->tags, think_tag);
}

void openai_answer_done(struct openai_answer *a)
{
    think_tags_done(&a->tags);
    openai_more_done(&a->more);
    buf_done(&a->blanks);
    buf_done(&a->text);
    buf_done(&a->run);
    buf_done(&a->thoughts);
}

/* --- telling ---------------------------------------------------------------------------------- */

static void tell(struct openai_answer *a, enum model_piece kind, struct str text)
{
    if (text.n == 0)
        return;
    a->paused = true; /* first, so that an unpause from inside is not forgotten */
    if (a->events->on_piece(a->user, kind, text))
        a->paused = false;
}

static void tell_thought(struct openai_answer *a, struct str text)
{
    a->has_thoughts |= text.n > 0;
    tell(a, PIECE_THINKING, text);
}

static void tell_answer(struct openai_answer *a, struct str text)
{
    if (a->has_text) {
        tell(a, PIECE_TOKEN, text);
        return;
    }
    buf_putstr(&a->blanks, text);
    if (openai_is_blank(buf_str(&a->blanks)))
        return;
    a->has_text = true;
    tell(a, PIECE_TOKEN, buf_str(&a->blanks));
    buf_done(&a->blanks);
}

static void tell_unsaid(struct openai_answer *a)
{
    a->has_thoughts |= a->has_text;
    a->has_text = false;
    buf_clear(&a->blanks);
    a->events->on_unsaid(a->user);
}

/* Its text is in a->run. */
static void tell_run(struct openai_answer *a, enum think_run run)
{
    switch (run) {
    case THINK_THOUGHT: tell_thought(a, buf_str(&a->run)); break;
    case THINK_ANSWER: tell_answer(a, buf_str(&a->run)); break;
    case THINK_UNSAID: tell_unsaid(a); break;
    case THINK_MORE: break;
    }
    buf_clear(&a->run);
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* a->text is content, unchanged. */
static void take_content(struct openai_answer *a)
{
    struct str text = buf_str(&a->text);
    enum think_run run;
    while ((run = think_tags_next(&a->tags, &text, &a->run)) != THINK_MORE)
        tell_run(a, run);
}

/* a->text is a thought. */
static void take_thought(struct openai_answer *a)
{
    if (a->thoughts_name && a->thoughts.len + a->text.len <= OPENAI_THOUGHT_BYTES)
        buf_putstr(&a->thoughts, buf_str(&a->text));
    tell_thought(a, buf_str(&a->text));
}

/* Keeps what goes back with the calls, if there are any. */
static void take_more(struct openai_answer *a, const struct js_doc *doc,
                      const struct openai_chunk *c)
{
    static const char *const arrays[] = {"reasoning_details", "thinking_blocks"};
    static const char *const others[] = {"extra_content", "reasoning_opaque"};
    if (!a->thoughts_name)
        a->thoughts_name = c->thinking_name;
    for (size_t i = 0; c->delta && i < countof(arrays); i++) {
        uint32_t node = js_get(doc, c->delta, arrays[i]);
        if (node && js_type(doc, node) == JS_ARRAY)
            openai_more_join(&a->more, arrays[i], doc, node);
    }
    for (size_t i = 0; c->delta && i < countof(others); i++) {
        uint32_t node = js_get(doc, c->delta, others[i]);
        if (node)
            openai_more_set(&a->more, str_of(others[i]), doc, node);
    }
}

void openai_answer_piece(struct openai_answer *a, const struct js_doc *doc, uint32_t node,
                         enum model_piece kind)
{
    bool thinking = kind == PIECE_THINKING;
    buf_clear(&a->text);
    openai_put_piece(doc, node, thinking, &a->halves[kind], &a->text);
    if (thinking)
        take_thought(a);
    else
        take_content(a);
}

void openai_answer_thought(struct openai_answer *a, struct str text)
{
    buf_clear(&a->text);
    buf_putstr(&a->text, text);
    take_thought(a);
}

void openai_answer_take(struct openai_answer *a, const struct js_doc *doc,
                        const struct openai_chunk *c)
{
    take_more(a, doc, c);
    if (c->thinking)
        openai_answer_piece(a, doc, c->thinking, PIECE_THINKING);
    if (c->content)
        openai_answer_piece(a, doc, c->content, PIECE_TOKEN);
}

void openai_answer_end(struct openai_answer *a)
{
    buf_clear(&a->text);
    openai_put_half(&a->halves[PIECE_THINKING], &a->text);
    take_thought(a);
    buf_clear(&a->text);
    openai_put_half(&a->halves[PIECE_TOKEN], &a->text);
    take_content(a);
    tell_run(a, think_tags_end(&a->tags, &a->run));
}

void openai_answer_tell_more(const struct openai_answer *a)
{
    struct buf members = {0};
    if (a->thoughts.len)
        js_put_field(&members, a->thoughts_name, buf_str(&a->thoughts));
    openai_more_put(&a->more, &members);
    if (members.len)
        a->events->on_more(a->user, buf_str(&members));
    buf_done(&members);
}
