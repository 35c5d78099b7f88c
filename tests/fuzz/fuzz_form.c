/* Any bytes as what a program of each form prints.  Whatever comes out is lines that an agent may
 * say; a session is a harmless argument; a form that goes on in another's place, after any line,
 * says what that one would have said.  And any bytes as the state that it goes on from. */
#include "proto/forms/form.h"

#include "proto/agent_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_CHANGES 32 /* of hands, in one input */

static struct agent_line_decoder decoder;

static void check_lines(struct str lines)
{
    struct agent_line line;
    for (size_t at = 0; at < lines.n;) {
        const char *end = memchr(lines.p + at, '\n', lines.n - at);
        ASSERT(end);
        size_t n = (size_t)(end - lines.p) - at;
        bool good = agent_line_decode(&decoder, (struct str){lines.p + at, n}, &line);
        ASSERT(good && (line.kind == LINE_EVENT || line.kind == LINE_RESULT));
        ASSERT(line.data.n < MAX_EVENT_LINE - EVENT_FRAME);
        at += n + 1;
    }
}

static void change_hands(struct form *form)
{
    struct buf state = {0};
    struct js_doc doc = {0};
    enum agent_form kind = form->kind;
    buf_putc(&state, '{');
    form_put_state(form, &state);
    buf_putc(&state, '}');
    form_done(form);
    form_open(form, kind);
    bool good = js_parse(&doc, state.bytes, state.len, JS_OURS) && form_take_state(form, &doc, 0);
    ASSERT(good);
    js_done(&doc);
    buf_done(&state);
}

static void take_state(struct str text)
{
    struct form form;
    struct js_doc doc = {0};
    form_open(&form, AGENT_FORM_CLAUDE);
    if (js_parse(&doc, text.p, text.n, JS_OURS) && form_take_state(&form, &doc, 0))
        change_hands(&form);
    js_done(&doc);
    form_done(&form);
}

/* The caller's is what came out. */
static struct buf take_all(enum agent_form kind, struct str text, bool changing_hands)
{
    struct form form;
    struct buf out = {0};
    size_t n_lines = 0;
    form_open(&form, kind);
    while (text.n) {
        const char *newline = memchr(text.p, '\n', text.n);
        size_t n = newline ? (size_t)(newline - text.p) : text.n, next = newline ? n + 1 : n;
        form_take(&form, (struct str){text.p, n}, &out);
        if (changing_hands && n_lines++ < MAX_CHANGES)
            change_hands(&form);
        text = (struct str){text.p + next, text.n - next};
    }
    form_end(&form, &out);
    check_lines(buf_str(&out));
    ASSERT(form.session.len == 0 || form_is_session(buf_str(&form.session)));
    form_done(&form);
    return out;
}

static void take_both(enum agent_form kind, struct str text)
{
    struct buf one = take_all(kind, text, false), two = take_all(kind, text, true);
    ASSERT(str_eq(buf_str(&one), buf_str(&two)));
    buf_done(&one);
    buf_done(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct buf said = take_all(AGENT_FORM_TEXT, text, false);
    buf_done(&said);
    take_both(AGENT_FORM_CLAUDE, text);
    take_both(AGENT_FORM_CODEX, text);
    take_state(text);
    return 0;
}
