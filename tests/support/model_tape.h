/* model_tape -- a model's server that plays bytes, in place of gateway/fetch/fetch.c, and what a
 * model made of them as text, one line an event.
 *
 * Pieces of one kind are joined, so that how the bytes were cut does not show:
 *
 *   thinking "…"   token "…"   unsaid   more "a":1,…   call ID NAME ARGUMENTS …
 *   usage IN OUT CACHED   done   failed REASON: TEXT
 */
#ifndef TESTS_SUPPORT_MODEL_TAPE_H
#define TESTS_SUPPORT_MODEL_TAPE_H

#include <stdlib.h>

#include "gateway/fetch/fetch.h"
#include "gateway/models/model_anthropic.h"
#include "gateway/models/model_openai.h"
#include "gateway/models/model_responses.h"

struct fetch {
    const struct fetch_events *events;
    void *user;
    int status;
    bool over;
};

static struct {
    struct fetch *fetch; /* of the turn under way */
    struct buf body;     /* of the last request */
    struct buf seen;
    enum model_piece kind;
    struct buf piece;
    bool done;
    const char *think_tag; /* NULL: think */
} tape;

struct fetch *fetch_start(struct fetcher *fetcher, const struct fetch_options *options,
                          const struct fetch_request *request, const struct fetch_events *events,
                          void *user)
{
    (void)fetcher;
    (void)options;
    buf_clear(&tape.body);
    buf_putstr(&tape.body, request->body);
    tape.fetch = xcalloc(sizeof *tape.fetch);
    *tape.fetch = (struct fetch){.events = events, .user = user};
    return tape.fetch;
}

int fetch_status(const struct fetch *fetch)
{
    return fetch->status;
}

void fetch_unpause(struct fetch *fetch)
{
    (void)fetch;
}

void fetch_end_within(struct fetch *fetch, msec_t ms)
{
    fetch->over |= ms == 0;
}

bool fetch_again(struct fetch *fetch)
{
    (void)fetch;
    return false;
}

void fetch_free(struct fetch *fetch)
{
    free(fetch);
}

/* --- what comes out --------------------------------------------------------------------------- */

static void tape_flush(void)
{
    if (tape.piece.len == 0)
        return;
    buf_puts(&tape.seen, tape.kind == PIECE_THINKING ? "thinking " : "token ");
    js_put_str(&tape.seen, buf_str(&tape.piece));
    buf_putc(&tape.seen, '\n');
    buf_clear(&tape.piece);
}

static bool tape_piece(void *user, enum model_piece kind, struct str text)
{
    (void)user;
    ASSERT(!tape.done);
    if (kind != tape.kind)
        tape_flush();
    tape.kind = kind;
    buf_putstr(&tape.piece, text);
    return true;
}

static void tape_call(void *user, const struct model_call *call)
{
    (void)user;
    ASSERT(!tape.done);
    tape_flush();
    struct buf *out = &tape.seen;
    buf_puts(out, "call ");
    buf_putstr(out, call->id);
    buf_putc(out, ' ');
    buf_putstr(out, call->name);
    buf_putc(out, ' ');
    buf_putstr(out, call->arguments);
    if (call->more.n)
        buf_putc(out, ' ');
    if (call->more.n)
        buf_putstr(out, call->more);
    if (call->function_more.n)
        buf_putc(out, ' ');
    if (call->function_more.n)
        buf_putstr(out, call->function_more);
    buf_putc(out, '\n');
}

static void tape_unsaid(void *user)
{
    (void)user;
    tape_flush();
    buf_puts(&tape.seen, "unsaid\n");
}

static void tape_more(void *user, struct str members)
{
    (void)user;
    tape_flush();
    buf_puts(&tape.seen, "more ");
    buf_putstr(&tape.seen, members);
    buf_putc(&tape.seen, '\n');
}

static void tape_usage(void *user, const struct model_usage *usage)
{
    (void)user;
    tape_flush();
    buf_putf(&tape.seen, "usage %lld %lld %lld\n", (long long)usage->prompt_tokens,
             (long long)usage->completion_tokens, (long long)usage->cached_tokens);
}

static void tape_done(void *user, enum model_reason reason, struct str error)
{
    (void)user;
    ASSERT(!tape.done);
    tape.done = true;
    tape_flush();
    if (!error.p) {
        buf_puts(&tape.seen, "done\n");
        return;
    }
    const char *word = model_reason_word(reason);
    buf_putf(&tape.seen, "failed %s: ", *word ? word : "other");
    buf_putstr(&tape.seen, error);
    buf_putc(&tape.seen, '\n');
}

static const struct model_events tape_events = {tape_piece, tape_call,  tape_unsaid,
                                                tape_more,  tape_usage, tape_done};

/* --- playing ---------------------------------------------------------------------------------- */

enum tape_api { TAPE_CHAT, TAPE_RESPONSES, TAPE_ANTHROPIC };

/* The reply of one turn, in pieces of so many bytes; returns what came out, until the next. */
static struct str tape_play(enum tape_api api, int status, struct str bytes, size_t piece)
{
    static const struct model_ops *const ops[] = {&model_openai_ops, &model_responses_ops,
                                                  &model_anthropic_ops};
    const char *tag = tape.think_tag ? tape.think_tag : "think";
    struct openai_settings openai = {.url = "", .model = "m", .think_tag = tag};
    struct stream_settings stream = {.url = "", .model = "m", .think_tag = tag};
    struct model_request request = {.messages = STR("[{\"role\":\"user\",\"content\":\"hi\"}]"),
                                    .tools = STR("[]")};
    char error[256];
    tape.done = false;
    buf_clear(&tape.seen);
    buf_clear(&tape.piece);
    struct model_turn *turn = ops[api]->start(api == TAPE_CHAT ? (void *)&openai : (void *)&stream,
                                              &request, &tape_events, NULL, error);
    ASSERT(turn);
    struct fetch *f = tape.fetch;
    struct fetch_head head = {.status = status, .content_type = STR("text/event-stream")};
    f->status = status;
    f->events->on_head(f->user, &head);
    while (bytes.n && !tape.done && !f->over) {
        struct str next = {bytes.p, bytes.n < piece ? bytes.n : piece};
        bytes = (struct str){bytes.p + next.n, bytes.n - next.n};
        (void)f->events->on_bytes(f->user, next);
    }
    if (!tape.done)
        f->events->on_done(f->user, STR_NULL);
    ASSERT(tape.done);
    ops[api]->free(turn);
    return buf_str(&tape.seen);
}

static void tape_close(void)
{
    buf_done(&tape.body);
    buf_done(&tape.seen);
    buf_done(&tape.piece);
}

#endif
