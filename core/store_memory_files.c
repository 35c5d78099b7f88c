/* Files: their rows, and the tasks that name them. */
#include <stdlib.h>

#include "core/store_memory_rows.h"

static struct file_record file_copy(struct arena_chunk **chunks, const struct file_record *from)
{
    struct file_record to = *from;
#define T(name) to.name = arena_str(chunks, from->name);
    FILE_NAMES(T)
    FILE_TEXTS(T)
#undef T
    return to;
}

static void file_free(struct mem_file *f)
{
    arena_done(&f->chunks);
    free(f);
}

static void use_free(struct mem_file_use *u)
{
    arena_done(&u->chunks);
    free(u);
}

static struct mem_file *file_find(const struct memory *m, struct str owner, struct str conversation,
                                  struct str file_id)
{
    for (size_t i = 0; i < m->files.n; i++) {
        struct mem_file *f = m->files.at[i];
        if (f->state != FILE_GONE && str_eq(f->record.owner, owner) &&
            str_eq(f->record.conversation_id, conversation) && str_eq(f->record.file_id, file_id))
            return f;
    }
    return NULL;
}

void memory_file_put(struct memory *m, const struct op *op)
{
    struct mem_file *f = xcalloc(sizeof *f);
    f->record = file_copy(&f->chunks, op->file);
    memory_rows_add(&m->files, f);
}

static bool use_is(const struct mem_file_use *u, const struct op *op, struct str task_id,
                   struct str file_id)
{
    return str_eq(u->owner, op->owner) && str_eq(u->conversation_id, op->conversation_id) &&
           (!task_id.p || str_eq(u->task_id, task_id)) &&
           (!file_id.p || str_eq(u->file_id, file_id));
}

static bool has_use(const struct memory *m, const struct op *op, struct str task_id,
                    struct str file_id)
{
    for (size_t i = 0; i < m->file_uses.n; i++)
        if (use_is(m->file_uses.at[i], op, task_id, file_id))
            return true;
    return false;
}

void memory_file_use(struct memory *m, const struct op *op)
{
    struct mem_file *f = file_find(m, op->owner, op->conversation_id, op->key);
    if (!f)
        return;
    f->state = FILE_USED;
    if (has_use(m, op, op->task_id, op->key))
        return;
    struct mem_file_use *u = xcalloc(sizeof *u);
    u->owner = arena_str(&u->chunks, op->owner);
    u->conversation_id = arena_str(&u->chunks, op->conversation_id);
    u->task_id = arena_str(&u->chunks, op->task_id);
    u->file_id = arena_str(&u->chunks, op->key);
    memory_rows_add(&m->file_uses, u);
}

void memory_files_expire(struct memory *m, const struct op *op)
{
    for (size_t i = 0; i < m->files.n; i++) {
        struct mem_file *f = m->files.at[i];
        if (f->state == FILE_NEW && f->record.created_at < op->at)
            f->state = FILE_GONE;
    }
}

void memory_files_remove(struct memory *m, const struct op *op)
{
    for (size_t i = m->files.n; i-- > 0;) {
        struct mem_file *f = m->files.at[i];
        if (f->state != FILE_GONE || !str_eq(f->record.blob, op->key))
            continue;
        file_free(f);
        memory_rows_remove(&m->files, i);
    }
}

void memory_files_delete(struct memory *m, const struct op *op)
{
    bool of_task = op->kind == OP_TASK_REMOVE;
    struct rows had = {0}; /* files that the task names */
    for (size_t i = 0; i < m->files.n; i++) {
        struct mem_file *f = m->files.at[i];
        if (str_eq(f->record.owner, op->owner) &&
            str_eq(f->record.conversation_id, op->conversation_id) &&
            (!of_task || has_use(m, op, op->task_id, f->record.file_id)))
            memory_rows_add(&had, f);
    }
    for (size_t i = m->file_uses.n; i-- > 0;) {
        if (!use_is(m->file_uses.at[i], op, of_task ? op->task_id : STR_NULL, STR_NULL))
            continue;
        use_free(m->file_uses.at[i]);
        memory_rows_remove(&m->file_uses, i);
    }
    for (size_t i = 0; i < had.n; i++) {
        struct mem_file *f = had.at[i];
        if (!has_use(m, op, STR_NULL, f->record.file_id))
            f->state = FILE_GONE;
    }
    free(had.at);
}

void memory_files_done(struct memory *m)
{
    for (size_t i = 0; i < m->files.n; i++)
        file_free(m->files.at[i]);
    for (size_t i = 0; i < m->file_uses.n; i++)
        use_free(m->file_uses.at[i]);
    free(m->files.at);
    free(m->file_uses.at);
}

/* --- asking ----------------------------------------------------------------------------------- */

static bool is_asked(const struct mem_file *f, const struct query *q)
{
    const struct file_record *r = &f->record;
    if ((f->state == FILE_GONE) != (q->kind == QUERY_FILES_GONE))
        return false;
    if (q->kind == QUERY_FILES_GONE)
        return query_has_slot(q, r->owner);
    if (q->kind == QUERY_BLOB)
        return str_eq(r->blob, q->key);
    return str_eq(r->owner, q->owner) && str_eq(r->conversation_id, q->conversation_id) &&
           str_eq(q->kind == QUERY_FILE ? r->file_id : r->upload, q->key);
}

static bool shares(const struct memory *m, const struct file_record *r)
{
    for (size_t i = 0; i < m->files.n; i++) {
        const struct mem_file *f = m->files.at[i];
        if (f->state != FILE_GONE && str_eq(f->record.blob, r->blob))
            return true;
    }
    return false;
}

static int by_blob(const void *a, const void *b)
{
    const struct mem_file *x = *(void *const *)a, *y = *(void *const *)b;
    return str_order(x->record.blob, y->record.blob);
}

int memory_ask_files(const struct memory *m, const struct query *q, struct answer *ret)
{
    struct rows found = {0};
    bool one = q->kind != QUERY_FILES_GONE;
    for (size_t i = 0; i < m->files.n; i++)
        if (is_asked(m->files.at[i], q) && !(one && found.n))
            memory_rows_add(&found, m->files.at[i]);
    if (found.n)
        qsort(found.at, found.n, sizeof *found.at, by_blob);
    for (size_t i = 0; i < found.n && !ret->more; i++) {
        const struct file_record *r = &((struct mem_file *)found.at[i])->record;
        if (ret->n_files && str_eq(ret->files[ret->n_files - 1].blob, r->blob))
            continue;
        ret->more = !query_has_room(q, ret->n_files, 0, 0);
        if (ret->more)
            break;
        struct file_record *to = answer_add_file(ret);
        *to = file_copy(&ret->chunks, r);
        to->shares = !one && shares(m, r);
    }
    free(found.at);
    return one && ret->n_files == 0 ? STORE_NOT_FOUND : STORE_OK;
}
