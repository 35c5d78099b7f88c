/* request_kit -- one decoded request, or its fault, fresh for each test.
 *
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_REQUEST_KIT_H
#define TESTS_SUPPORT_REQUEST_KIT_H

#include "proto/request.h"
#include "tests/support/t.h"

static struct js_doc doc;
static struct request request;
static struct request_fault fault;

static inline int teardown(void **state)
{
    (void)state;
    request_done(&request);
    js_done(&doc);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

#endif
