/* The head of a request to the operator's console: whatever is passed on has its own bytes alone,
 * and reads again as the same request. */
#include "gateway/cli/console_head.h"
#include "proto/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str bytes = {(const char *)data, size};
    struct console_head head, again;
    struct buf out = {0};
    const char *why;
    if (!memmem(data, size, "\r\n\r\n", 4) || console_head_read(bytes, &head, &why) != 0)
        return 0;
    ASSERT(head.head_bytes <= size && head.length <= CONSOLE_BODY_MAX);
    if (console_head_check(&head, 1, &why) == 0)
        ASSERT(str_eq(head.host, STR("127.0.0.1:1")));
    console_head_put(&head, &out);
    ASSERT(console_head_read(buf_str(&out), &again, &why) == 0);
    ASSERT(again.head_bytes == out.len && again.length == head.length && !again.bearer.p);
    ASSERT(str_eq(again.method, head.method) && str_eq(again.path, head.path));
    ASSERT(str_eq(again.owner, head.owner) && str_eq(again.content_type, head.content_type));
    buf_done(&out);
    return 0;
}
