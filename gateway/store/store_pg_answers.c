/* Where a batch's answers belong in their trees, asked for at once: message_tree.h asks four times
 * for each, one question after the other, and a takeover ends thousands of tasks in one batch.
 *
 * Only what no other op of the batch can change is asked before its turn; the answers are those
 * that the tree would get then.  A question that has an answer already, or is not there, is left to
 * the tree. */
#include <stdlib.h>

#include "gateway/store/store_pg_private.h"

#define MOST 512 /* at once; what was queued before is flushed by that */

enum { COL_NTH, COL_TIP, COL_TIP_TASK, COL_QUESTION, COL_IS_NEW };

static bool moves_messages(const struct op *op)
{
    return op->kind == OP_MESSAGE || op->kind == OP_BRANCH || op->kind == OP_TASK_REMOVE ||
           op->kind == OP_CONVERSATION_DELETE;
}

static bool is_placed_answer(const struct op *op)
{
    return op->kind == OP_MESSAGE && op->place == PLACE_ANSWER && op->message->task_id.p;
}

/* Two conversations may have one: then neither is asked about. */
static uint8_t *touched_of(const struct pg_answers *p, const struct op *op)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const struct str names[] = {op->owner, op->conversation_id};
    for (size_t n = 0; n < countof(names); n++)
        for (size_t i = 0; i <= names[n].n; i++)
            hash = (hash ^ (i < names[n].n ? (unsigned char)names[n].p[i] : 0)) * 0x100000001b3u;
    return &p->touched[(hash ^ hash >> 32) & p->mask];
}

void pg_answers_begin(struct pg_answers *p, const struct batch *batch)
{
    size_t n = 0, size = 64;
    *p = (struct pg_answers){.row = -1, .asked = batch->n_ops};
    for (size_t i = 0; i < batch->n_ops; i++)
        n += is_placed_answer(&batch->ops[i]);
    if (n == 0)
        return;
    while (size < 64 * n)
        size *= 2;
    p->touched = xcalloc(size);
    p->mask = size - 1;
    p->asked = 0;
    for (size_t i = 0; i < batch->n_ops; i++)
        if (moves_messages(&batch->ops[i]) && *touched_of(p, &batch->ops[i]) < 2)
            ++*touched_of(p, &batch->ops[i]);
}

void pg_answers_end(struct pg_answers *p)
{
    free(p->touched);
    PQclear(p->rows);
    *p = (struct pg_answers){.row = -1};
}

static int answers_ask(struct store_pg *s, const struct batch *batch)
{
    struct pg_answers *p = &s->answers;
    struct buf nths = {0}, columns[3] = {0};
    struct pg_call c;
    int status = STORE_OK;
    PQclear(p->rows);
    p->rows = NULL;
    p->next = 0;
    pg_ints_begin(&nths);
    for (size_t i = 0; i < countof(columns); i++)
        pg_texts_begin(&columns[i]);
    for (; p->asked < batch->n_ops && pg_array_n(&nths) < MOST; p->asked++) {
        const struct op *op = &batch->ops[p->asked];
        if (!is_placed_answer(op) || *touched_of(p, op) > 1)
            continue;
        pg_ints_add(&nths, (int64_t)p->asked);
        pg_texts_add(&columns[0], op->owner);
        pg_texts_add(&columns[1], op->conversation_id);
        pg_texts_add(&columns[2], op->message->task_id);
    }
    pg_begin(&c, &s->writer, PG_ANSWER_PLACES);
    pg_array(&c, &nths);
    for (size_t i = 0; i < countof(columns); i++)
        pg_array(&c, &columns[i]);
    if (pg_array_n(&nths) > 0)
        status = pg_ask_within(s, &c, &p->rows);
    buf_done(&nths);
    for (size_t i = 0; i < countof(columns); i++)
        buf_done(&columns[i]);
    return status;
}

int pg_answers_look(struct store_pg *s, const struct batch *batch, size_t nth)
{
    struct pg_answers *p = &s->answers;
    int status = STORE_OK;
    p->row = -1;
    if (!is_placed_answer(&batch->ops[nth]))
        return STORE_OK;
    if (nth >= p->asked) {
        p->asked = nth;
        status = answers_ask(s, batch);
    }
    if (status < 0 || !p->rows)
        return status;
    while (p->next < PQntuples(p->rows) && pg_col_int(p->rows, p->next, COL_NTH) < (int64_t)nth)
        p->next++;
    if (p->next < PQntuples(p->rows) && pg_col_int(p->rows, p->next, COL_NTH) == (int64_t)nth &&
        pg_col_int(p->rows, p->next, COL_IS_NEW) == 1)
        p->row = p->next;
    return STORE_OK;
}

bool pg_answer_tip(const struct pg_answers *p, struct str *ret_tip, struct str *ret_task)
{
    if (p->row < 0)
        return false;
    *ret_tip = pg_col(p->rows, p->row, COL_TIP);
    *ret_task = pg_col(p->rows, p->row, COL_TIP_TASK);
    return true;
}

bool pg_answer_question(const struct pg_answers *p, struct str *ret)
{
    if (p->row < 0)
        return false;
    *ret = pg_col(p->rows, p->row, COL_QUESTION);
    return true;
}
