#include "proto/watch_cursor.h"

#include "proto/base64url.h"
#include "proto/ulid.h"
#include "proto/varint.h"

/* A byte of the form, the epoch, the newest id, then the places: an id and a number each. */
#define FORM 1
#define ID_BYTES 16

_Static_assert((1 + VARINT_MAX + ID_BYTES + WATCH_CURSOR_TASKS * (ID_BYTES + 8)) * 4 / 3 + 3 <=
                   MAX_WATCH_CURSOR,
               "all places fit");

static void put_id(struct buf *out, const char *id)
{
    uint8_t bytes[ID_BYTES];
    bool is_id = ulid_read((struct str){id, TASK_ID_LEN}, bytes);
    ASSERT(is_id);
    buf_put(out, bytes, sizeof bytes);
}

static void cursor_put_number(struct buf *out, uint64_t n)
{
    unsigned char bytes[VARINT_MAX];
    buf_put(out, bytes, (size_t)(varint_put(bytes, n) - bytes));
}

void watch_cursor_write(const struct watch_cursor *c, struct buf *out)
{
    struct buf bytes = {0};
    buf_putc(&bytes, FORM);
    cursor_put_number(&bytes, c->epoch);
    put_id(&bytes, c->newest);
    for (size_t i = 0; i < c->n_places; i++) {
        put_id(&bytes, c->places[i].task_id);
        cursor_put_number(&bytes, c->places[i].seq);
    }
    base64url_put(out, bytes.bytes, bytes.len);
    buf_done(&bytes);
}

static bool take_id(struct str *from, char ret_id[TASK_ID_LEN + 1])
{
    if (from->n < ID_BYTES)
        return false;
    ulid_write((const uint8_t *)from->p, ret_id);
    from->p += ID_BYTES;
    from->n -= ID_BYTES;
    return true;
}

static bool take_all(struct str from, struct watch_cursor *ret)
{
    if (from.n == 0 || *from.p != FORM)
        return false;
    from = (struct str){from.p + 1, from.n - 1};
    if (!varint_take(&from, &ret->epoch) || ret->epoch > MAX_SAFE_INTEGER ||
        !take_id(&from, ret->newest))
        return false;
    while (from.n > 0) {
        if (ret->n_places == WATCH_CURSOR_TASKS)
            return false;
        struct watch_place *place = &ret->places[ret->n_places++];
        if (!take_id(&from, place->task_id) || !varint_take(&from, &place->seq) ||
            place->seq > MAX_SAFE_INTEGER)
            return false;
    }
    return true;
}

bool watch_cursor_read(struct str text, struct watch_cursor *ret)
{
    struct buf bytes = {0};
    *ret = (struct watch_cursor){0};
    bool good = base64url_read(text, &bytes) && take_all(buf_str(&bytes), ret);
    buf_done(&bytes);
    return good;
}
