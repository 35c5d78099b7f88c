/* arithmetic -- finds an expression in a sentence: "what is 12 times (3+4)?" has "12 * (3 + 4)".
 *
 * Shape:    one pure function, for the built-in model.  It takes the first run that has both
 *           numbers and operators; it understands words such as "plus", "divided by", "% of", and
 *           ignores dates.  The result is in the calculator's form, though perhaps not valid (a
 *           parenthesis that is not closed): the calculator reports that better.
 * Thread:   any.
 * Errors:   false when there is none; out is then untouched.
 */
#ifndef GATEWAY_MODELS_ARITHMETIC_H
#define GATEWAY_MODELS_ARITHMETIC_H

#include "proto/buf.h"

bool arithmetic_find(struct str text, struct buf *out);

#endif
