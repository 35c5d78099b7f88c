/* A cursor that a watcher hands back, as text, or as the bytes of one: if it is taken, it is
 * written again as a text of the allowed length, which says the same. */
#include "proto/base64url.h"
#include "proto/watch_cursor.h"

static bool same(const struct watch_cursor *a, const struct watch_cursor *b)
{
    bool good = a->epoch == b->epoch && a->n_places == b->n_places && !strcmp(a->newest, b->newest);
    for (size_t i = 0; good && i < a->n_places; i++)
        good = a->places[i].seq == b->places[i].seq &&
               !strcmp(a->places[i].task_id, b->places[i].task_id);
    return good;
}

static void check(struct str text)
{
    struct watch_cursor first, again;
    struct buf out = {0};
    if (!watch_cursor_read(text, &first))
        return;
    ASSERT(first.n_places <= WATCH_CURSOR_TASKS && first.epoch <= MAX_SAFE_INTEGER);
    watch_cursor_write(&first, &out);
    ASSERT(out.len <= MAX_WATCH_CURSOR);
    ASSERT(watch_cursor_read(buf_str(&out), &again) && same(&first, &again));
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf text = {0};
    check((struct str){(const char *)data, size});
    base64url_put(&text, data, size);
    check(buf_str(&text));
    buf_done(&text);
    return 0;
}
