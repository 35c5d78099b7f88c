/* export -- the lines of a conversation's export, read (PROTOCOL.md section 5, Exports).
 *
 * Shape:    one object a line: the conversation, a message, a task, an event; an import wants the
 *           first three, and passes over whatever it does not know.
 * Thread:   any; pure functions.
 * Owns:     a line owns its texts, to which its records point, until it is read into again or done.
 * Errors:   a sentence's end that says what is wrong; static text.
 */
#ifndef PROTO_EXPORT_H
#define PROTO_EXPORT_H

#include "proto/js.h"
#include "proto/record.h"

#define EXPORT_VERSION 1
#define MAX_EXPORT_LINE (2u << 20) /* bytes: an event's, or a message with its escapes */

enum export_kind { EXPORT_OTHER, EXPORT_CONVERSATION, EXPORT_MESSAGE, EXPORT_TASK };

struct export_line {
    enum export_kind kind;
    struct message_record message; /* of a message */
    struct task_record task;       /* of a task: what proto/record.h has in its summary */
    struct str title, tip;         /* of a conversation; NULL for none */
    struct buf texts[6];
    size_t n_texts;
};

/* NULL, or what is wrong with it. */
const char *export_line_read(const struct js_doc *doc, uint32_t node, struct export_line *ret);
void export_line_done(struct export_line *line);

#endif
