/* A conversation's folder: its listings, and its files as downloads. */
#include <stdio.h>
#include <unistd.h>

#include "gateway/base/deadline.h"
#include "gateway/files/workspace.h"
#include "gateway/front/http_files_private.h"
#include "proto/file_head.h"
#include "proto/str.h"

#define LOOK_S 60 /* for a disk that is slow */

static void answer_listing(struct exchange *x, const struct workspace_found *found)
{
    buf_puts(&x->answer, "{");
    js_put_field(&x->answer, "type", STR("workspace"));
    js_put_raw(&x->answer, "entries", found->json);
    if (found->more)
        js_put_bool(&x->answer, "more", true);
    buf_puts(&x->answer, "}");
    audit_file(x, "download", STR_NULL, ERR_NONE);
    http_api_ready(x, 200);
}

static struct str workspace_path(const struct exchange *x)
{
    return x->agent ? str_of(x->agent) : STR("");
}

static struct str last_of(struct str path)
{
    size_t at = path.n;
    while (at > 0 && path.p[at - 1] != '/')
        at--;
    return str_from(path, at);
}

static void workspace_on_found(void *arg, int status, const struct workspace_found *found)
{
    struct http_file *own = arg;
    struct exchange *x = own->x;
    own->look = NULL;
    if (status < 0) {
        download_not_found(x);
        return;
    }
    if (found->fd < 0) {
        answer_listing(x, found);
        return;
    }
    own->fd = found->fd;
    own->size = found->size;
    buf_puts(&own->etag, found->etag);
    buf_putc(&own->etag, 0);
    buf_puts(&own->type, "application/octet-stream");
    buf_putstr(&own->name, last_of(workspace_path(x)));
    download_read(own);
}

static void workspace_begin(struct exchange *x)
{
    struct http_file *own = file_of(x);
    struct str path = workspace_path(x);
    if (!conversation_id_is_valid(str_of(x->conversation_id)) || memchr(path.p, 0, path.n)) {
        download_not_found(x);
        return;
    }
    deadline_set(x->wsi, LOOK_S);
    own->look = workspace_look(x->front->files, str_of(x->owner->name), str_of(x->conversation_id),
                               path, workspace_on_found, own);
    if (!own->look)
        download_not_found(x);
}

const struct exchange_kind workspace_kind = {
    .is_homes = true,
    .begin = workspace_begin,
    .put_error = file_put_error,
    .closed = file_closed,
    .header = file_header,
    .lines = file_lines,
    .writable = download_writable,
};
