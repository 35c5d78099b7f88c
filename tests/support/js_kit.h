/* js_kit -- one document and its output, fresh for each test.
 *
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_JS_KIT_H
#define TESTS_SUPPORT_JS_KIT_H

#include "proto/js.h"
#include "tests/support/t.h"

static struct js_doc doc;
static struct buf out;

static inline int setup(void **state)
{
    (void)state;
    doc = (struct js_doc){0};
    out = (struct buf){0};
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    js_done(&doc);
    buf_done(&out);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static inline bool parse(const char *text, enum js_flags flags)
{
    return js_parse(&doc, text, strlen(text), flags);
}

static inline struct str copy_of(uint32_t node)
{
    buf_clear(&out);
    js_copy(&doc, node, &out);
    return buf_str(&out);
}

#endif
