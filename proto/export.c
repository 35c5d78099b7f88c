#include "proto/export.h"

#include "proto/parts.h"

#define MAX_SOURCE_ID 128 /* bytes of an id, whoever made it */

void export_line_done(struct export_line *line)
{
    for (size_t i = 0; i < countof(line->texts); i++)
        buf_done(&line->texts[i]);
}

static struct buf *next_text(struct export_line *line)
{
    ASSERT(line->n_texts < countof(line->texts));
    struct buf *text = &line->texts[line->n_texts++];
    buf_clear(text);
    return text;
}

/* An absent or null member is STR_NULL; false for one that is no string, or too long. */
static bool export_text(const struct js_doc *doc, uint32_t object, const char *name, size_t most,
                        struct export_line *line, struct str *ret)
{
    uint32_t node = js_get(doc, object, name);
    *ret = STR_NULL;
    if (!node || js_type(doc, node) == JS_NULL)
        return true;
    if (js_type(doc, node) != JS_STRING)
        return false;
    struct buf *text = next_text(line);
    js_value(doc, node, text);
    *ret = text->len ? buf_str(text) : STR("");
    return text->len <= most;
}

static bool export_id(const struct js_doc *doc, uint32_t object, const char *name,
                      struct export_line *line, struct str *ret)
{
    return export_text(doc, object, name, MAX_SOURCE_ID, line, ret) && (!ret->p || ret->n > 0);
}

static bool export_time(const struct js_doc *doc, uint32_t object, const char *name, int64_t *ret)
{
    uint32_t node = js_get(doc, object, name);
    *ret = 0;
    return !node || (js_type(doc, node) == JS_NUMBER && js_int(doc, node, ret) && *ret >= 0 &&
                     *ret <= MAX_SAFE_INTEGER);
}

static bool export_role(const struct js_doc *doc, uint32_t object, enum message_role *ret)
{
    uint32_t node = js_get(doc, object, "role");
    for (int role = ROLE_USER; role <= ROLE_SYSTEM; role++) {
        *ret = (enum message_role)role;
        if (node && js_type(doc, node) == JS_STRING && js_is(doc, node, role_name(*ret)))
            return true;
    }
    return false;
}

/* Copies of each part only what a part has; a file keeps its name: its bytes may not be here. */
static bool export_parts(const struct js_doc *doc, uint32_t object, struct export_line *line,
                         struct str *ret)
{
    static const char *const members[] = {"type", "text", "file_id", "media_type", "name", "data"};
    uint32_t node = js_get(doc, object, "parts");
    struct buf checked = {0};
    *ret = STR_NULL;
    if (!node || js_type(doc, node) == JS_NULL)
        return true;
    bool good = js_type(doc, node) == JS_ARRAY && parts_read(doc, node, &checked);
    buf_done(&checked);
    if (!good)
        return false;
    struct buf *out = next_text(line);
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i)) {
        buf_puts(out, out->len ? ",{" : "[{");
        for (size_t m = 0; m < countof(members); m++) {
            uint32_t value = js_get(doc, i, members[m]);
            if (!value || js_type(doc, value) != JS_STRING)
                continue;
            js_put_key(out, members[m]);
            js_copy(doc, value, out);
        }
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    *ret = buf_str(out);
    return true;
}

static const char *read_export_message(const struct js_doc *doc, uint32_t node,
                                       struct export_line *line)
{
    struct message_record *m = &line->message;
    uint32_t partial = js_get(doc, node, "partial");
    *m = (struct message_record){.partial = partial && js_type(doc, partial) == JS_TRUE};
    if (!export_id(doc, node, "message_id", line, &m->message_id) || !m->message_id.p)
        return "\"message_id\" must be a string of 1 to 128 bytes";
    if (!export_id(doc, node, "parent_id", line, &m->parent_id))
        return "\"parent_id\" must be a string of 1 to 128 bytes";
    if (!export_id(doc, node, "task_id", line, &m->task_id))
        return "\"task_id\" must be a string of 1 to 128 bytes";
    if (!export_role(doc, node, &m->role))
        return "\"role\" must be \"user\", \"assistant\" or \"system\"";
    if (!export_text(doc, node, "content", SIZE_MAX, line, &m->content) || !m->content.p)
        return "\"content\" must be a string";
    if (!export_parts(doc, node, line, &m->parts))
        return "\"parts\" " PARTS_EXPECTED;
    if (!export_time(doc, node, "created_at", &m->created_at))
        return "\"created_at\" must be a time in Unix milliseconds";
    return NULL;
}

static void read_export_error(const struct js_doc *doc, uint32_t node, struct task_record *t,
                              struct export_line *line)
{
    uint32_t error = js_get(doc, node, "error");
    uint32_t code = error && js_type(doc, error) == JS_OBJECT ? js_get(doc, error, "code") : 0;
    t->state.error = TASK_INTERNAL;
    for (int e = TASK_AGENT_ERROR; code && e <= TASK_INTERNAL; e++)
        if (js_type(doc, code) == JS_STRING &&
            js_is(doc, code, task_error_code((enum task_error)e)))
            t->state.error = (enum task_error)e;
    if (!code || !export_text(doc, error, "message", MAX_OUTPUT, line, &t->state.error_message) ||
        !t->state.error_message.p)
        t->state.error_message = str_of(task_error_code(t->state.error));
}

static const char *read_export_task(const struct js_doc *doc, uint32_t node,
                                    struct export_line *line)
{
    struct task_record *t = &line->task;
    struct str status;
    *t = (struct task_record){0};
    if (!export_id(doc, node, "task_id", line, &t->task_id) || !t->task_id.p)
        return "\"task_id\" must be a string of 1 to 128 bytes";
    if (!export_text(doc, node, "agent", MAX_NAME, line, &t->agent))
        return "\"agent\" must be a string of at most 128 bytes";
    if (!export_text(doc, node, "status", MAX_NAME, line, &status) || !status.p ||
        !status_find(status, &t->state.status))
        return "\"status\" must be the status of a task";
    if (t->state.status == STATUS_FAILED)
        read_export_error(doc, node, t, line);
    return NULL;
}

static const char *read_export_conversation(const struct js_doc *doc, uint32_t node, uint32_t line_,
                                            struct export_line *line)
{
    uint32_t version = js_get(doc, line_, "version"), branch = js_get(doc, line_, "branch");
    int64_t n = 0;
    if (!version || js_type(doc, version) != JS_NUMBER || !js_int(doc, version, &n) ||
        n != EXPORT_VERSION)
        return "\"version\" must be 1";
    if (!export_text(doc, node, "title", MAX_TITLE, line, &line->title))
        return "\"title\" must be a string of at most 512 bytes";
    if (branch && js_type(doc, branch) == JS_OBJECT &&
        !export_id(doc, branch, "message_id", line, &line->tip))
        return "\"message_id\" must be a string of 1 to 128 bytes";
    return NULL;
}

const char *export_line_read(const struct js_doc *doc, uint32_t node, struct export_line *ret)
{
    static const char *const kinds[] = {[EXPORT_CONVERSATION] = "conversation",
                                        [EXPORT_MESSAGE] = "message",
                                        [EXPORT_TASK] = "task"};
    uint32_t type = js_type(doc, node) == JS_OBJECT ? js_get(doc, node, "type") : 0;
    uint32_t object = 0;
    ret->kind = EXPORT_OTHER;
    ret->n_texts = 0;
    ret->title = ret->tip = STR_NULL;
    if (!type || js_type(doc, type) != JS_STRING)
        return "it must be an object with a string \"type\"";
    for (int kind = EXPORT_CONVERSATION; kind <= EXPORT_TASK && !object; kind++) {
        if (!js_is(doc, type, kinds[kind]))
            continue;
        ret->kind = (enum export_kind)kind;
        object = js_get(doc, node, kinds[kind]);
        if (!object || js_type(doc, object) != JS_OBJECT)
            return "it must have the object that \"type\" names";
    }
    switch (ret->kind) {
    case EXPORT_OTHER: return NULL;
    case EXPORT_CONVERSATION: return read_export_conversation(doc, object, node, ret);
    case EXPORT_MESSAGE: return read_export_message(doc, object, ret);
    case EXPORT_TASK: return read_export_task(doc, object, ret);
    }
    UNREACHABLE();
}
