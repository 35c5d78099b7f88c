/* Files of the conversation, as /save and --save write them to this machine. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/cli/chat_path.h"
#include "gateway/cli/chat_private.h"
#include "gateway/cli/chat_transfer.h"
#include "proto/str.h"

#define SAME_NAMES 1000 /* files of one name in the folder of --save */

struct chat_saving {
    struct chat *chat;
    struct chat_transfer *transfer;
    char *path;
    struct chat_saving *next;
};

/* --- the known files -------------------------------------------------------------------------- */

size_t chat_save_know(struct chat *c, struct str id, struct str name, int64_t size)
{
    for (size_t i = 0; i < c->n_files; i++)
        if (str_eq(str_of(c->files[i].id), id))
            return i + 1;
    c->files = xrealloc(c->files, (c->n_files + 1) * sizeof *c->files);
    c->files[c->n_files++] = (struct chat_file){xstrdup(id), xstrdup(name), size};
    return c->n_files;
}

void chat_save_forget(struct chat *c)
{
    for (size_t i = 0; i < c->n_files; i++) {
        free(c->files[i].id);
        free(c->files[i].name);
    }
    c->n_files = 0;
}

void chat_save_list(struct chat *c)
{
    struct buf out = {0};
    for (size_t i = 0; i < c->n_files; i++)
        buf_putf(&out, "%s%zu  %s (%" PRId64 " bytes)", i ? "\n" : "", i + 1,
                 *c->files[i].name ? c->files[i].name : c->files[i].id, c->files[i].size);
    chat_show_aside(&c->show, "%s", out.len ? out.bytes : "this talk has no files yet");
    buf_done(&out);
}

/* --- one that is saved ------------------------------------------------------------------------ */

static void saving_end(struct chat_saving *s)
{
    struct chat_saving **at = &s->chat->saving;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    chat_transfer_free(s->transfer);
    free(s->path);
    free(s);
}

static void on_saved(void *arg, struct chat_transfer *t)
{
    struct chat_saving *s = arg;
    struct chat *c = s->chat;
    const char *why = chat_transfer_error(t);
    if (c->state != CHAT_OVER && !why && !chat_transfer_was_stopped(t))
        chat_show_aside(&c->show, "· %s is saved (%" PRId64 " bytes)", s->path,
                        chat_transfer_size(t));
    else if (c->state != CHAT_OVER)
        chat_show_aside(&c->show, "%s is not saved: %s", s->path, why ? why : "it was stopped");
    c->has_not_saved = c->has_not_saved || why;
    saving_end(s);
    if (c->has_ended && !c->saving)
        chat_finish(c, c->has_not_saved ? 1 : c->end_code);
    chat_talk_draw(c);
}

static void begin_saving(struct chat *c, const char *file_id, const char *path)
{
    char *why = NULL;
    const struct chat_transfer_order order = {.url = &c->o->url,
                                              .token = c->token,
                                              .conversation = c->conversation,
                                              .file_id = file_id,
                                              .path = path};
    struct chat_transfer *t = chat_transfer_open(&order, &why);
    if (!t) {
        chat_show_aside(&c->show, "%s is not saved: %s", path, why);
        c->has_not_saved = true;
        free(why);
        return;
    }
    struct chat_saving *s = xcalloc(sizeof *s);
    *s = (struct chat_saving){c, t, xstrdup(str_of(path)), c->saving};
    c->saving = s;
    chat_transfer_start(t, &c->loop, on_saved, s);
}

/* FOLDER/NAME, the N-th of its name: FOLDER/NAME-2, and before the ending where there is one. */
static void put_numbered(struct buf *out, const char *folder, const char *name, unsigned n)
{
    const char *dot = strrchr(name, '.');
    size_t stem = dot && dot != name ? (size_t)(dot - name) : strlen(name);
    size_t at = strlen(folder);
    buf_clear(out);
    buf_putf(out, "%s%s%.*s", folder, at > 0 && folder[at - 1] == '/' ? "" : "/", (int)stem, name);
    if (n > 1)
        buf_putf(out, "-%u", n);
    buf_puts(out, name + stem);
}

void chat_save_given(struct chat *c, const char *file_id, const char *name)
{
    struct buf path = {0};
    if (!c->o->save)
        return;
    char *safe = chat_path_safe_name(name);
    for (unsigned n = 1; n == 1 || (n < SAME_NAMES && access(path.bytes, F_OK) == 0); n++)
        put_numbered(&path, c->o->save, safe, n);
    begin_saving(c, file_id, path.bytes);
    buf_done(&path);
    free(safe);
}

/* The words behind /save: a number of the list, or a file's id; then maybe where to. */
void chat_save(struct chat *c, const char *words)
{
    struct str which = {words, strcspn(words, " ")};
    struct str to = str_trim(str_of(words + which.n));
    const struct chat_file *file = NULL;
    struct stat st;
    for (size_t i = 0; i < c->n_files; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i + 1);
        if (str_eq(which, str_of(number)) || str_eq(which, str_of(c->files[i].id)))
            file = &c->files[i];
    }
    if (!file) {
        chat_show_aside(&c->show, "there is no file %.*s; /save lists those that there are",
                        (int)which.n, which.p);
        return;
    }
    char *name = chat_path_safe_name(*file->name ? file->name : file->id);
    char *path = to.n > 0 ? chat_path_read(to.p) : xstrdup(str_of(name));
    struct buf within = {0};
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode) && to.n > 0)
        put_numbered(&within, path, name, 1);
    begin_saving(c, file->id, within.len ? within.bytes : path);
    buf_done(&within);
    free(path);
    free(name);
}

void chat_save_end(struct chat *c, int code)
{
    c->has_ended = true;
    c->end_code = code;
    if (!c->saving)
        chat_finish(c, c->has_not_saved ? 1 : code);
}

bool chat_save_stop(struct chat *c)
{
    for (struct chat_saving *s = c->saving; s; s = s->next)
        chat_transfer_stop(s->transfer);
    return c->saving != NULL;
}

void chat_save_tell_unfinished(struct chat *c)
{
    for (struct chat_saving *s = c->saving; s; s = s->next)
        chat_show_aside(&c->show, "%s is not saved", s->path);
}
