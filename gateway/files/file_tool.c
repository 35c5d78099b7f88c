/* A file of a program's: read, stored, and then told.  The key is that of the call, so a call that
 * a restart cut short gives the file that is there, or begins again. */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/files/save.h"
#include "gateway/files/upload.h"
#include "proto/file_head.h"
#include "proto/utf8.h"

struct tool_job {
    struct file_save *save;
    tool_done_fn done;
    void *user;
};

static void file_saved(void *user, const char *why, struct str file)
{
    struct tool_job *job = user;
    job->done(job->user, why == NULL, why ? str_of(why) : file);
}

static void file_tool_stop(struct tool_job *job)
{
    save_drop(job->save);
    free(job);
}

static struct str file_tool_text(const struct js_doc *doc, const char *name, struct buf *out)
{
    uint32_t node = js_get(doc, 0, name);
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, out);
    return buf_str(out);
}

static bool file_name_is_good(struct str name)
{
    bool good = name.n <= MAX_FILE_NAME && utf8_valid(name);
    for (size_t i = 0; good && i < name.n; i++)
        good = (unsigned char)name.p[i] >= ' ' && name.p[i] != 0x7f && name.p[i] != '/' &&
               name.p[i] != '\\';
    return good;
}

/* NULL, or what is wrong. */
static const char *read_plan(const struct js_doc *doc, struct buf texts[3], struct buf *type,
                             struct file_plan *plan)
{
    plan->path = file_tool_text(doc, "path", &texts[0]);
    plan->name = file_tool_text(doc, "name", &texts[1]);
    struct str media_type = file_tool_text(doc, "media_type", &texts[2]);
    if (plan->path.n == 0 || plan->path.p[0] != '/' || memchr(plan->path.p, 0, plan->path.n))
        return "\"path\" must be an absolute path";
    if (!file_name_is_good(plan->name))
        return "\"name\" must be at most 255 bytes without a slash";
    if (media_type.n && !media_type_read(media_type, type))
        return "\"media_type\" is no media type of at most 127 bytes";
    plan->media_type = buf_str(type);
    if (plan->name.n == 0) {
        size_t at = plan->path.n;
        while (plan->path.p[at - 1] != '/')
            at--;
        plan->name = (struct str){plan->path.p + at, plan->path.n - at};
    }
    if (!file_name_is_good(plan->name))
        plan->name = STR("");
    return NULL;
}

static struct tool_job *file_tool_start(const struct tool *tool, const struct tool_caller *caller,
                                        struct str arguments, tool_done_fn done, void *user,
                                        struct buf *out)
{
    struct js_doc doc = {0};
    struct buf texts[3] = {0}, type = {0};
    char key[MAX_UPLOAD_KEY];
    struct tool_job *job = NULL;
    int n = snprintf(key, sizeof key, "file/%.*s/%.*s", (int)caller->task_id.n, caller->task_id.p,
                     (int)caller->call.n, caller->call.p);
    struct file_plan plan = {.owner = caller->owner,
                             .conversation_id = caller->conversation_id,
                             .key = {key, (size_t)n}};
    const char *wrong = js_parse(&doc, arguments.p, arguments.n, JS_OURS)
                            ? read_plan(&doc, texts, &type, &plan)
                            : "the arguments are no JSON";
    if (wrong) {
        buf_puts(out, wrong);
    } else {
        job = xcalloc(sizeof *job);
        *job = (struct tool_job){.done = done, .user = user};
        job->save = save_begin(tool->settings, &plan, file_saved, job);
    }
    for (size_t i = 0; i < countof(texts); i++)
        buf_done(&texts[i]);
    buf_done(&type);
    js_done(&doc);
    return job;
}

void file_tool_init(struct tool *tool, struct files *files)
{
    *tool = (struct tool){.name = "file",
                          .description = "Gives the user a file.",
                          .parameters = "{\"type\":\"object\"}",
                          .start = file_tool_start,
                          .stop = file_tool_stop,
                          .again = TOOL_ATTACH,
                          .attach = file_tool_start,
                          .gives_file = true,
                          .settings = files};
}
