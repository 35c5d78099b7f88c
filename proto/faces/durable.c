/* Design. Catch-up and long-poll collect messages until there are no more, or until an answer is
 * large enough; a live stream sends what it has whenever it is idle. Nothing else is kept, so any
 * offset can be continued. */
#include "proto/faces/durable.h"

#include <stdlib.h>

#define WHOLE_BYTES (1u << 20) /* an answer is not larger, but for its last message */
#define LIVE_BYTES (64u << 10) /* the same for one event of a live stream */

struct durable_stream {
    struct face_stream face;
    const struct durable_request *r;
    char *task_id;
    uint64_t offset; /* of the last event */
    bool is_told;    /* live: the client knows that it is up to date */
    struct buf body, head, out;
};

/* --- a live stream ---------------------------------------------------------------------------- */

static void put_control(struct durable_stream *s, struct durable_tail tail,
                        const struct face_sink *to)
{
    struct buf *out = &s->out;
    buf_clear(out);
    buf_putf(out, "{\"streamNextOffset\":\"%0*llu\"", DURABLE_OFFSET,
             (unsigned long long)tail.offset);
    if (!tail.is_closed)
        buf_putf(out, ",\"streamCursor\":\"%llu\"", (unsigned long long)s->r->interval);
    if (tail.up_to_date)
        js_put_bool(out, "upToDate", true);
    if (tail.is_closed)
        js_put_bool(out, "streamClosed", true);
    buf_putc(out, '}');
    to->put(to->arg, "control", buf_str(out));
}

static void durable_say(struct durable_stream *s, struct durable_tail tail,
                        const struct face_sink *to)
{
    if (s->body.len) {
        durable_close(&s->r->form, true, &s->body);
        to->put(to->arg, "data", buf_str(&s->body));
    }
    put_control(s, tail, to);
    buf_clear(&s->body);
    s->is_told = tail.up_to_date;
    s->face.is_over = tail.is_closed;
}

/* --- an answer in one piece ------------------------------------------------------------------- */

/* An answer is the owner's alone. One with messages stays true; one without is soon another. */
static void durable_answer(struct durable_stream *s, struct durable_tail tail,
                           const struct face_sink *to)
{
    const struct durable_request *r = s->r;
    bool nothing = r->mode == DURABLE_LONG_POLL && !s->body.len;
    durable_put_head(&s->head, r, tail);
    if (s->body.len && !r->from_now)
        buf_puts(&s->head, "cache-control: private, max-age=60, stale-while-revalidate=300\n");
    bool known = durable_tag(&s->head, r, str_of(s->task_id), tail);
    s->face.status = known ? 304 : nothing ? 204 : 200;
    durable_close(&r->form, false, &s->body);
    s->face.head = buf_str(&s->head);
    s->face.is_over = true;
    to->put(to->arg, NULL, s->face.status == 200 ? buf_str(&s->body) : STR(""));
}

/* --- the stream ------------------------------------------------------------------------------- */

static void durable_tell(struct durable_stream *s, bool up_to_date, bool is_closed,
                         const struct face_sink *to)
{
    const struct durable_tail tail = {s->offset, up_to_date, is_closed};
    if (s->r->mode == DURABLE_LIVE)
        durable_say(s, tail, to);
    else
        durable_answer(s, tail, to);
}

static void durable_event(struct face_stream *face, const struct face_event *e,
                          const struct face_sink *to)
{
    struct durable_stream *s = container_of(face, struct durable_stream, face);
    bool is_last = event_is_terminal(e->type);
    size_t most = s->r->mode == DURABLE_LIVE ? LIVE_BYTES : WHOLE_BYTES;
    s->offset = e->seq;
    s->is_told = false;
    durable_put(&s->r->form, e, &s->body);
    if (is_last || s->body.len >= most)
        durable_tell(s, is_last, is_last, to);
}

static void durable_idle(struct face_stream *face, const struct face_sink *to)
{
    struct durable_stream *s = container_of(face, struct durable_stream, face);
    bool waits = s->r->mode == DURABLE_LONG_POLL && !s->body.len;
    if (!waits && !s->is_told)
        durable_tell(s, true, s->r->is_closed, to);
}

static void durable_late(struct face_stream *face, const struct face_sink *to)
{
    durable_tell(container_of(face, struct durable_stream, face), true, false, to);
}

static struct face_stream *durable_make(const struct face_task *task)
{
    static const struct durable_request all = {.mode = DURABLE_LIVE,
                                               .form = {"application/json", true, true}};
    struct durable_stream *s = xcalloc(sizeof *s);
    s->face.ops = &durable_ops;
    s->r = task->request ? task->request : &all;
    s->task_id = xstrdup(task->task_id);
    s->offset = s->r->after;
    s->face.place.seq = s->r->after;
    if (task->first > s->r->after + 1) {
        s->face.is_over = true;
        s->face.status = 410;
    }
    return &s->face;
}

static void durable_free(struct face_stream *face)
{
    struct durable_stream *s = container_of(face, struct durable_stream, face);
    buf_done(&s->body);
    buf_done(&s->head);
    buf_done(&s->out);
    free(s->task_id);
    free(s);
}

const struct face_ops durable_ops = {
    .name = "durable_streams",
    .tells_withdrawn = true, /* a reader takes events, as they are in the journal */
    .make = durable_make,
    .event = durable_event,
    .idle = durable_idle,
    .late = durable_late,
    .free = durable_free,
};
