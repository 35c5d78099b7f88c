/* react_arguments -- what models write as the name and the arguments of a call, put right.
 *
 * Thread:   any.
 */
#ifndef GATEWAY_AGENTS_REACT_ARGUMENTS_H
#define GATEWAY_AGENTS_REACT_ARGUMENTS_H

#include "proto/js.h"

/* Appends the arguments as a compact object.  NULL, or why they are none.  doc is scratch. */
const char *react_arguments_read(struct js_doc *doc, struct str text, struct buf *ret);
/* A tool's name without the noise of some servers: the model's special tokens after it
 * ("clock<|channel|>…"), its name space before it ("functions.clock"), white space.  "" when
 * nothing valid remains. */
struct str react_plain_name(struct str name);

#endif
