/* file_lender -- the port for the files of conversations: agents read and give them through it.
 *
 * Thread:   loop.
 * Owns:     what is lent, until it is taken back; a load, until it is done or forgotten.
 */
#ifndef CORE_FILE_LENDER_H
#define CORE_FILE_LENDER_H

#include "proto/errors.h"

struct tool;
struct file_load;
struct file_save;
struct lending; /* files that are on their way to a program */

/* A file that an agent gives: the bytes, or what the path names.  The key names the try: the same
 * key gives the same file.  Without a media type it is seen from the bytes. */
struct file_plan {
    struct str owner, conversation_id, key, name, media_type, bytes, path;
};
/* why: NULL, and file has the file as a JSON object, or a sentence. */
typedef void (*lender_saved)(void *user, const char *why, struct str file);

/* The file as base64; its memory is valid during the call.  status: negative enum store_error. */
typedef void (*lender_done)(void *user, int status, struct str base64);

/* why: NULL, and the files are there, or a sentence that stays. */
typedef void (*lender_lent)(void *user, const char *why);

/* A task's input, whose files a program is to have. */
struct lend_plan {
    struct str owner, task_id, parts;
    lender_lent done; /* called once, later, unless it is dropped first */
    void *user;       /* of done */
};

struct lender {
    /* To a program: appends the parts with the path of each file, or says what is wrong in 256
     * bytes.  NULL in ret: all files are there, and done is not called.  Otherwise they are when
     * it is. */
    bool (*lend)(void *arg, const struct lend_plan *plan, struct buf *out, struct lending **ret,
                 char *ret_error);
    void (*drop_lending)(struct lending *lending);    /* NULL is allowed */
    void (*take_back)(void *arg, struct str task_id); /* the end of the task is committed */
    /* Reads a whole file of the owner's.  done is called once, later.  NULL: the gateway stops. */
    struct file_load *(*load)(void *arg, struct str owner, struct str sha256, int64_t size,
                              lender_done done, void *user);
    void (*forget)(struct file_load *load); /* done is not called any more */
    /* Stores a file.  done is called once, later, unless it is dropped first; then drop it. */
    struct file_save *(*save)(void *arg, const struct file_plan *plan, lender_saved done,
                              void *user);
    void (*drop)(struct file_save *save);
    /* Appends a URL by which its bearer may read the file for an hour.  False: none can be made. */
    bool (*link)(void *arg, struct str owner, struct str conversation_id, struct str file_id,
                 struct buf *out);
    void *link_arg;
    const struct tool *tool; /* by which a program gives a file */
    void *arg;
};

#endif
