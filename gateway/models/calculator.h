/* calculator -- the value of an expression such as "12 * (3 + 4)".
 *
 * Shape:    one pure function.  Doubles; + - * / % ^, parentheses, signs, functions of one or more
 *           numbers, pi and e. ^ is right-associative and binds closer than a sign (-2^2 is -4); %
 *           has the sign of its left side, as in C; angles are radians.
 * Thread:   any.
 * Errors:   false, and out has a sentence: what is wrong, for a syntax error with the character's
 *           position from 1.
 * Limits:   CALCULATOR_DEPTH.
 */
#ifndef GATEWAY_MODELS_CALCULATOR_H
#define GATEWAY_MODELS_CALCULATOR_H

#include "proto/buf.h"

#define CALCULATOR_DEPTH 200 /* nested parentheses, calls, signs and powers */

/* Appends the value: integers as such up to 2^53, all others with 15 digits. */
bool calculate(struct str expression, struct buf *out);
/* Whether the name is a function (with a parenthesis after it) or a constant in an expression. */
bool calculator_has_function(struct str name);
bool calculator_has_constant(struct str name);

#endif
