/* A head's words about a file: Content-Disposition, Content-Type, Range. */
#include "proto/file_head.h"
#include "proto/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct buf name = {0}, again = {0}, told = {0}, type = {0};
    int64_t from = 0, n = 0, most = size > 0 ? data[0] : 0;
    if (disposition_read(text, &name)) {
        ASSERT(name.len <= MAX_FILE_NAME && utf8_valid(buf_str(&name)));
        disposition_put(&told, false, buf_str(&name));
        ASSERT(disposition_read(buf_str(&told), &again) && str_eq(buf_str(&name), buf_str(&again)));
    }
    if (media_type_read(text, &type))
        ASSERT(type.len <= MAX_MEDIA_TYPE);
    if (range_read(text, most, &from, &n) != RANGE_NONE)
        ASSERT(from >= 0 && n >= 0 && from + n <= most);
    (void)image_type(text);
    buf_done(&name);
    buf_done(&again);
    buf_done(&told);
    buf_done(&type);
    return 0;
}
