#include "proto/faces/responses_output.h"

#include <stdlib.h>

#define MOST_OUTPUT (2 * MAX_OUTPUT) /* bytes of JSON, or one item */

static void drop_oldest(struct responses_output *o)
{
    buf_consume(&o->items, o->marks[0].len);
    memmove(o->marks, o->marks + 1, --o->n * sizeof *o->marks);
    o->is_cut = true;
}

void responses_output_add(struct responses_output *o, struct str item, uint64_t begun)
{
    buf_putstr(&o->items, item);
    buf_putc(&o->items, ',');
    o->marks = xrealloc(o->marks, (o->n + 1) * sizeof *o->marks);
    o->marks[o->n++] = (struct responses_mark){begun, item.n + 1};
    while (o->items.len > MOST_OUTPUT && o->n > 1)
        drop_oldest(o);
}

void responses_output_begin(struct responses_output *o, uint64_t seq, const struct face_said *all)
{
    if (o->n_begins == RESPONSES_BEGINS)
        memmove(o->begins, o->begins + 1, --o->n_begins * sizeof *o->begins);
    o->begins[o->n_begins++] = (struct responses_begin){seq, *all};
}

uint64_t responses_output_begun(const struct responses_output *o)
{
    return o->n_begins ? o->begins[o->n_begins - 1].seq : 0;
}

static void drop_begins(struct responses_output *o, uint64_t after, struct face_said *all)
{
    size_t at = 0;
    while (at < o->n_begins && o->begins[at].seq <= after)
        at++;
    if (at < o->n_begins)
        *all = o->begins[at].all;
    o->n_begins = at;
}

void responses_output_withdraw(struct responses_output *o, uint64_t after, struct face_said *all)
{
    size_t n = o->n, at = 0, kept = 0;
    o->n = 0;
    for (size_t i = 0; i < n; i++) {
        struct responses_mark mark = o->marks[i];
        if (mark.begun <= after) {
            memmove(o->items.bytes + kept, o->items.bytes + at, mark.len);
            o->marks[o->n++] = mark;
            kept += mark.len;
        }
        at += mark.len;
    }
    o->items.len = kept;
    drop_begins(o, after, all);
}

struct str responses_output_text(const struct responses_output *o)
{
    return o->items.len ? (struct str){o->items.bytes, o->items.len - 1} : STR("");
}

void responses_output_done(struct responses_output *o)
{
    buf_done(&o->items);
    free(o->marks);
    *o = (struct responses_output){0};
}
