/* tool_arguments -- reads the arguments of a tool call, one by one.
 *
 * Shape:    open once, then take each; for a fault, out gets a sentence for a model, and the
 *           function returns false.  An absent argument, or null, leaves the value unchanged.
 * Thread:   any.
 * Owns:     the caller frees texts.
 */
#ifndef GATEWAY_TOOLS_TOOL_ARGUMENTS_H
#define GATEWAY_TOOLS_TOOL_ARGUMENTS_H

#include "gateway/processes/keep_folder.h"
#include "proto/js.h"

bool arguments_open(struct js_doc *doc, struct str arguments, struct buf *out) MUST_USE;
bool arguments_has(const struct js_doc *doc, const char *key); /* and not null */
/* A text of at least min and at most max bytes without NUL; min 0 and absent: NULL. */
bool arguments_text(const struct js_doc *doc, const char *key, size_t min, size_t max, char **ret,
                    struct buf *out) MUST_USE;
bool arguments_bool(const struct js_doc *doc, const char *key, bool *ret, struct buf *out) MUST_USE;
bool arguments_int(const struct js_doc *doc, const char *key, int64_t min, int64_t max,
                   int64_t *ret, struct buf *out) MUST_USE;
bool arguments_texts(const struct js_doc *doc, const char *key, size_t max, struct keep_texts *ret,
                     struct buf *out) MUST_USE;

#endif
