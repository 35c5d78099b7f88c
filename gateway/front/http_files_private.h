/* http_files_private -- between the files of this room that serve files (http_files.h).
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_FRONT_HTTP_FILES_PRIVATE_H
#define GATEWAY_FRONT_HTTP_FILES_PRIVATE_H

#include "gateway/files/files.h"
#include "gateway/front/http_files.h"

struct upload;
struct workspace_look;

struct http_file {
    struct exchange *x; /* NULL when it is closed */
    struct upload *upload;
    bool asking;            /* the store has not answered yet */
    struct file_read *read; /* under way */
    struct buf lines;       /* of the head */
    char blob[FILE_HASH_LEN + 1];
    int fd;                      /* of a file in the workspace, instead of a blob; -1 */
    struct workspace_look *look; /* for that, under way */
    struct buf etag, type, name;
    int64_t size, from, left;
    const char *image; /* its type, seen from its bytes */
    int status;
    bool head_is_sent;
    struct buf piece; /* LWS_PRE bytes, then what is to be written */
};

/* The exchange's own, made on first use. */
struct http_file *file_of(struct exchange *x);
void file_free(struct http_file *own); /* when nothing waits for it any more */
/* For struct exchange_kind. */
void file_closed(struct exchange *x);
void file_put_error(const struct exchange *x, struct buf *out, enum error e, const char *message);
const char *file_header(const struct exchange *x, const char **ret_value);
struct str file_lines(const struct exchange *x);
/* id: of the file, or STR_NULL.  A file is read and written without a request of the wire, which
 * would stand in the audit by itself. */
void audit_file(struct exchange *x, const char *event, struct str id, enum error e);

/* http_download.c */
/* size, etag, type and name are known: reads the first bytes, and then sends. */
void download_read(struct http_file *own);
int download_writable(struct exchange *x);
void download_not_found(struct exchange *x);

/* http_workspace.c */
extern const struct exchange_kind workspace_kind;

#endif
