#include "proto/schedule.h"

/* A node's text with its quotes. */
static struct str whole_of(const struct js_doc *doc, uint32_t node)
{
    struct str raw = js_raw(doc, node);
    return js_type(doc, node) == JS_STRING ? (struct str){raw.p - 1, raw.n + 2} : raw;
}

static void schedule_put_member(struct buf *out, struct str name_json, struct str json)
{
    if (out->bytes[out->len - 1] != '{')
        buf_putc(out, ',');
    buf_putstr(out, name_json);
    buf_putc(out, ':');
    buf_putstr(out, json);
}

static bool is_replaced(const struct js_doc *doc, uint32_t key,
                        const struct schedule_member *members, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (js_is(doc, key, members[i].name))
            return true;
    return false;
}

void schedule_patch(struct js_doc *doc, struct str object, const struct schedule_member *members,
                    size_t n, struct buf *out)
{
    buf_putc(out, '{');
    bool given = object.p && js_parse(doc, object.p, object.n, JS_OURS);
    for (uint32_t i = given ? js_first(doc, 0) : 0; given && i < js_end(doc, 0);
         i = js_next(doc, i + 1))
        if (!is_replaced(doc, i, members, n))
            schedule_put_member(out, whole_of(doc, i), whole_of(doc, i + 1));
    for (size_t i = 0; i < n; i++) {
        if (!members[i].json.p)
            continue;
        struct buf name = {0};
        js_put_str(&name, str_of(members[i].name));
        schedule_put_member(out, buf_str(&name), members[i].json);
        buf_done(&name);
    }
    buf_putc(out, '}');
}

static int64_t number(const struct js_doc *doc, const char *name)
{
    int64_t n;
    uint32_t node = js_get(doc, 0, name);
    return node && js_int(doc, node, &n) && n > 0 ? n : 0;
}

/* The characters of both kinds of text that come here need no escape. */
static struct str text(const struct js_doc *doc, const char *name)
{
    uint32_t node = js_get(doc, 0, name);
    return node && js_type(doc, node) == JS_STRING ? js_raw(doc, node) : STR_NULL;
}

static bool is_true(const struct js_doc *doc, const char *name)
{
    uint32_t node = js_get(doc, 0, name);
    return node && js_type(doc, node) == JS_TRUE;
}

bool schedule_times_read(struct js_doc *doc, struct str object, struct schedule_times *ret)
{
    *ret = (struct schedule_times){0};
    if (!js_parse(doc, object.p, object.n, JS_OURS) || js_type(doc, 0) != JS_OBJECT)
        return false;
    uint32_t chat = js_get(doc, 0, "chat");
    if (!chat || js_type(doc, chat) != JS_OBJECT)
        return false;
    *ret = (struct schedule_times){.created_at = number(doc, "created_at"),
                                   .not_before = number(doc, "not_before"),
                                   .next_at = number(doc, "next_at"),
                                   .every_ms = number(doc, "every_s") * 1000,
                                   .cron = text(doc, "cron"),
                                   .time_zone = text(doc, "time_zone"),
                                   .chat = whole_of(doc, chat),
                                   .catch_up = is_true(doc, "catch_up"),
                                   .paused = is_true(doc, "paused")};
    return true;
}

static int64_t next_by_cron(const struct schedule_times *t, const struct tz *zone, int64_t after)
{
    struct cron c;
    const char *why;
    if (!cron_parse(t->cron, &c, &why))
        return 0;
    int64_t from = t->not_before && t->not_before - 1 > after ? t->not_before - 1 : after;
    int64_t at = cron_next(&c, zone, from / 1000 - (from % 1000 < 0));
    return at > 0 ? at * 1000 : 0;
}

/* Counted from where it begins, so that no delay adds up. */
static int64_t next_in_steps(const struct schedule_times *t, int64_t after)
{
    int64_t first = t->not_before ? t->not_before : t->created_at + t->every_ms;
    if (after < first)
        return first;
    return first + ((after - first) / t->every_ms + 1) * t->every_ms;
}

int64_t schedule_next(const struct schedule_times *t, const struct tz *zone, int64_t after)
{
    if (t->paused)
        return 0;
    if (t->cron.p)
        return next_by_cron(t, zone, after);
    if (t->every_ms)
        return next_in_steps(t, after);
    return t->not_before > after ? t->not_before : 0;
}

void schedule_put_chat(struct js_doc *doc, struct str chat, struct str schedule_id, struct buf *out)
{
    struct buf id = {0}, metadata = {0};
    js_put_str(&id, schedule_id);
    bool is_sound = js_parse(doc, chat.p, chat.n, JS_OURS);
    uint32_t node = is_sound ? js_get(doc, 0, "metadata") : 0;
    struct str given = node && js_type(doc, node) == JS_OBJECT ? whole_of(doc, node) : STR("{}");
    schedule_patch(doc, given, &(struct schedule_member){"schedule_id", buf_str(&id)}, 1,
                   &metadata);
    schedule_patch(doc, chat, &(struct schedule_member){"metadata", buf_str(&metadata)}, 1, out);
    buf_done(&id);
    buf_done(&metadata);
}
