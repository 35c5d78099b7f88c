/* Any bytes as what a server of each form replies, as an event stream and as a whole.  All that
 * comes out is lines that an agent may say and requests that are JSON; a session is a harmless part
 * of a URL, and what has ended says nothing more. */
#include "proto/forms/remote.h"

#include <stdio.h>

#include "proto/agent_line.h"
#include "proto/forms/form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct agent_line_decoder decoder;
static struct js_doc doc;

static void check_said(struct remote *r)
{
    struct agent_line line;
    struct str said = buf_str(&r->said);
    for (size_t at = 0; at < said.n;) {
        const char *end = memchr(said.p + at, '\n', said.n - at);
        ASSERT(end);
        size_t n = (size_t)(end - said.p) - at;
        bool good = agent_line_decode(&decoder, (struct str){said.p + at, n}, &line);
        ASSERT(good && (line.kind == LINE_EVENT || line.kind == LINE_RESULT));
        ASSERT(line.data.n < MAX_EVENT_LINE - EVENT_FRAME);
        at += n + 1;
    }
    buf_clear(&r->said);
}

static void check_request(struct remote *r)
{
    struct remote_request *q = &r->request;
    if (!q->wanted)
        return;
    q->wanted = false;
    ASSERT(q->url.len && strlen(q->url.bytes) == q->url.len);
    for (size_t i = 0; i < q->url.len; i++)
        ASSERT((unsigned char)q->url.bytes[i] > ' ' && (unsigned char)q->url.bytes[i] < 0x7f);
    for (size_t i = 0; i < q->last_id.len; i++)
        ASSERT((unsigned char)q->last_id.bytes[i] > ' ');
    if (q->is_get)
        return;
    bool good = js_parse(&doc, q->body.bytes, q->body.len, JS_OURS);
    ASSERT(good && js_type(&doc, 0) == JS_OBJECT);
}

static void check(struct remote *r)
{
    check_said(r);
    check_request(r);
    ASSERT(r->session.len == 0 || form_is_session(buf_str(&r->session)));
    ASSERT(r->state != REMOTE_FAILED || r->failure.len);
    ASSERT(r->state != REMOTE_ASKS || r->n_questions);
}

/* Texts and decisions by turns. */
static void answer_all(struct remote *r)
{
    static const char *const answers[] = {"true", "\"blue\"", "null", "false"};
    unsigned first = r->questions[0].number;
    for (size_t i = 0, n = r->n_questions; i < n; i++) {
        char line[128];
        snprintf(line, sizeof line, "{\"type\":\"input\",\"input_id\":\"ask-%zu\",\"answer\":%s}",
                 first + i, answers[(first + i) % countof(answers)]);
        remote_answer(r, str_of(line));
    }
    ASSERT(r->state != REMOTE_ASKS);
    check(r);
}

static void begin(struct remote *r, enum remote_kind kind, const char *session)
{
    remote_begin(
        r, kind,
        &(struct remote_turn){
            STR("http://x/y/"), STR("m"), STR("c-1"), STR("t-1"), STR("hello"),
            STR("[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
                "\"b\"}]"),
            STR("recap"), str_of(session)});
    check(r);
}

static void take_stream(enum remote_kind kind, struct str text)
{
    struct remote r;
    struct sse_reader reader = {0};
    struct sse_event e;
    begin(&r, kind, "s-1");
    while (sse_reader_next(&reader, &text, &e) == SSE_EVENT) {
        remote_event(&r, &e);
        check(&r);
        if (r.state == REMOTE_ASKS || (r.n_questions && text.n % 2)) /* some are early */
            answer_all(&r);
    }
    remote_end(&r, STR("cut"));
    check(&r);
    remote_end(&r, STR_NULL);
    check(&r);
    if (remote_cancel(&r))
        check(&r);
    sse_reader_done(&reader);
    remote_done(&r);
}

/* Each line is a whole reply. */
static void take_bodies(enum remote_kind kind, struct str text)
{
    struct remote r;
    begin(&r, kind, "");
    for (int i = 0; text.n && i < 8; i++) {
        const char *newline = memchr(text.p, '\n', text.n);
        size_t n = newline ? (size_t)(newline - text.p) : text.n, next = newline ? n + 1 : n;
        remote_body(&r, (struct str){text.p, n});
        check(&r);
        if (r.state == REMOTE_ASKS)
            answer_all(&r);
        remote_end(&r, STR_NULL);
        check(&r);
        if (r.state == REMOTE_ASKS)
            answer_all(&r);
        text = (struct str){text.p + next, text.n - next};
    }
    remote_refused(&r, 404, STR("HTTP 404"));
    check(&r);
    remote_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    for (int kind = 0; kind < N_REMOTE_KINDS; kind++) {
        take_stream((enum remote_kind)kind, text);
        take_bodies((enum remote_kind)kind, text);
    }
    return 0;
}
