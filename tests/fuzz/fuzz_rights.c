/* The claim that narrows a token: what is taken reads as itself, and lets nobody do more than one
 * of its entries says. */
#include "proto/rights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The page's words, without the code's shortcuts: every need is in entries that fit. */
static bool is_said(const struct rights *r, struct str conversation, unsigned need)
{
    unsigned has = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct str name = r->scopes[i].name;
        bool begins = name.n <= conversation.n && memcmp(name.p, conversation.p, name.n) == 0;
        if (!r->scopes[i].task_id.p && begins &&
            (r->scopes[i].is_prefix || name.n == conversation.n))
            has |= r->scopes[i].rights;
    }
    return need && (has & need) == need;
}

static void check(const struct rights *r)
{
    for (size_t i = 0; i < r->n; i++)
        for (unsigned need = 0; need < 16; need++) {
            struct str name = r->scopes[i].name;
            bool said = r->whole || is_said(r, name, need);
            ASSERT(rights_allow(r, name, STR_NULL, need) == said);
            said = r->whole || is_said(r, STR("another-1"), need);
            ASSERT(rights_allow(r, STR("another-1"), STR_NULL, need) == said);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct js_doc doc = {0};
    struct rights *r = NULL, *again;
    if (js_parse(&doc, (const char *)data, size, JS_ANY_NUMBER) && js_type(&doc, 0) == JS_OBJECT)
        r = rights_read(&doc, 0, STR_NULL);
    if (r) {
        ASSERT(r->n <= MAX_SCOPES && r->actor.n <= MAX_ACTOR);
        check(r);
        ASSERT(js_parse(&doc, r->json.p, r->json.n, JS_OURS));
        again = rights_read(&doc, 0, STR_NULL);
        ASSERT(again && rights_equal(r, again));
        rights_unref(again);
    }
    rights_unref(r);
    js_done(&doc);
    return 0;
}
