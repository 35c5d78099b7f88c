/* A client's message in parts: our form of it reads as itself, and says the same. */
#include "proto/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct js_doc doc = {0}, other = {0};
    struct buf once = {0}, twice = {0}, text = {0};
    if (js_parse(&doc, (const char *)data, size, JS_ANY_NUMBER) && parts_read(&doc, 0, &once)) {
        parts_put_text(&doc, 0, &text);
        ASSERT(text.len <= size && once.len <= MAX_PARTS_BYTES);
        ASSERT(js_parse(&doc, once.bytes, once.len, JS_OURS) && parts_read(&doc, 0, &twice));
        ASSERT(str_eq(buf_str(&once), buf_str(&twice)));
        ASSERT(parts_equal(&doc, &other, buf_str(&once), buf_str(&twice)));
    }
    buf_clear(&text);
    (void)base64_read((struct str){(const char *)data, size}, &text);
    js_done(&doc);
    js_done(&other);
    buf_done(&once);
    buf_done(&twice);
    buf_done(&text);
    return 0;
}
