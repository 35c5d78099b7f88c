#include "gateway/faces/face_ws.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/auth/auth.h"
#include "gateway/faces/face_http.h"
#include "gateway/front/address.h"
#include "gateway/front/frame.h"
#include "gateway/front/http.h"
#include "proto/link.h"

#define MOST_CHANNELS 64 /* of one connection; a further one gets an error */

struct face_ws {
    struct conn *conn;
    const struct face_ws_ops *ops;
    struct list channels, ready;
    uint32_t n_channels;
    uint32_t n_hasty;  /* frames in a row that came too fast */
    struct buf frames; /* frames outside streams: refusals and ends */
    struct face_peer peer;
    char *agent;       /* a parameter of the address, or NULL */
    struct js_doc doc; /* scratch */
};

struct channel {
    struct list all, ready;
    struct face_ws *ws;
    struct str id; /* owned */
    struct session session;
    bool follows; /* the session is in use */
    struct call *call;
    struct face_exchange face;
    struct face_stream *stream; /* NULL until the events begin */
    struct buf conversation_id, task_id;
    uint64_t n_said;
    bool cancels; /* cancel its task as soon as it is known */
};

static void channel_go_on(struct channel *ch, enum face_next next);

static void say(struct face_ws *ws, struct buf *json)
{
    if (json->len) {
        frame_put(&ws->frames, buf_str(json));
        session_wake(&ws->conn->session);
    }
    buf_done(json);
}

static void say_failed(struct face_ws *ws, struct str id, enum error e, const char *why)
{
    struct buf json = {0};
    ws->ops->put_failed(&json, id, e, why);
    say(ws, &json);
}

/* --- channels --------------------------------------------------------------------------------- */

static void flush_channel(struct session *session)
{
    struct channel *ch = session->rim;
    if (!list_is_in(&ch->ready))
        list_push(&ch->ws->ready, &ch->ready);
    session_wake(&ch->ws->conn->session);
}

static void hold_channel(struct session *session, bool on)
{
    (void)session; /* a channel receives no messages */
    (void)on;
}

static const struct session_ops channel_ops = {.hold = hold_channel, .flush = flush_channel};

static void end_channel(struct channel *ch)
{
    if (ch->call)
        call_forget(ch->call);
    if (ch->follows)
        session_done(&ch->session);
    list_remove(&ch->all);
    list_remove(&ch->ready);
    ch->ws->n_channels--;
    face_stream_free(ch->stream);
    exchange_done(&ch->face);
    str_free(&ch->id);
    buf_done(&ch->conversation_id);
    buf_done(&ch->task_id);
    free(ch);
}

static struct asker asker_of(struct channel *ch, bool follows)
{
    return session_asker(&ch->ws->conn->session, follows ? &ch->session : NULL);
}

static void ignore_reply(void *arg, enum error e, struct str line)
{
    (void)arg, (void)e, (void)line;
}

/* The task stops by itself from here on; the peer has left the stream. */
static void cancel_channel(struct channel *ch)
{
    struct hub *h = ch->ws->conn->front->hub;
    struct request req;
    struct request_fault fault;
    if (request_from_body(&h->doc, VERB_CANCEL, buf_str(&ch->conversation_id),
                          buf_str(&ch->task_id), STR_NULL, &req, &fault)) {
        struct asker who = asker_of(ch, false);
        (void)hub_request(h, &who, &req, ignore_reply, NULL);
    }
    end_channel(ch);
}

static void channel_replied(void *arg, enum error e, struct str line)
{
    struct channel *ch = arg;
    ch->call = NULL;
    channel_go_on(ch, ch->face.ops->replied(&ch->face, e, line, &ch->ws->doc));
}

static void begin_stream(struct channel *ch, struct str line)
{
    struct js_doc *doc = &ch->ws->doc;
    struct buf json = {0};
    struct face_task t;
    exchange_task_read(&ch->face, doc, line, &t);
    buf_putstr(&ch->conversation_id, t.conversation_id);
    buf_putstr(&ch->task_id, t.task_id);
    ch->stream = face_stream_make(ch->face.ops->stream, &t);
    if (ch->ws->ops->put_begun)
        ch->ws->ops->put_begun(&json, ch->id, &ch->face);
    say(ch->ws, &json);
}

static void followed(void *arg, enum error e, struct str line)
{
    struct channel *ch = arg;
    ch->call = NULL;
    if (e) {
        session_done(&ch->session);
        ch->follows = false;
        channel_go_on(ch, ch->face.ops->replied(&ch->face, e, line, &ch->ws->doc));
        return;
    }
    begin_stream(ch, line);
    if (ch->cancels)
        cancel_channel(ch);
    else if (session_has_output(&ch->session))
        flush_channel(&ch->session);
}

static void follow_task(struct channel *ch, struct request *req)
{
    struct conn *c = ch->ws->conn;
    session_init(&ch->session, c->front->hub, &channel_ops, ch);
    struct asker who = asker_of(ch, true);
    session_adopt(&ch->session, &who);
    ch->follows = true;
    struct call *call = hub_request(c->front->hub, &who, req, followed, ch);
    if (call)
        ch->call = call;
}

static void ask_hub(struct channel *ch, bool follows)
{
    struct hub *h = ch->ws->conn->front->hub;
    struct face_ask *a = &ch->face.ask;
    struct request req;
    struct request_fault fault;
    struct str conversation = a->conversation_id.len ? buf_str(&a->conversation_id) : STR_NULL;
    struct str task = a->task_id.len ? buf_str(&a->task_id) : STR_NULL;
    if (!request_from_body(&h->doc, a->verb, conversation, task, buf_str(&a->body), &req, &fault)) {
        struct buf line = {0};
        error_line(&line, fault.code, STR_NULL, fault.message, -1, -1);
        channel_replied(ch, fault.code, buf_str(&line));
        buf_done(&line);
        return;
    }
    if (follows) {
        follow_task(ch, &req);
        return;
    }
    struct asker who = asker_of(ch, false);
    struct call *call = hub_request(h, &who, &req, channel_replied, ch);
    if (call)
        ch->call = call;
}

static void channel_go_on(struct channel *ch, enum face_next next)
{
    if (next != FACE_REPLY) {
        ask_hub(ch, next == FACE_FOLLOW);
        return;
    }
    struct buf json = {0};
    ch->ws->ops->put_reply(&json, ch->id, &ch->face);
    say(ch->ws, &json);
    end_channel(ch);
}

/* --- frames to the peer ----------------------------------------------------------------------- */

struct telling {
    struct channel *channel;
    struct buf *out;
    struct buf json;
};

static void put_stream_message(void *arg, const char *name, struct str json)
{
    struct telling *t = arg;
    struct channel *ch = t->channel;
    (void)name;
    uint64_t n = ch->n_said++;
    if (n < ch->face.after)
        return;
    buf_clear(&t->json);
    ch->ws->ops->put_message(&t->json, ch->id, n, json);
    frame_put(t->out, buf_str(&t->json));
}

static bool is_told(const struct channel *ch)
{
    return session_knows(&ch->session) & LINK_IS_TOLD;
}

static void tell_events(struct channel *ch, struct buf *out, size_t max)
{
    struct buf lines = {0};
    struct telling t = {.channel = ch, .out = out};
    const struct face_sink sink = {.put = put_stream_message, .arg = &t};
    (void)session_fill(&ch->session, &lines, max);
    face_stream_lines(ch->stream, &ch->ws->doc, buf_str(&lines), &sink);
    if (!session_has_output(&ch->session) && is_told(ch))
        face_stream_idle(ch->stream, &sink);
    buf_done(&t.json);
    buf_done(&lines);
}

/* The exchange may have another stream. */
static void go_on_after_stream(struct channel *ch)
{
    enum face_next next = ch->face.ops->ended(&ch->face, ch->stream);
    session_done(&ch->session);
    ch->follows = false;
    face_stream_free(ch->stream);
    ch->stream = NULL;
    buf_clear(&ch->conversation_id);
    buf_clear(&ch->task_id);
    channel_go_on(ch, next);
}

/* The end of the stream, or the reason why it cannot continue: never a clean end without the last
 * message.  What closes a session closes its connection, as in our own protocol: the home of its
 * owner knows nothing of connections at other nodes but their sessions. */
static bool end_if_through(struct channel *ch, struct buf *out)
{
    struct buf json = {0};
    bool closes = ch->session.state == SESSION_CLOSING;
    bool is_out = !closes && !(session_knows(&ch->session) & LINK_FOLLOWS);
    if (ch->face.ops->ended && (ch->stream->is_over || is_out)) {
        go_on_after_stream(ch);
        return true;
    }
    if (ch->stream->is_over)
        ch->ws->ops->put_end(&json, ch->id);
    else if (closes || is_out)
        ch->ws->ops->put_failed(&json, ch->id, ERR_INTERNAL, "the stream broke off: resume it");
    else
        return false;
    if (json.len)
        frame_put(out, buf_str(&json));
    buf_done(&json);
    if (closes)
        session_close(&ch->ws->conn->session, ch->session.close_code);
    end_channel(ch);
    return true;
}

bool face_ws_fill(struct conn *c, struct buf *out, enum ws_form *ret_as)
{
    struct face_ws *ws = c->own;
    size_t start = out->len, max = MAX_MESSAGE_OUT;
    *ret_as = WS_FRAMES;
    buf_putstr(out, buf_str(&ws->frames));
    buf_done(&ws->frames);
    for (struct list *node; out->len - start < max && (node = list_pop(&ws->ready)) != NULL;) {
        struct channel *ch = list_item(node, struct channel, ready);
        if (!ch->stream)
            continue; /* its reply comes first, and wakes it again */
        tell_events(ch, out, max / 4);
        if (!end_if_through(ch, out) && session_has_output(&ch->session))
            list_push(&ws->ready, &ch->ready);
    }
    return out->len > start;
}

bool face_ws_has_output(const struct conn *c)
{
    const struct face_ws *ws = c->own;
    return ws->frames.len > 0 || !list_is_empty(&ws->ready);
}

/* --- frames from the peer --------------------------------------------------------------------- */

/* Identifies the requester: by the connection's own token or, without one, by that of the first
 * frame that has one. */
static bool is_let_in(struct conn *c, const struct face_frame *frame, struct identity *who)
{
    struct str token = auth_bearer(frame->authorization);
    if (!token.p && frame->authorization.p)
        token = frame->authorization;
    if (c->session.owner && !token.p)
        return true;
    if (!c->session.owner && !token.p && !ws_brought_token(c)) {
        snprintf(who->error, sizeof who->error, "a token is missing");
        return false;
    }
    if (!c->session.ops->authenticate(&c->session, token, who))
        return false;
    struct str name = {who->owner, who->owner_len};
    struct hub *h = c->front->hub;
    if (c->session.owner) {
        bool same = str_eq(str_of(c->session.owner->name), name) &&
                    rights_equal(c->session.rights, who->rights);
        rights_unref(who->rights);
        who->rights = NULL;
        snprintf(who->error, sizeof who->error, "the token is another owner's");
        return same;
    }
    struct owner *owner = owner_ref(h, name);
    struct owner *quota = owner_ref(h, who->quota[0] ? str_of(who->quota) : name);
    const struct asker asker = {
        .owner = owner, .quota = quota, .rights = who->rights, .expires_at_ms = who->expires_at_ms};
    session_adopt(&c->session, &asker);
    owner_unref(h, owner);
    owner_unref(h, quota);
    rights_unref(who->rights);
    who->rights = NULL;
    return true;
}

static struct channel *find_channel(struct face_ws *ws, struct str id)
{
    list_each (it, &ws->channels) {
        struct channel *ch = list_item(it, struct channel, all);
        if (str_eq(ch->id, id))
            return ch;
    }
    return NULL;
}

static void begin_channel(struct face_ws *ws, const struct face_frame *frame, int operation,
                          struct str body, struct str query)
{
    struct channel *ch = xcalloc(sizeof *ch);
    ch->ws = ws;
    ch->id = str_own(frame->id);
    ch->face.ops = ws->ops->http;
    list_push(&ws->channels, &ch->all);
    ws->n_channels++;
    struct buf nonce = {0};
    face_put_nonce(&nonce, ws->conn->front->hub);
    const struct face_input in = {.operation = operation,
                                  .body = body,
                                  .query = query,
                                  .agent = str_of(ws->agent),
                                  .nonce = buf_str(&nonce),
                                  .peer = &ws->peer,
                                  .doc = &ws->doc,
                                  .now_ms = ws->conn->front->hub->clock.wall_ms};
    enum face_next next = ch->face.ops->begin(&ch->face, &in);
    buf_done(&nonce);
    channel_go_on(ch, next);
}

static void stop_channel(struct face_ws *ws, struct str id)
{
    struct channel *ch = find_channel(ws, id);
    if (ch && ch->stream)
        cancel_channel(ch);
    else if (ch)
        ch->cancels = true;
}

/* Every frame costs, also one that is refused: paced by owner, or by address as long as there is
 * none. A peer that is told to wait and does not is flooding. */
static bool is_in_time(struct face_ws *ws, struct str id)
{
    struct conn *c = ws->conn;
    char group[NET_TEXT + 1] = "\x01"; /* no owner has such a name */
    if (!c->session.owner)
        snprintf(group + 1, NET_TEXT, "%s", c->address->group);
    if (pace_take(c->front, str_of(c->session.owner ? c->session.owner->name : group))) {
        ws->n_hasty = 0;
        return true;
    }
    c->front->hub->stats.limit_hits[LIMIT_RATE]++;
    say_failed(ws, id, ERR_RATE_LIMITED, "too many requests");
    if (++ws->n_hasty > c->front->config->limits.burst)
        session_close(&c->session, CLOSE_FLOOD);
    return false;
}

/* query: the address's, when the address is the request, or STR_NULL. */
static void take_frame(struct face_ws *ws, const struct face_frame *frame, struct str text,
                       struct str query)
{
    struct conn *c = ws->conn;
    struct identity who = {0};
    int operation = query.p ? ws->ops->query_operation : ws->ops->operation;
    bool known = is_let_in(c, frame, &who);
    buf_done(&who.token);
    if (!is_in_time(ws, frame->id))
        return;
    if (!known)
        say_failed(ws, frame->id, who.later ? ERR_OVERLOADED : ERR_UNAUTHORIZED, who.error);
    else if (frame->kind == FRAME_CANCEL)
        stop_channel(ws, frame->id);
    else if (ws->n_channels >= MOST_CHANNELS)
        say_failed(ws, frame->id, ERR_OVERLOADED, "too many requests on this connection");
    else if (ws->ops->one_at_a_time && find_channel(ws, frame->id))
        say_failed(ws, frame->id, ERR_CONFLICT, "a request with this id is in progress");
    else
        begin_channel(ws, frame, operation, text, query);
}

void face_ws_receive(struct conn *c, struct str message)
{
    struct face_ws *ws = c->own;
    struct face_frame frame = {0};
    if (c->session.state == SESSION_CLOSING)
        return;
    ws->ops->read(&ws->doc, message, &frame);
    if (frame.kind != FRAME_BAD && frame.kind != FRAME_IGNORE)
        take_frame(ws, &frame, message, STR_NULL);
    else if (is_in_time(ws, frame.id) && frame.kind == FRAME_BAD)
        say_failed(ws, frame.id, ERR_BAD_REQUEST, frame.why);
    buf_done(&frame.memory);
}

/* The address of a client that reconnects may say what to continue. */
static void take_address(struct face_ws *ws, struct lws *wsi)
{
    const char *name = ws->ops->query_name;
    struct buf value = {0};
    char *query = name ? http_query(wsi) : NULL;
    if (query && exchange_query(str_of(query), name, &value))
        take_frame(ws, &(struct face_frame){.id = STR("")}, STR(""), str_of(query));
    buf_done(&value);
    free(query);
}

void face_ws_opened(struct conn *c, struct lws *wsi)
{
    struct face_ws *ws = xcalloc(sizeof *ws);
    ws->conn = c;
    ws->ops = c->kind->of_kind;
    ws->agent = http_query_value(wsi, "agent");
    list_init(&ws->channels);
    list_init(&ws->ready);
    c->own = ws;
    /* A browser can put it nowhere else; it is never logged. */
    if (!c->stranger->bearer)
        c->stranger->bearer = http_query_value(wsi, "token");
    take_address(ws, wsi);
}

bool face_ws_is_served_here(const struct conn *c)
{
    struct face_ws *ws = c->own;
    bool here = false;
    list_each (it, &ws->channels) {
        const struct channel *ch = list_item(it, struct channel, all);
        here |= ch->follows && !ch->session.away;
    }
    return here;
}

void face_ws_closed(struct conn *c)
{
    struct face_ws *ws = c->own;
    while (!list_is_empty(&ws->channels))
        end_channel(list_item(ws->channels.next, struct channel, all));
    buf_done(&ws->frames);
    free(ws->agent);
    js_done(&ws->doc);
    free(ws);
    c->own = NULL;
}
