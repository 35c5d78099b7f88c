/* chat_show -- the command-line client's output: the answer on stdout, everything else on stderr.
 *
 * Shape:    the answer's bytes are written unchanged when stdout is a file or a pipe.  On a
 *           terminal, control characters become '?', so that no agent moves the cursor or sets the
 *           title, and asides have a colour, unless NO_COLOR is set.
 * Thread:   one.
 * Owns:     the text so far.
 * Errors:   has_failed: stdout takes no more.
 */
#ifndef GATEWAY_CLI_CHAT_SHOW_H
#define GATEWAY_CLI_CHAT_SHOW_H

#include "gateway/cli/chat_style.h"

struct chat_show {
    bool out_is_terminal, err_is_terminal, has_colour;
    bool in_line;     /* stdout ends with text without a newline */
    bool in_thinking; /* so does stderr */
    bool has_failed;
    bool has_missed;         /* earlier pieces of the answer were shown elsewhere */
    struct buf said;         /* the answer so far */
    struct chat_style style; /* of the answer, on a terminal with colours */
};

void chat_show_init(struct chat_show *show);
void chat_show_done(struct chat_show *show);

void chat_show_token(struct chat_show *show, struct str text);
void chat_show_thinking(struct chat_show *show, struct str text); /* on a terminal only */
/* The whole answer: printed unless the tokens were already it. */
void chat_show_answer(struct chat_show *show, struct str output);
/* So many characters of the answer stay; what comes next begins on a line of its own. */
void chat_show_withdraw(struct chat_show *show, size_t keep);
void chat_show_row(struct chat_show *show, struct str line); /* a line of its own on stdout */
/* A line of its own on stderr. */
void chat_show_aside(struct chat_show *show, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Without a newline: the user types after it. */
void chat_show_prompt(struct chat_show *show, const char *text);
void chat_show_end(struct chat_show *show); /* ends the current line */

#endif
