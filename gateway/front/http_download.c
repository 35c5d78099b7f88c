/* Downloads: the head when the first bytes are there, then a piece that is read and written, then
 * the next. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/deadline.h"
#include "gateway/base/log.h"
#include "gateway/front/address.h"
#include "gateway/front/http_files_private.h"
#include "gateway/front/http_head.h"
#include "proto/file_head.h"

/* Nothing of a file may run, whatever it is. */
#define FILE_POLICY "content-security-policy: sandbox; default-src 'none'\n"

#define DISK_S 60 /* for the first bytes of a file, from a disk that is slow */

static void on_piece(void *arg, int status, struct str bytes);

static struct file_read *file_read_at(struct http_file *own, int64_t at, size_t n,
                                      file_read_fn done)
{
    struct files *f = own->x->front->files;
    return own->fd >= 0 ? files_read_open(f, own->fd, at, n, done, own)
                        : files_read(f, str_of(own->blob), at, n, done, own);
}

static void read_piece(struct http_file *own)
{
    size_t n = own->left < FILE_PIECE ? (size_t)own->left : FILE_PIECE;
    own->read = file_read_at(own, own->from, n, on_piece);
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
void download_not_found(struct exchange *x)
{
    (void)pace_take(x->front, str_of(x->owner->name)); /* guessing costs more than asking */
    audit_file(x, "download", str_of(x->task_id), ERR_NOT_FOUND);
    http_api_fail(x, ERR_NOT_FOUND, NO_SUCH_FILE);
}

/* Bytes that are not there, or not all of them.  Anything else says nothing about the file: a store
 * that is away or busy, or refuses to answer.  An answer that has begun is cut. */
static void read_failed(struct http_file *own, int status)
{
    bool damaged = status >= 0 || status == STORE_CORRUPT || status == STORE_NOT_FOUND;
    log_event_limited(damaged ? LEVEL_ERROR : LEVEL_WARN, "files", damaged ? "damaged" : "unread",
                      LOG_TEXT("blob", own->blob), LOG_INT("status", status));
    if (own->x->sends)
        deadline_now(own->x->wsi);
    else
        http_api_fail(own->x, damaged ? ERR_INTERNAL : ERR_OVERLOADED,
                      damaged ? "the file is damaged" : "the file cannot be read now");
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
        download_not_found(own->x);
}

/* True when bytes came.  Bytes that are not there may have been swept meanwhile, with their row. */
static bool has_read(struct http_file *own, int status, struct str bytes)
{
    own->read = NULL;
    if (status == STORE_OK && (bytes.n > 0 || own->size == 0))
        return true;
    if (own->fd >= 0 && own->x->sends) /* its agent has made it shorter */
        deadline_now(own->x->wsi);
    else if (own->fd >= 0)
        download_not_found(own->x);
    else if (status == STORE_NOT_FOUND)
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

int download_writable(struct exchange *x)
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

void download_read(struct http_file *own)
{
    own->read = file_read_at(own, 0, IMAGE_HEAD, on_first);
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
        download_not_found(x);
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
    download_read(own);
}

static void download_begin(struct exchange *x)
{
    deadline_set(x->wsi, DISK_S);
    ask_file(file_of(x), on_file);
}

const struct exchange_kind download_kind = {
    .is_homes = true,
    .begin = download_begin,
    .put_error = file_put_error,
    .closed = file_closed,
    .header = file_header,
    .lines = file_lines,
    .writable = download_writable,
};
