/* chat_show -- the command-line client's output: the answer on stdout, everything else on stderr.
 *
 * Shape:    the answer's bytes are written unchanged when stdout is a file or a pipe.  On a
 *           terminal, control characters become '?', so that no agent moves the cursor or sets the
 *           title, and asides have a colour, unless NO_COLOR is set.  A footer, the prompt of a
 *           talk, stays below all of it: whatever is printed lifts it, and chat_show_settle puts it
 *           back before the program waits.
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
    bool has_footer;         /* the prompt is on the screen: below the cursor's line, or … */
    bool is_parted;          /* … below a line that goes on, whose end the terminal has saved */
    bool is_filled;          /* the open line has ended at the right margin */
    size_t column;           /* of the open line */
    struct buf footer;       /* how it is drawn; empty: there is none */
    bool has_missed;         /* earlier pieces of the answer were shown elsewhere */
    struct buf said;         /* the answer so far */
    struct chat_style style; /* of the answer, on a terminal with colours */
};

void chat_show_init(struct chat_show *show);
void chat_show_done(struct chat_show *show);

void chat_show_begin(struct chat_show *show); /* another answer */
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
/* Without a newline: the user types after it, and the terminal edits. */
void chat_show_prompt(struct chat_show *show, const char *text);
/* A line of the user's, as a part of the conversation. */
void chat_show_typed(struct chat_show *show, const char *prompt, struct str line);
/* The footer is drawn so (chat_edit_draw) from now on; empty: there is none. */
void chat_show_footer(struct chat_show *show, struct str drawing);
void chat_show_settle(struct chat_show *show);
size_t chat_show_columns(void);             /* of the terminal */
void chat_show_end(struct chat_show *show); /* ends the current line */

#endif
