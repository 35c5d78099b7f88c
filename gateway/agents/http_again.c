#include "gateway/agents/http_again.h"

#include <stdlib.h>

#include "gateway/base/fault.h"
#include "proto/sse_reader.h"

void http_again_keep(struct http_again *a, struct str id)
{
    if (str_eq(id, buf_str(&a->last_id)))
        return;
    buf_clear(&a->last_id);
    if (sse_id_can_be_sent(id))
        buf_putstr(&a->last_id, id);
    a->is_new = true;
}

void http_again_note(struct http_again *a, const struct run_events *events, void *task)
{
    if (!a->is_new)
        return;
    a->is_new = false;
    (void)events->on_mark(task, ++a->mark);
    events->on_note(task, true, buf_str(&a->last_id));
    FAULT_DIE(NOTE);
}

void http_again_begin_anew(struct http_again *a, const struct run_events *events, void *task)
{
    events->on_anew(task);
    FAULT_DIE(ANEW);
    buf_clear(&a->last_id);
    a->is_new = true;
    http_again_note(a, events, task);
}

void http_again_done(struct http_again *a)
{
    buf_done(&a->last_id);
}

struct recall *http_again_recall(void *settings, struct recall *recall, const struct recalled *item,
                                 bool *ret_settled)
{
    (void)settings;
    if (!recall)
        recall = xcalloc(sizeof *recall);
    if (item->standing) {
        buf_clear(&recall->last_id);
        buf_putstr(&recall->last_id, item->note);
    }
    *ret_settled = recall->last_id.len > 0;
    recall->is_whole |= item->event && item->event->event == EVENT_FINAL_ANSWER;
    recall->has_answer |= item->event && item->event->event == EVENT_TOKEN;
    return recall;
}

void http_again_forget(struct recall *recall)
{
    buf_done(&recall->last_id);
    free(recall);
}
