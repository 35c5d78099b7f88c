/* chat_style -- an answer's Markdown on a terminal: unchanged, lightly styled.
 *
 * Shape:    pieces go in as they arrive and come out with escapes between their bytes.  No byte is
 *           held back, left out or changed: text copied from the screen is the original.  Headings
 *           and **strong** are bold, code has a colour, quotes are dim.  A style ends with its
 *           line, except that of a fenced block.
 * Thread:   any; one at a time.
 */
#ifndef GATEWAY_CLI_CHAT_STYLE_H
#define GATEWAY_CLI_CHAT_STYLE_H

#include "proto/buf.h"

/* Zeroed: at the beginning of a text. */
struct chat_style {
    unsigned shown;                      /* the terminal's current styles */
    bool in_fence;                       /* a block of code is open */
    bool in_line, only_ticks;            /* in this line: more than blanks so far; nothing but ` */
    bool is_fence, is_heading, is_quote; /* kind of this line */
    bool is_strong;
    unsigned indent, ticks, stars; /* blanks at its start; ` and * in a row */
    unsigned open_ticks;           /* how many opened the current code */
};

void chat_style_put(struct chat_style *s, struct str text, struct buf *out);

#endif
