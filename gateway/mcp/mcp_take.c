/* A server's messages, one by one: answers to what we asked, requests and notifications of
 * its own. */
#include <stdlib.h>

#include "gateway/base/log.h"
#include "gateway/mcp/mcp_private.h"
#include "proto/forms/say.h"

#define KEEP_BYTES (256 * 1024) /* what one long message has grown is not kept */

static struct mcp_request *find_request(struct mcp_server *s, int64_t id)
{
    list_each (it, &s->requests) {
        struct mcp_request *r = list_item(it, struct mcp_request, node);
        if (r->id == id)
            return r;
    }
    return NULL;
}

/* Takes it out; false: nobody waits for it (any more). */
static bool take_request(struct mcp_server *s, int64_t id, struct mcp_request *ret)
{
    struct mcp_request *r = id ? find_request(s, id) : NULL;
    if (!r)
        return false;
    *ret = *r;
    list_remove(&r->node);
    free(r);
    return true;
}

static void take_answer(struct mcp_server *s, const struct mcp_message *m)
{
    struct mcp_request r;
    if (!take_request(s, m->id, &r)) {
        log_event_limited(LEVEL_DEBUG, "mcp", "unasked", LOG_TEXT("server", s->config->name),
                          LOG_INT("id", m->id));
        return;
    }
    if (r.job)
        mcp_job_answered(r.job, r.purpose, &s->doc, m);
    else
        mcp_server_answered(s, r.purpose, m);
}

static void take_request_of_its_own(struct mcp_server *s, const struct mcp_message *m,
                                    int64_t stream)
{
    struct buf id = {0}, body = {0};
    if (js_is(&s->doc, m->method, "elicitation/create")) {
        mcp_server_elicits(s, &s->doc, m, stream);
        return;
    }
    js_copy(&s->doc, m->own_id, &id);
    if (js_is(&s->doc, m->method, "ping"))
        mcp_put_answer(&body, buf_str(&id), STR("{}"));
    else
        mcp_put_refusal(&body, buf_str(&id), MCP_NO_METHOD, "Method not found");
    mcp_server_tell(s, NULL, buf_str(&body));
    buf_done(&id);
    buf_done(&body);
}

static void log_said(struct mcp_server *s, uint32_t params)
{
    if (!params || !log_is_on(LEVEL_DEBUG))
        return;
    uint32_t data = js_get(&s->doc, params, "data");
    buf_clear(&s->scratch);
    if (data)
        js_copy(&s->doc, data, &s->scratch);
    log_event_limited(LEVEL_DEBUG, "mcp", "said", LOG_TEXT("server", s->config->name),
                      LOG_STR("data", buf_str(&s->scratch)));
}

static void take_notification(struct mcp_server *s, const struct mcp_message *m)
{
    const struct js_doc *doc = &s->doc;
    if (js_is(doc, m->method, "notifications/progress") && m->params)
        mcp_job_progress(s, doc, m->params);
    else if (js_is(doc, m->method, "notifications/tools/list_changed"))
        mcp_server_again(s);
    else if (js_is(doc, m->method, "notifications/message"))
        log_said(s, m->params);
    else if (js_is(doc, m->method, "notifications/subscriptions/acknowledged"))
        s->listens = true;
}

/* An error without an id, on the stream of a request, is that request's. */
static void mcp_take_message(struct mcp_server *s, uint32_t node, int64_t stream)
{
    struct mcp_message m;
    mcp_message_read(&s->doc, node, &m);
    if (m.kind == MCP_ERROR && m.id == 0)
        m.id = stream;
    switch (m.kind) {
    case MCP_JUNK: mcp_server_noise(s, STR("JSON, but no message")); break;
    case MCP_RESULT:
    case MCP_ERROR: take_answer(s, &m); break;
    case MCP_REQUEST: take_request_of_its_own(s, &m, stream); break;
    case MCP_NOTIFICATION: take_notification(s, &m); break;
    }
}

void mcp_server_take(struct mcp_server *s, struct str message, int64_t stream)
{
    struct js_doc *doc = &s->doc;
    const struct mcp_link *link = s->link;
    if (!js_parse(doc, message.p, message.n, JS_AGENT)) {
        mcp_server_noise(s, message);
        return;
    }
    if (js_type(doc, 0) != JS_ARRAY) {
        mcp_take_message(s, 0, stream);
    } else { /* a batch, of 2025-03-26 */
        for (uint32_t i = js_first(doc, 0); s->link == link && i < js_end(doc, 0);
             i = js_next(doc, i))
            mcp_take_message(s, i, stream);
    }
    if (message.n > KEEP_BYTES)
        js_done(doc);
}

void mcp_server_lost(struct mcp_server *s, int64_t id, const struct mcp_loss *loss)
{
    struct mcp_request r;
    struct mcp_message m;
    if (!find_request(s, id))
        return;
    if (loss->body.n && js_parse(&s->doc, loss->body.p, loss->body.n, JS_AGENT)) {
        mcp_message_read(&s->doc, 0, &m); /* HTTP refuses, and says why */
        m.id = id;
        bool is_session = m.code > -32020 && m.code <= -32000;
        if (m.kind == MCP_ERROR && m.code != 0 && !is_session) {
            take_answer(s, &m);
            return;
        }
    }
    if (!take_request(s, id, &r))
        return;
    if (r.job)
        mcp_job_lost(r.job, loss);
    else
        mcp_server_refused(s, r.purpose, loss);
}
