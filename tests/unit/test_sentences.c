#include "proto/sentences.h"

#include "proto/errors.h"
#include "tests/support/t.h"

static struct str detail(const char *code, const char *message)
{
    return sentence_detail(str_of(code), str_of(message));
}

static void assert_detail(const char *code, const char *message, const char *wanted)
{
    struct str got = detail(code, message);
    assert_int_equal(got.n, strlen(wanted));
    assert_memory_equal(got.p, wanted, got.n);
}

static void test_every_code_and_reason_of_the_wire_has_a_sentence_of_its_own(void **state)
{
    (void)state;
    static const char *const words[] = {
#define X(name, code, ...) code,
        ERROR_TABLE(X) TASK_ERROR_TABLE(X) MODEL_REASON_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < countof(words); i++) {
        const char *said = sentence_of(STR(""), str_of(words[i]));
        assert_string_not_equal(said, "Something went wrong.");
        assert_int_equal(said[strlen(said) - 1], '.');
        for (size_t j = 0; j < i; j++)
            if (strcmp(words[i], words[j]) != 0)
                assert_string_not_equal(said, sentence_of(STR(""), str_of(words[j])));
    }
    assert_string_equal(sentence_of(STR(""), STR("of_tomorrow")), "Something went wrong.");
}

static void test_reason_says_more_than_its_code(void **state)
{
    (void)state;
    assert_string_equal(sentence_of(STR("broke_off"), STR("agent_error")), "The answer broke off.");
    assert_string_equal(sentence_of(STR("of_tomorrow"), STR("agent_error")),
                        "The assistant broke off.");
    assert_string_equal(sentence_of(STR_NULL, STR("timeout")),
                        "It took too long, and was stopped.");
}

static void test_detail_is_what_the_sentence_does_not_say(void **state)
{
    (void)state;
    assert_detail("agent_error", "agent_error: exit status 3", "exit status 3");
    assert_detail("agent_error", "agent_error: model: no route to host", "model: no route to host");
    assert_detail("bad_request", "\"agent\" names no agent", "\"agent\" names no agent");
    assert_detail("cancelled", "cancelled", "");
    assert_detail("cancelled", "", "");
    assert_detail("agent_error", "agent_error:", "");
}

static void test_words_of_a_gateway_that_keeps_its_details_are_none(void **state)
{
    (void)state;
    assert_detail("agent_error", "agent_error: the agent broke off", "");
    assert_detail("orphaned", "orphaned: the agent could not go on", "");
    for (int reason = MODEL_FAULT_OTHER; reason <= BROKE_OFF; reason++) {
        char message[160];
        snprintf(message, sizeof message, "agent_error: model: %s",
                 model_reason_text((enum model_reason)reason));
        assert_detail("agent_error", message, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_and_reason_of_the_wire_has_a_sentence_of_its_own),
        cmocka_unit_test(test_reason_says_more_than_its_code),
        cmocka_unit_test(test_detail_is_what_the_sentence_does_not_say),
        cmocka_unit_test(test_words_of_a_gateway_that_keeps_its_details_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
