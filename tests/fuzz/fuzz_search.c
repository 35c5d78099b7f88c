/* A query and a text, cut at the first newline: what is found is marked inside what is shown. */
#include "proto/js.h"
#include "proto/search.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *cut = memchr(data, '\n', size);
    size_t n = cut ? (size_t)(cut - (const char *)data) : size;
    struct str query = {(const char *)data, n}, text = {"", 0};
    struct search s;
    if (cut)
        text = (struct str){cut + 1, size - n - 1};
    if (query.n <= MAX_SEARCH && search_read(query, &s)) {
        bool found = search_finds(&s, text);
        struct buf out = {0};
        buf_putc(&out, '{');
        search_put(&s, text, &out);
        buf_putc(&out, '}');
        struct js_doc doc = {0};
        ASSERT(js_parse(&doc, out.bytes, out.len, JS_OURS));
        ASSERT(!found || doc.nodes[js_get(&doc, 0, "matches")].kids > 0);
        js_done(&doc);
        buf_done(&out);
        search_done(&s);
    }
    return 0;
}
