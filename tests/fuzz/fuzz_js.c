/* Any bytes, read in both modes. Any value that was read copies to valid UTF-8 that reads again,
 * and a copy of the copy is the copy; what client mode takes, agent mode takes too, and copies the
 * same. */
#include "proto/js.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct js_doc doc, again;

static bool copy(const uint8_t *data, size_t size, enum js_flags flags, struct buf *out)
{
    if (!js_parse(&doc, (const char *)data, size, flags)) {
        ASSERT(doc.error && doc.error_at <= size);
        ASSERT(doc.n_nodes == 0 || doc.error == js_duplicate_key);
        return false;
    }
    ASSERT(doc.nodes[0].next == doc.n_nodes);
    js_copy(&doc, 0, out);
    return true;
}

static void check_copy(struct str text, enum js_flags flags)
{
    struct buf twice = {0};
    ASSERT(utf8_valid(text));
    bool ok = js_parse(&again, text.p, text.n, flags & ~(unsigned)JS_REPAIR_UTF8);
    ASSERT(ok);
    js_copy(&again, 0, &twice);
    ASSERT(str_eq(buf_str(&twice), text));
    ASSERT(again.n_nodes == doc.n_nodes);
    buf_done(&twice);
}

/* A string's value, written as a string, is its copy. */
static void check_values(void)
{
    struct buf value = {0}, written = {0}, copied = {0};
    for (uint32_t i = 0; i < doc.n_nodes; i++) {
        double number;
        int64_t integer;
        if (js_int(&doc, i, &integer))
            ASSERT(js_double(&doc, i, &number));
        if (js_type(&doc, i) != JS_STRING)
            continue;
        buf_clear(&value);
        buf_clear(&written);
        buf_clear(&copied);
        js_value(&doc, i, &value);
        js_put_str(&written, buf_str(&value));
        js_copy(&doc, i, &copied);
        ASSERT(utf8_valid(buf_str(&value)));
        ASSERT(str_eq(buf_str(&written), buf_str(&copied)));
        ASSERT(strlen(buf_str(&value).p) != value.len || js_is(&doc, i, buf_str(&value).p));
    }
    buf_done(&value);
    buf_done(&written);
    buf_done(&copied);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf strict = {0}, lenient = {0};
    bool is_strict = copy(data, size, JS_CLIENT, &strict);
    if (is_strict)
        check_copy(buf_str(&strict), JS_CLIENT);
    bool is_lenient = copy(data, size, JS_AGENT, &lenient);
    ASSERT(is_lenient || !is_strict);
    if (is_lenient) {
        check_copy(buf_str(&lenient), JS_AGENT);
        check_values();
    }
    if (is_strict)
        ASSERT(str_eq(buf_str(&strict), buf_str(&lenient)));
    buf_done(&strict);
    buf_done(&lenient);
    return 0;
}
