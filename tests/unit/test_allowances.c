/* The set of what is allowed for a conversation, against a plain list; the answers of approvals. */
#include "core/allowances.h"

#include "core/approval.h"
#include "tests/support/t.h"

#define MODEL_MAX 512

static const uint64_t secret[2] = {1, 2};
static const char *const owners[] = {"ann", "bob", "an"};
static const char *const conversations[] = {"c", "nc", "d"}; /* "an" "nc" is not "ann" "c" */
static const char *const keys[] = {"terminal ls", "terminal l", "process ls", "mcp 0 a/b"};

struct model_entry {
    unsigned owner, conversation, key;
};

static struct model_entry model[MODEL_MAX];
static size_t n_model;

static bool model_has(const struct model_entry *e)
{
    for (size_t i = 0; i < n_model; i++)
        if (memcmp(&model[i], e, sizeof *e) == 0)
            return true;
    return false;
}

static void model_drop(bool (*is_meant)(const struct model_entry *e, const struct model_entry *by),
                       const struct model_entry *by)
{
    size_t n = 0;
    for (size_t i = 0; i < n_model; i++)
        if (!is_meant(&model[i], by))
            model[n++] = model[i];
    n_model = n;
}

static bool in_conversation(const struct model_entry *e, const struct model_entry *by)
{
    return e->owner == by->owner && e->conversation == by->conversation;
}

static bool of_owner(const struct model_entry *e, const struct model_entry *by)
{
    return e->owner == by->owner;
}

static void step(struct allowances *a, unsigned what, const struct model_entry *e)
{
    struct str owner = str_of(owners[e->owner]);
    struct slots slots = {0};
    if (what < 7) {
        allowances_add(a, owner, str_of(conversations[e->conversation]), str_of(keys[e->key]));
        if (!model_has(e))
            model[n_model++] = *e;
    } else if (what < 9) {
        allowances_forget(a, owner, str_of(conversations[e->conversation]));
        model_drop(in_conversation, e);
    } else {
        slots_add(&slots, slot_of(owner));
        allowances_forget_slots(a, &slots);
        model_drop(of_owner, e);
    }
}

static void compare(const struct allowances *a)
{
    for (unsigned i = 0; i < countof(owners) * countof(conversations) * countof(keys); i++) {
        struct model_entry e = {i % countof(owners), i / countof(owners) % countof(conversations),
                                i / countof(owners) / countof(conversations)};
        assert_int_equal(allowances_have(a, str_of(owners[e.owner]),
                                         str_of(conversations[e.conversation]),
                                         str_of(keys[e.key])),
                         model_has(&e));
    }
}

static void test_allowances_are_a_set_of_owner_conversation_and_key(void **state)
{
    struct allowances a;
    uint64_t random = 7;
    (void)state;
    n_model = 0;
    allowances_init(&a, secret);
    for (int i = 0; i < 5000; i++) {
        struct model_entry e = {(unsigned)(t_random(&random) % countof(owners)),
                                (unsigned)(t_random(&random) % countof(conversations)),
                                (unsigned)(t_random(&random) % countof(keys))};
        step(&a, (unsigned)(t_random(&random) % 10), &e);
        compare(&a);
    }
    allowances_done(&a);
}

static void add_number(struct allowances *a, unsigned n)
{
    char key[32];
    snprintf(key, sizeof key, "terminal p%u", n);
    allowances_add(a, STR("ann"), STR("c"), str_of(key));
}

static bool has_number(const struct allowances *a, unsigned n)
{
    char key[32];
    snprintf(key, sizeof key, "terminal p%u", n);
    return allowances_have(a, STR("ann"), STR("c"), str_of(key));
}

static void test_one_too_many_forgets_the_oldest(void **state)
{
    struct allowances a;
    (void)state;
    allowances_init(&a, secret);
    for (unsigned i = 0; i < ALLOWANCES; i++)
        add_number(&a, i);
    add_number(&a, 0); /* it is there, and stays the oldest */
    assert_true(has_number(&a, 0) && has_number(&a, ALLOWANCES - 1));
    add_number(&a, ALLOWANCES);
    add_number(&a, ALLOWANCES + 1);
    assert_false(has_number(&a, 0) || has_number(&a, 1));
    assert_true(has_number(&a, 2) && has_number(&a, ALLOWANCES + 1));
    assert_int_equal(a.all.n, ALLOWANCES);
    allowances_done(&a);
}

static void test_answers_that_approve(void **state)
{
    static const char *const no[] = {"false",
                                     "null",
                                     "\"reject\"",
                                     "\"true\"",
                                     "\"\"",
                                     "once",
                                     "\"once \"",
                                     "\"conversations\"",
                                     "{\"bytes\":70,\"fnv1a\":\"0123456789abcdef\"}"};
    (void)state;
    assert_int_equal(approval_read(STR("true")), APPROVED_ONCE);
    assert_int_equal(approval_read(STR("\"once\"")), APPROVED_ONCE);
    assert_int_equal(approval_read(STR("\"conversation\"")), APPROVED_CONVERSATION);
    for (size_t i = 0; i < countof(no); i++)
        assert_int_equal(approval_read(str_of(no[i])), APPROVED_NOT);
    assert_int_equal(approval_read(STR_NULL), APPROVED_NOT);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_allowances_are_a_set_of_owner_conversation_and_key),
        TEST(test_one_too_many_forgets_the_oldest),
        TEST(test_answers_that_approve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
