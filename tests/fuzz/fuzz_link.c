/* Any bytes as frames of another node: what is read is within the bytes, and is the same when it is
 * written and read again; a request in one is read or refused. */
#include "proto/link.h"
#include "proto/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct js_doc doc;

static void check_span(struct str s, const uint8_t *data, size_t size)
{
    if (!s.n)
        return;
    ASSERT(s.p >= (const char *)data && s.p + s.n <= (const char *)data + size);
}

static void check_again(const struct link_frame *f)
{
    struct link_frame again;
    struct buf out = {0};
    link_put(&out, f);
    struct str bytes = buf_str(&out);
    ASSERT(link_read(&bytes, LINK_MOST, &again) == LINK_READ && bytes.n == 0);
    ASSERT(again.kind == f->kind && again.id == f->id && again.flags == f->flags);
    ASSERT(again.number[0] == f->number[0] && again.number[1] == f->number[1]);
    for (int i = 0; i < LINK_TEXTS; i++)
        ASSERT(str_eq(again.text[i], f->text[i]));
    ASSERT(str_eq(again.bytes, f->bytes));
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str bytes = {(const char *)data, size};
    struct link_frame f;
    while (link_read(&bytes, LINK_MOST, &f) == LINK_READ) {
        struct request req;
        struct request_fault fault;
        for (int i = 0; i < LINK_TEXTS; i++)
            check_span(f.text[i], data, size);
        check_span(f.bytes, data, size);
        check_again(&f);
        if (f.kind == LINK_REQUEST && request_decode(&doc, f.bytes, false, &req, &fault))
            request_done(&req);
    }
    return 0;
}
