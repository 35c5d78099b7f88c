/* react_files -- the files among the messages of a run, read for one turn of its model.
 *
 * Shape:    messages name files (proto/parts.h); react_files_open reads their bytes, and
 *           react_files_put copies the messages with the data in the parts (model.h).  A file of an
 *           earlier message that is not there any more, that the model does not take, or that is
 *           too much beside newer ones, becomes a text that says so.
 * URLs:     a model that takes URLs of their type (links_type) is given those of files that have an
 *           id; of these only the head is read, which shows that the file is there.
 * Results:  of a tool's files a model gets the images, by their first bytes, where it says that it
 *           takes them (MODEL_TAKES_RESULTS); the result's text names them in any case.
 * Thread:   loop.
 * Owns:     what was read, until react_files_clear.
 * Errors:   a sentence: a file cannot be read now.
 */
#ifndef GATEWAY_AGENTS_REACT_FILES_H
#define GATEWAY_AGENTS_REACT_FILES_H

#include "core/file_lender.h"
#include "gateway/models/model.h"
#include "proto/js.h"

#define REACT_FILES_BYTES (24 << 20) /* of the files of one request */
#define REACT_IMAGE_BYTES (15 << 18) /* of an image of a result: Anthropic takes 5 MiB of base64 */

struct react_file;

struct react_files {
    const struct lender *lender; /* NULL: there are none but those in the messages themselves */
    struct str owner, conversation_id; /* whose messages they are */
    struct react_file *list;
    size_t n, n_open;
    const char *fault; /* NULL: all were read, or are gone */
    void (*ready)(void *user);
    void *user;
};

/* Why the model cannot be given these parts, a message of now; false: it can. */
bool react_files_refuse(const struct model *model, struct str parts, char ret_why[256]);
/* Appends a part for the file that the event's data (doc's root) tells, behind a comma, if it is an
 * image that models take. */
void react_files_put_image(const struct js_doc *doc, struct buf *out);
/* Begins to read the files of messages.  True: nothing has to be read.  Otherwise ready is called
 * once, later. */
bool react_files_open(struct react_files *f, const struct model *model, struct str messages);
void react_files_put(const struct react_files *f, const struct model *model, struct str messages,
                     struct buf *out);
void react_files_clear(struct react_files *f); /* ready is not called any more */

#endif
