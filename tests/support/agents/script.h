/* script -- the parts of the scripted agent: its program, and the verbs that its parts carry out.
 *
 * Shape:    a step is a node of the program: an object whose first member is the verb and its
 *           value, with options after it. stdin brings the run line, and further lines after it.
 * Thread:   one.
 * Errors:   a step that cannot be carried out ends the process with 1, and says why on stderr.
 */
#ifndef TESTS_SUPPORT_AGENTS_SCRIPT_H
#define TESTS_SUPPORT_AGENTS_SCRIPT_H

#include "proto/js.h"

typedef uint32_t node;

extern struct js_doc program; /* the run's input */
extern struct js_doc run;     /* the first line */
extern struct js_doc *heard;  /* the lines after it */
extern size_t n_heard;

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From a step.  A missing option is 0, is not set, and its number is `otherwise`. */
node verb_of(node step);
node value_of(node step);
node option(node step, const char *key);
bool is_set(node step, const char *key);
double number(node at, double otherwise);
char *text(const struct js_doc *doc, node at); /* a string's value; the caller frees it */
/* Appends `"key":value,…`: all members of the step except those named (NULL ends the names). */
void put_members(struct buf *out, node step, const char *const *without);

/* Sends an event with one member, a string. */
void say_text(const char *name, const char *key, struct str value);
void say(struct buf *line); /* with its '\n'; frees it */

/* Verbs: say.c */
void token(node step);
void thinking(node step);
void final_answer(node step);
void progress(node step);
void custom(node step);
void result(node step);
void question(node step);
void line_step(node step);
void raw(node step);
void hex(node step);
void line_of(node step);
void stderr_step(node step);
void flood(node step);
/* calls.c */
void hear(node step);
void call(node step);
void answer(node step);
/* system.c */
void wait_step(node step);
void touch(node step);
void count(node step);
void dump(node step);
void grandchild(node step);

#endif
