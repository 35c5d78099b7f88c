#include "gateway/front/http_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/audit.h"
#include "gateway/base/deadline.h"
#include "gateway/base/log.h"
#include "gateway/files/upload.h"
#include "gateway/front/address.h"
#include "gateway/front/http_api.h"
#include "gateway/front/http_head.h"
#include "gateway/front/tcp.h"
#include "proto/file_head.h"
#include "proto/str.h"
#include "proto/utf8.h"

/* Nothing of a file may run, whatever it is. */
#define FILE_POLICY "content-security-policy: sandbox; default-src 'none'\n"

#define DISK_S 60 /* for the first bytes of a file, from a disk that is slow */

struct http_file {
    struct exchange *x; /* NULL when it is closed */
    struct upload *upload;
    bool asking;            /* the store has not answered yet */
    struct file_read *read; /* under way */
    struct buf lines;       /* of the head */
    char blob[FILE_HASH_LEN + 1];
    struct buf etag, type, name;
    int64_t size, from, left;
    const char *image; /* its type, seen from its bytes */
    int status;
    bool head_is_sent;
    struct buf piece; /* LWS_PRE bytes, then what is to be written */
};

/* --- the exchange's own ----------------------------------------------------------------------- */

static struct http_file *file_of(struct exchange *x)
{
    struct http_file *own = x->own;
    if (own)
        return own;
    own = xcalloc(sizeof *own);
    own->x = x;
    x->own = own;
    return own;
}

static void file_free(struct http_file *own)
{
    struct buf *const bufs[] = {&own->lines, &own->etag, &own->type, &own->name, &own->piece};
    if (own->x || own->asking)
        return;
    for (size_t i = 0; i < countof(bufs); i++)
        buf_done(bufs[i]);
    free(own);
}

static void file_closed(struct exchange *x)
{
    struct http_file *own = x->own;
    own->x = NULL;
    if (own->upload)
        upload_leave(own->upload);
    files_read_forget(own->read);
    file_free(own);
}

static void file_put_error(const struct exchange *x, struct buf *out, enum error e,
                           const char *message)
{
    (void)x;
    http_put_error(out, e, message);
}

static const char *file_header(const struct exchange *x, const char **ret_value)
{
    (void)x;
    *ret_value = NULL;
    return NULL;
}

static struct str file_lines(const struct exchange *x)
{
    return buf_str(&((const struct http_file *)x->own)->lines);
}

/* id: of the file, or STR_NULL.  A file is read and written without a request of the wire, which
 * would stand in the audit by itself. */
static void audit_file(struct exchange *x, const char *event, struct str id, enum error e)
{
    struct audit_line line = {.event = event,
                              .outcome = e ? error_code(e) : "ok",
                              .owner = str_of(x->owner->name),
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
    .begin = upload_on_body,
    .put_error = file_put_error,
    .closed = file_closed,
    .header = file_header,
    .lines = file_lines,
    .head = upload_on_head,
    .piece = upload_on_piece,
};

/* --- downloads -------------------------------------------------------------------------------- */

static void on_piece(void *arg, int status, struct str bytes);

static void read_piece(struct http_file *own)
{
    size_t n = own->left < FILE_PIECE ? (size_t)own->left : FILE_PIECE;
    own->read = files_read(own->x->front->files, str_of(own->blob), own->from, n, on_piece, own);
}

static void ask_file(struct http_file *own, store_query_fn done)
{
    const struct exchange *x = own->x;
    struct str conversation = str_of(x->conversation_id);
    if (!rights_allow(x->rights, conversation, STR_NULL, RIGHT_READ))
        conversation = STR("-"); /* none has this id: the same look-up, and the same answer */
    struct query q = {.kind = QUERY_FILE,
                      .owner = str_of(x->owner->name),
                      .conversation_id = conversation,
                      .key = str_of(x->task_id)};
    own->asking = true;
    hub_query(x->front->hub, &q, done, own);
}

/* One answer for a foreign, a missing and a malformed id. */
static void answer_not_found(struct exchange *x)
{
    (void)pace_take(x->front, str_of(x->owner->name)); /* guessing costs more than asking */
    audit_file(x, "download", str_of(x->task_id), ERR_NOT_FOUND);
    http_api_fail(x, ERR_NOT_FOUND, NO_SUCH_FILE);
}

/* An answer that has begun is cut. */
static void read_failed(struct http_file *own, int status)
{
    bool passes = status == STORE_IO || status == STORE_FULL;
    log_event_limited(passes ? LEVEL_WARN : LEVEL_ERROR, "files", passes ? "unread" : "damaged",
                      LOG_TEXT("blob", own->blob), LOG_INT("status", status));
    if (own->x->sends)
        deadline_now(own->x->wsi);
    else
        http_api_fail(own->x, passes ? ERR_OVERLOADED : ERR_INTERNAL,
                      passes ? "the file cannot be read now" : "the file is damaged");
}

static void on_file_again(void *arg, int status, struct answer *answer)
{
    struct http_file *own = arg;
    (void)answer;
    own->asking = false;
    if (!own->x)
        file_free(own);
    else if (status != STORE_NOT_FOUND)
        read_failed(own, status < 0 ? status : STORE_NOT_FOUND);
    else if (own->x->sends)
        deadline_now(own->x->wsi);
    else
        answer_not_found(own->x);
}

/* True when bytes came.  Bytes that are not there may have been swept meanwhile, with their row. */
static bool has_read(struct http_file *own, int status, struct str bytes)
{
    own->read = NULL;
    if (status == STORE_OK && (bytes.n > 0 || own->size == 0))
        return true;
    if (status == STORE_NOT_FOUND)
        ask_file(own, on_file_again);
    else
        read_failed(own, status);
    return false;
}

static void on_piece(void *arg, int status, struct str bytes)
{
    struct http_file *own = arg;
    if (!has_read(own, status, bytes))
        return;
    buf_clear(&own->piece);
    buf_reserve(&own->piece, LWS_PRE);
    own->piece.len = LWS_PRE;
    buf_putstr(&own->piece, bytes);
    own->from += (int64_t)bytes.n;
    own->left -= (int64_t)bytes.n;
    lws_callback_on_writable(own->x->wsi);
}

static bool send_head(struct exchange *x, struct http_file *own)
{
    bool has_body = own->status == 200 || own->status == 206;
    struct http_json head = {
        .status = own->status, .origin = x->origin, .lines = buf_str(&own->lines), .is_head = true};
    head.body = (struct str){"", has_body ? (size_t)own->left : 0};
    own->head_is_sent = true;
    x->moved_ms = x->front->hub->clock.now_ms;
    bool sent = http_answer_json(x->wsi, &head) >= 0;
    lws_set_timeout(x->wsi, NO_PENDING_TIMEOUT, 0);
    if (x->is_head || !has_body)
        own->left = 0;
    return sent;
}

static bool send_piece(struct exchange *x, struct http_file *own)
{
    size_t n = own->piece.len - LWS_PRE;
    own->piece.len = 0;
    x->moved_ms = x->front->hub->clock.now_ms;
    return lws_write(x->wsi, (unsigned char *)own->piece.bytes + LWS_PRE, n, LWS_WRITE_HTTP) >= 0;
}

static int download_writable(struct exchange *x)
{
    struct http_file *own = x->own;
    if (!own->head_is_sent && !send_head(x, own))
        return -1;
    if (!files_are_open(x->front->files))
        return -1;
    if (lws_partial_buffered(x->wsi)) {
        lws_callback_on_writable(x->wsi);
        return 0;
    }
    if (own->piece.len > LWS_PRE && !send_piece(x, own))
        return -1;
    if (own->left > 0 && !own->read)
        read_piece(own);
    else if (own->left == 0 && lws_partial_buffered(x->wsi))
        lws_callback_on_writable(x->wsi);
    else if (own->left == 0)
        return http_api_complete(x);
    return 0;
}

static bool has_etag(const char *list, const struct http_file *own)
{
    return list && (strcmp(list, "*") == 0 || strstr(list, own->etag.bytes));
}

static void choose_range(struct exchange *x, struct http_file *own)
{
    char *none_match = http_head_value(x->wsi, "if-none-match:");
    char *range = http_head_value(x->wsi, "range:"),
         *if_range = http_head_value(x->wsi, "if-range:");
    enum range_verdict verdict = RANGE_ALL;
    own->from = 0;
    own->left = own->size;
    if (range && (!if_range || strcmp(if_range, own->etag.bytes) == 0))
        verdict = range_read(str_of(range), own->size, &own->from, &own->left);
    own->status = verdict == RANGE_PART ? 206 : verdict == RANGE_NONE ? 416 : 200;
    if (has_etag(none_match, own))
        own->status = 304;
    free(none_match);
    free(range);
    free(if_range);
}

static void put_file_lines(struct http_file *own)
{
    struct buf *out = &own->lines;
    bool has_body = own->status == 200 || own->status == 206;
    buf_putf(out, "etag: %s\n", own->etag.bytes);
    buf_puts(out, "cache-control: private, no-cache\naccept-ranges: bytes\n" FILE_POLICY);
    if (own->status == 206)
        buf_putf(out, "content-range: bytes %" PRId64 "-%" PRId64 "/%" PRId64 "\n", own->from,
                 own->from + own->left - 1, own->size);
    if (own->status == 416)
        buf_putf(out, "content-range: bytes */%" PRId64 "\n", own->size);
    if (own->status == 416 || own->size == 0)
        buf_puts(out, "content-length: 0\n");
    if (!has_body)
        return;
    buf_puts(out, "content-type: ");
    buf_putstr(out, own->image ? str_of(own->image) : buf_str(&own->type));
    buf_puts(out, "\ncontent-disposition: ");
    disposition_put(out, own->image != NULL, buf_str(&own->name));
    buf_putc(out, '\n');
}

/* The first bytes, which tell an image. */
static void on_first(void *arg, int status, struct str bytes)
{
    struct http_file *own = arg;
    struct exchange *x = own->x;
    if (!has_read(own, status, bytes))
        return;
    own->image = image_type(bytes);
    choose_range(x, own);
    put_file_lines(own);
    audit_file(x, "download", str_of(x->task_id), ERR_NONE);
    x->sends = true;
    lws_callback_on_writable(x->wsi);
}

static void on_file(void *arg, int status, struct answer *answer)
{
    struct http_file *own = arg;
    struct exchange *x = own->x;
    own->asking = false;
    if (!x) {
        file_free(own);
        return;
    }
    if (status == STORE_NOT_FOUND) {
        answer_not_found(x);
        return;
    }
    if (status < 0) {
        http_api_fail(x, status == STORE_CORRUPT ? ERR_INTERNAL : ERR_OVERLOADED,
                      status == STORE_CORRUPT ? "a record in the store is damaged"
                                              : "the store cannot be read now");
        return;
    }
    const struct file_record *file = &answer->files[0];
    snprintf(own->blob, sizeof own->blob, "%.*s", (int)file->blob.n, file->blob.p);
    buf_putf(&own->etag, "\"%.*s\"", (int)file->sha256.n, file->sha256.p);
    buf_putc(&own->etag, 0);
    buf_putstr(&own->type, file->media_type);
    buf_putstr(&own->name, file->name);
    own->size = file->size;
    own->read = files_read(x->front->files, str_of(own->blob), 0, IMAGE_HEAD, on_first, own);
}

static void download_begin(struct exchange *x)
{
    deadline_set(x->wsi, DISK_S);
    ask_file(file_of(x), on_file);
}

static const struct exchange_kind download_kind = {
    .begin = download_begin,
    .put_error = file_put_error,
    .closed = file_closed,
    .header = file_header,
    .lines = file_lines,
    .writable = download_writable,
};

/* --- routes ----------------------------------------------------------------------------------- */

#define FILES "/v1/conversations/{c}/files"
static const struct route file_routes[] = {
    {.method = POST, .pattern = FILES, .query = "", .kind = &upload_kind},
    {.method = PATCH, .pattern = FILES, .query = "", .kind = &upload_kind},
    {.method = HEAD, .pattern = FILES, .query = "", .kind = &upload_kind},
    {.method = GET, .pattern = FILES "/{t}", .query = "", .kind = &download_kind},
    {.method = HEAD, .pattern = FILES "/{t}", .query = "", .kind = &download_kind},
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
        if (!x->sends)
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
