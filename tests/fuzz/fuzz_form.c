/* Any bytes as what a program of each form prints.  Whatever comes out is lines that an agent may
 * say; a session is a harmless argument. */
#include "proto/forms/form.h"

#include "proto/agent_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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

static void take_all(enum agent_form kind, struct str text)
{
    struct form form;
    struct buf out = {0};
    form_open(&form, kind);
    while (text.n) {
        const char *newline = memchr(text.p, '\n', text.n);
        size_t n = newline ? (size_t)(newline - text.p) : text.n, next = newline ? n + 1 : n;
        form_take(&form, (struct str){text.p, n}, &out);
        text = (struct str){text.p + next, text.n - next};
    }
    form_end(&form, &out);
    check_lines(buf_str(&out));
    ASSERT(form.session.len == 0 || form_is_session(buf_str(&form.session)));
    form_done(&form);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    take_all(AGENT_FORM_TEXT, text);
    take_all(AGENT_FORM_CLAUDE, text);
    take_all(AGENT_FORM_CODEX, text);
    return 0;
}
