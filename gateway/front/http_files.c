#include "gateway/front/http_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/base/audit.h"
#include "gateway/base/deadline.h"
#include "gateway/files/upload.h"
#include "gateway/files/workspace.h"
#include "gateway/front/address.h"
#include "gateway/front/http_files_private.h"
#include "gateway/front/http_head.h"
#include "gateway/front/tcp.h"
#include "proto/file_head.h"
#include "proto/str.h"
#include "proto/utf8.h"

/* --- the exchange's own ----------------------------------------------------------------------- */

struct http_file *file_of(struct exchange *x)
{
    struct http_file *own = x->own;
    if (own)
        return own;
    own = xcalloc(sizeof *own);
    own->x = x;
    own->fd = -1;
    x->own = own;
    return own;
}

void file_free(struct http_file *own)
{
    struct buf *const bufs[] = {&own->lines, &own->etag, &own->type, &own->name, &own->piece};
    if (own->x || own->asking)
        return;
    for (size_t i = 0; i < countof(bufs); i++)
        buf_done(bufs[i]);
    if (own->fd >= 0)
        close(own->fd);
    free(own);
}

void file_closed(struct exchange *x)
{
    struct http_file *own = x->own;
    own->x = NULL;
    if (own->upload)
        upload_leave(own->upload);
    if (own->fd >= 0)
        files_read_close(own->read, &own->fd);
    files_read_forget(own->read);
    workspace_forget(own->look);
    file_free(own);
}

void file_put_error(const struct exchange *x, struct buf *out, enum error e, const char *message)
{
    (void)x;
    http_put_error(out, e, message);
}

const char *file_header(const struct exchange *x, const char **ret_value)
{
    (void)x;
    *ret_value = NULL;
    return NULL;
}

struct str file_lines(const struct exchange *x)
{
    return buf_str(&((const struct http_file *)x->own)->lines);
}

void audit_file(struct exchange *x, const char *event, struct str id, enum error e)
{
    struct audit_line line = {.event = event,
                              .outcome = e ? error_code(e) : "ok",
                              .owner = str_of(x->owner->name),
                              .actor = x->rights ? x->rights->actor : STR_NULL,
                              .from = str_of(x->from),
                              .conversation = str_of(x->conversation_id),
                              .file = id};
    audit_write(x->front->audit, x->front->hub->clock.wall_ms, &line);
}

/* --- uploads ---------------------------------------------------------------------------------- */

static void upload_on_hold(void *arg, bool hold)
{
    http_api_hold(arg, hold);
}

/* Further bytes of the body are dropped. */
static void upload_answer(struct exchange *x, int status)
{
    file_of(x)->upload = NULL;
    http_api_hold(x, false);
    http_api_ready(x, status);
}

static void upload_on_at(void *arg, int64_t offset)
{
    struct exchange *x = arg;
    buf_putf(&file_of(x)->lines, "upload-offset: %" PRId64 "\n", offset);
    upload_answer(x, 200);
}

static void upload_on_done(void *arg, const struct file_record *file, bool repeated)
{
    struct exchange *x = arg;
    buf_puts(&x->answer, "{");
    js_put_field(&x->answer, "type", STR("file"));
    file_put(&x->answer, file);
    if (repeated)
        js_put_bool(&x->answer, "repeated", true);
    buf_puts(&x->answer, "}");
    audit_file(x, "upload", file->file_id, ERR_NONE);
    upload_answer(x, repeated ? 200 : 201);
}

static void upload_on_failed(void *arg, enum error e, const char *message, int64_t offset,
                             msec_t retry_after_ms)
{
    struct exchange *x = arg;
    struct buf line = {0};
    error_line(&line, e, STR_NULL, message, retry_after_ms ? retry_after_ms : RETRY_USUAL, -1);
    http_put_error_line(&x->answer, buf_str(&line));
    buf_done(&line);
    if (offset >= 0)
        buf_putf(&file_of(x)->lines, "upload-offset: %" PRId64 "\n", offset);
    audit_file(x, "upload", STR_NULL, e);
    upload_answer(x, error_status(e));
}

static void upload_on_taken(void *arg)
{
    deadline_now(((struct exchange *)arg)->wsi);
}

static const struct upload_ops upload_ops = {
    .hold = upload_on_hold,
    .at = upload_on_at,
    .done = upload_on_done,
    .failed = upload_on_failed,
    .taken = upload_on_taken,
};

/* NULL, or what is wrong with the head. */
static const char *read_head(struct exchange *x, struct http_file *own)
{
    char *type = http_head_value(x->wsi, "content-type:");
    char *disposition = http_head_value(x->wsi, "content-disposition:");
    const char *wrong = NULL;
    if (!type)
        buf_puts(&own->type, "application/octet-stream");
    else if (!media_type_read(str_of(type), &own->type))
        wrong = "\"Content-Type\" is no media type of at most 127 bytes";
    if (!wrong && disposition && !disposition_read(str_of(disposition), &own->name))
        wrong = "\"Content-Disposition\" has no file name of at most 255 bytes that can be read";
    free(type);
    free(disposition);
    return wrong;
}

/* Where a PATCH goes on. */
static bool read_upload_offset(struct exchange *x, int64_t *ret)
{
    char *value = http_head_value(x->wsi, "upload-offset:");
    struct str text = str_of(value);
    bool good = text.p && text.n > 0 && text.n < 16;
    *ret = 0;
    for (size_t i = 0; good && i < text.n; i++) {
        good = is_digit(text.p[i]);
        *ret = *ret * 10 + (text.p[i] - '0');
    }
    free(value);
    return good;
}

static bool key_is_valid(struct str key)
{
    return key.n >= 1 && key.n <= MAX_UPLOAD_KEY && utf8_valid(key);
}

static const char *find_upload_fault(struct exchange *x, struct http_file *own,
                                     struct upload_plan *plan, enum error *ret)
{
    uint64_t most = (uint64_t)x->front->config->rim_limits.file_mib << 20;
    *ret = ERR_NOT_FOUND;
    if (!rights_allow(x->rights, str_of(x->conversation_id), STR_NULL, RIGHT_ASK))
        return NO_SUCH_FILE;
    *ret = ERR_UNSUPPORTED;
    if (most == 0)
        return "files are not taken here";
    *ret = ERR_BAD_REQUEST;
    if (!conversation_id_is_valid(str_of(x->conversation_id)))
        return "\"conversation_id\" must be a string of 1 to 128 letters, digits, '.', '_' and "
               "'-', the first a letter or digit";
    if (!plan->key.p && x->route->method != POST)
        return "\"upload\" is missing: it must be a string of 1 to 128 bytes";
    if (plan->key.p && !key_is_valid(plan->key))
        return "\"upload\" must be a string of 1 to 128 bytes";
    if (x->route->method == PATCH && !read_upload_offset(x, &plan->offset))
        return "\"Upload-Offset\" must be the number of bytes that were taken";
    const char *wrong = plan->looks ? NULL : read_head(x, own);
    if (wrong)
        return wrong;
    *ret = ERR_TOO_LARGE;
    if ((uint64_t)plan->offset + x->length > most)
        return "the file is larger than limits.file_mib";
    *ret = ERR_NONE;
    return NULL;
}

static void upload_on_head(struct exchange *x)
{
    struct http_file *own = file_of(x);
    char *key = http_query_value(x->wsi, "upload");
    struct upload_plan plan = {.owner = str_of(x->owner->name),
                               .quota = str_of(x->quota->name),
                               .conversation_id = str_of(x->conversation_id),
                               .key = str_of(key),
                               .length = (int64_t)x->length,
                               .looks = x->route->method == HEAD,
                               .ops = &upload_ops,
                               .arg = x};
    enum error e;
    const char *wrong = find_upload_fault(x, own, &plan, &e);
    if (wrong) {
        http_api_fail(x, e, wrong);
    } else {
        plan.name = buf_str(&own->name);
        plan.media_type = buf_str(&own->type);
        own->upload = upload_begin(x->front->files, &plan);
    }
    free(key);
}

static void upload_on_piece(struct exchange *x, const char *bytes, size_t n)
{
    struct http_file *own = x->own;
    if (own->upload)
        upload_write(own->upload, bytes, n);
}

static void upload_on_body(struct exchange *x)
{
    struct http_file *own = x->own;
    if (own->upload)
        upload_end(own->upload);
}

static const struct exchange_kind upload_kind = {
    .is_homes = true,
    .begin = upload_on_body,
    .put_error = file_put_error,
    .closed = file_closed,
    .header = file_header,
    .lines = file_lines,
    .head = upload_on_head,
    .piece = upload_on_piece,
};

/* --- routes ----------------------------------------------------------------------------------- */

#define FILES "/v1/conversations/{c}/files"
#define WORKSPACE "/v1/conversations/{c}/workspace"
static const struct route file_routes[] = {
    {.method = POST, .pattern = FILES, .query = "", .kind = &upload_kind},
    {.method = PATCH, .pattern = FILES, .query = "", .kind = &upload_kind},
    {.method = HEAD, .pattern = FILES, .query = "", .kind = &upload_kind},
    {.method = GET,
     .pattern = FILES "/{t}",
     .query = "",
     .kind = &download_kind,
     .takes_link = true},
    {.method = HEAD,
     .pattern = FILES "/{t}",
     .query = "",
     .kind = &download_kind,
     .takes_link = true},
    {.method = GET, .pattern = WORKSPACE, .query = "", .kind = &workspace_kind},
    {.method = HEAD, .pattern = WORKSPACE, .query = "", .kind = &workspace_kind},
    {.method = GET, .pattern = WORKSPACE "/{p}", .query = "", .kind = &workspace_kind},
    {.method = HEAD, .pattern = WORKSPACE "/{p}", .query = "", .kind = &workspace_kind},
};

void http_files_init(struct front *f)
{
    for (size_t i = 0; i < countof(file_routes); i++)
        front_add_route(f, &file_routes[i]);
}

void http_files_tick(struct front *f)
{
    msec_t now = f->hub->clock.now_ms;
    list_each (it, &f->under_way) {
        struct exchange *x = list_item(it, struct exchange, under_way);
        const struct peer *peer = lws_get_opaque_user_data(x->wsi);
        if (!x->sends || (peer && peer->is_linked)) /* its front looks at the client's kernel */
            continue;
        uint64_t acked = tcp_bytes_acked(lws_get_socket_fd(x->wsi));
        if (!lws_partial_buffered(x->wsi) || acked != x->acked) {
            x->acked = acked;
            x->moved_ms = now;
        } else if (now - x->moved_ms >= SLOW_EVENTS_AFTER_MS) {
            deadline_now(x->wsi);
        }
    }
}
