/* arithmetic -- finds an expression in a sentence: "what is 12 times (3+4)?" has "12 * (3 + 4)".
 *
 * Shape:    one pure function, for the built-in model.  The first run of numbers and operators that
 *           has both counts; words such as "plus", "divided by", "% of" are understood, dates left
 *           alone.  What comes out is in the calculator's form, though perhaps not valid (a
 *           parenthesis that is not closed): the calculator says so better.
 * Thread:   any.
 * Errors:   false when there is none; out is then untouched.
 */
#ifndef GATEWAY_MODELS_ARITHMETIC_H
#define GATEWAY_MODELS_ARITHMETIC_H

#include "proto/buf.h"

bool arithmetic_find(struct str text, struct buf *out);

#endif
