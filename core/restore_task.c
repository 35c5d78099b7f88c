/* A restart reads all that is known of a task that was under way: its notes, its events from its
 * blocks and its tail, its inbox.  Then the task goes on, or ends as an orphan (task_resume.c). */
#include <stdlib.h>

#include "core/backoff.h"
#include "core/query_retry.h"
#include "core/task_parts.h"

#define REFUSED_FIRST_MS 1000 /* a question that the store refuses is put again, ever less often */
#define REFUSED_MOST_MS 60000

/* A task that is being read. */
struct reading {
    struct task *task;
    struct block *tail;
    bool bare; /* its inbox is known to be empty */
    uint64_t after;
    struct block **notes; /* by number */
    size_t n_notes, next_note;
    const int *failed;
    struct query query; /* the last one that was put */
    store_query_fn answered;
    uint64_t n_refusals; /* of all that were put */
    restore_fn done;
    void *arg;
};

static void drop_notes(struct reading *d)
{
    for (size_t i = 0; i < d->n_notes; i++)
        block_free(d->notes[i]);
    free(d->notes);
    d->notes = NULL;
    d->n_notes = d->next_note = 0;
}

/* The notes that were staged before that event. */
static void recall_notes(struct reading *d, uint64_t before)
{
    for (; d->next_note < d->n_notes; d->next_note++) {
        const struct block *b = d->notes[d->next_note];
        if (b->first >= NOTE_FIRST && b->last >= before)
            return;
        struct str bytes = {b->bytes, b->len};
        if (d->task->work && d->task->work->past)
            task_past_note(d->task, b->first, b->last, bytes);
        else if (b->first == NOTE_STOPPED)
            task_past_stop(d->task, bytes);
    }
}

/* Replays an event of the task: for its output, for clients that repeat an answer, and for its run
 * when that goes on. */
static void recall_event(struct reading *d, const struct event_parts *event)
{
    struct task *t = d->task;
    struct task_work *w = task_work(t);
    if (w->past)
        recall_notes(d, event->seq);
    said_line(&w->said, event);
    if (event->event == EVENT_INPUT_REQUIRED || event->event == EVENT_INPUT_RECEIVED)
        task_restore_question(t, event);
    if (w->past)
        task_past_event(t, event);
}

static void recall_lines(struct reading *d, struct str lines)
{
    d->task->bytes += lines.n;
    while (lines.n > 0) {
        const char *newline = memchr(lines.p, '\n', lines.n);
        size_t n = newline ? (size_t)(newline - lines.p) + 1 : lines.n;
        struct event_parts event;
        if (event_line_split((struct str){lines.p, n}, &event))
            recall_event(d, &event);
        lines.p += n;
        lines.n -= n;
    }
}

/* False when its tail ends before the head in its record: later numbers would be given twice. */
static bool conclude(struct reading *d)
{
    struct hub *h = d->task->hub;
    struct task *t = d->task;
    const struct block *tail = d->tail;
    uint64_t head = t->stream->head;
    if (tail && tail->last < head)
        return false;
    if (!tail && d->after < head) {
        hub_tell_damage(h, t->stream->task_id, d->after + 1);
        task_past_is_unreadable(t);
        d->after = head;
    }
    stream_set(t->stream, t->stream->first, tail ? tail->first - 1 : d->after, false);
    if (tail) {
        recall_lines(d, (struct str){tail->bytes, tail->len});
        stream_set_tail(t->stream, tail);
        journal_want_seal(&h->journal, t->stream);
    }
    recall_notes(d, UINT64_MAX);
    if (t->phase != PHASE_PENDING || staged_state(t)->cancel_requested_at)
        task_past_end(t);
    return true;
}

static void reading_finish(struct reading *d, int status)
{
    restore_fn done = d->done;
    struct task *t = d->task;
    void *arg = d->arg;
    bool late = d->n_refusals > 0;
    if (status == 0 && !*d->failed && !conclude(d))
        status = STORE_CORRUPT;
    drop_notes(d);
    block_free(d->tail);
    free(d);
    done(arg, t, status, late);
}

/* A refusal is told once; the question is put until it is answered, or the hub is closed. */
static void reading_answered(void *arg, int status, struct answer *answer)
{
    struct reading *d = arg;
    struct hub *h = d->task->hub;
    if (status != STORE_REFUSED || !h->o.shared || h->closing) {
        d->answered(d, status, answer);
        return;
    }
    msec_t wait = backoff_ms(++d->n_refusals, REFUSED_FIRST_MS, REFUSED_MOST_MS);
    query_retry_in(h, wait, &d->query, reading_answered, d);
    if (d->n_refusals == 1)
        d->done(d->arg, d->task, STORE_REFUSED, false);
}

static void put_query(struct reading *d, struct query query, store_query_fn answered)
{
    d->query = query;
    d->answered = answered;
    query_retry(d->task->hub, &d->query, reading_answered, d);
}

static void ask_inbox(struct reading *d);

static void on_inbox(void *arg, int status, struct answer *answer)
{
    struct reading *d = arg;
    if (status < 0) {
        reading_finish(d, status);
        return;
    }
    for (size_t i = 0; i < answer->n_blocks; i++)
        task_restore_message(d->task, answer->blocks[i]->first,
                             (struct str){answer->blocks[i]->bytes, answer->blocks[i]->len});
    if (answer->more)
        ask_inbox(d);
    else
        reading_finish(d, 0);
}

static void ask_inbox(struct reading *d)
{
    const struct task *t = d->task;
    if (d->bare) {
        reading_finish(d, 0);
        return;
    }
    put_query(d,
              (struct query){
                  .kind = QUERY_INBOX, .task_key = task_key(t), .after = task_inbox_position(t)},
              on_inbox);
}

static void read_blocks(struct reading *d);

/* A question that would find nothing is not asked: of 10,000 tasks it is the most of a takeover. */
static bool has_all_blocks(const struct reading *d)
{
    return d->after + 1 >= (d->tail ? d->tail->first : d->task->stream->head + 1);
}

static void on_blocks(void *arg, int status, struct answer *answer)
{
    struct reading *d = arg;
    struct task *t = d->task;
    if (status < 0 && status != STORE_CORRUPT) {
        reading_finish(d, status);
        return;
    }
    bool sound = status == 0;
    for (size_t i = 0; i < answer->n_blocks && sound; i++) {
        const struct block *b = answer->blocks[i];
        sound = b->first == d->after + 1 && stream_owns(t->stream, b);
        if (sound) {
            recall_lines(d, (struct str){b->bytes, b->len});
            if (t->stream->chain)
                chain_take(t->stream->chain, (struct str){b->bytes, b->len}, b->first, b->last);
            d->after = b->last;
        }
    }
    if (sound && answer->n_blocks > 0 && !has_all_blocks(d)) {
        read_blocks(d);
        return;
    }
    if (!sound) { /* it ends with the readable events; numbering continues after the lost ones */
        hub_tell_damage(d->task->hub, t->stream->task_id, d->after + 1);
        task_past_is_unreadable(t);
        d->after = t->stream->head;
    }
    ask_inbox(d);
}

static void read_blocks(struct reading *d)
{
    put_query(d,
              (struct query){.kind = QUERY_BLOCKS,
                             .task_key = task_key(d->task),
                             .after = d->after,
                             .max_bytes = 1 << 20},
              on_blocks);
}

static void ask_notes(struct reading *d);

/* Notes that cannot be read cost their task, and no other. */
static void on_notes(void *arg, int status, struct answer *answer)
{
    struct reading *d = arg;
    if (status < 0 && status != STORE_CORRUPT) {
        reading_finish(d, status);
        return;
    }
    if (status < 0) {
        drop_notes(d);
        task_past_is_unreadable(d->task);
    } else {
        d->notes = xrealloc(d->notes, (d->n_notes + answer->n_blocks + 1) * sizeof(struct block *));
        for (size_t i = 0; i < answer->n_blocks; i++) {
            d->notes[d->n_notes++] = answer->blocks[i];
            answer->blocks[i] = NULL;
        }
    }
    if (status == 0 && answer->more)
        ask_notes(d);
    else
        read_blocks(d);
}

static void ask_notes(struct reading *d)
{
    put_query(d,
              (struct query){.kind = QUERY_NOTES,
                             .task_key = task_key(d->task),
                             .after = d->n_notes ? d->notes[d->n_notes - 1]->first : 0},
              on_notes);
}

void restore_task(struct task *t, struct block *tail, bool bare, const int *failed, restore_fn done,
                  void *arg)
{
    struct reading *d = xcalloc(sizeof *d);
    *d = (struct reading){
        .task = t, .tail = tail, .bare = bare, .failed = failed, .done = done, .arg = arg};
    /* One that does not go on has at most a note of who cancelled it. */
    if ((t->work && t->work->past) || staged_state(t)->cancel_requested_at)
        ask_notes(d);
    else
        read_blocks(d);
}
