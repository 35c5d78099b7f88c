/* chat_style -- an answer's Markdown on a terminal: as it stands, lightly styled.
 *
 * Shape:    pieces go in as they come and out with escapes between their bytes.  No byte is held
 *           back, left out or changed: what is copied from the screen is what was said.
 *           Headings and **strong** are bold, code has a colour, quotes are dim.  A style ends with
 *           its line, but for that of a fenced block.
 * Thread:   any; one at a time.
 */
#ifndef GATEWAY_CLI_CHAT_STYLE_H
#define GATEWAY_CLI_CHAT_STYLE_H

#include "proto/buf.h"

/* Zeroed: at the beginning of a text. */
struct chat_style {
    unsigned shown;                      /* styles that the terminal is in */
    bool in_fence;                       /* a block of code is open */
    bool in_line, only_ticks;            /* of this line: not only blanks came; nothing but ` */
    bool is_fence, is_heading, is_quote; /* this line is one */
    bool is_strong;
    unsigned indent, ticks, stars; /* blanks at its start; ` and * in a row */
    unsigned open_ticks;           /* so many opened the code that is open */
};

void chat_style_put(struct chat_style *s, struct str text, struct buf *out);

#endif
