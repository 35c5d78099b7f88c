/* chat_edit -- the line at the prompt: cursor movement, corrections, and earlier lines.
 *
 * Shape:    bytes of the keyboard go in one by one; chat_edit_draw writes how the line looks.
 *           Pure: the caller reads the keys, from a terminal that neither echoes nor edits, and
 *           writes the drawing.
 * Keys:     left, right, up, down, Home, End, Delete, Backspace, Ctrl-A B D E F H K N P U W Y; by
 *           words Alt-B D F, Alt-Backspace, and Ctrl with an arrow or Delete; Alt-Enter begins a
 *           new line.  What a terminal brackets as pasted goes in as it is: its newlines end
 *           nothing.
 * Thread:   any; one at a time.
 * Units:    places in the line are bytes, columns are those of the terminal.
 * Owns:     the line and the previous lines, the last 500.
 */
#ifndef GATEWAY_CLI_CHAT_EDIT_H
#define GATEWAY_CLI_CHAT_EDIT_H

#include "proto/buf.h"

#define CHAT_EDIT_PAST 500

struct chat_edit {
    struct buf line;
    size_t at;         /* the cursor */
    struct buf key;    /* an incomplete key of several bytes */
    struct buf cut;    /* what was cut last, for Ctrl-Y */
    struct buf unsent; /* the new line, while an older one is shown */
    char *past[CHAT_EDIT_PAST];
    size_t n_past, shown; /* shown == n_past: the new line */
    bool in_paste;
};

/* EDIT_LINE: Enter, the line is complete.  EDIT_END: Ctrl-D in an empty line. */
enum chat_edit_result { EDIT_MORE, EDIT_LINE, EDIT_END };

enum chat_edit_result chat_edit_take(struct chat_edit *e, char byte);
/* Whether the next byte begins a key: not within one, or in what is pasted. */
bool chat_edit_is_between(const struct chat_edit *e);
/* The line is done with: the next begins empty.  The typed line is kept, but not twice in a row.
 * True when it was kept. */
bool chat_edit_next(struct chat_edit *e);
void chat_edit_clear(struct chat_edit *e); /* the next line begins, and this one is forgotten */
void chat_edit_keep(struct chat_edit *e, struct str line); /* as an earlier line */
/* Puts text at the cursor, as if it had been pasted. */
void chat_edit_insert(struct chat_edit *e, struct str text);
/* From the first column: the prompt, and as much of the line as fits, with the cursor in its
 * place. */
void chat_edit_draw(const struct chat_edit *e, const char *prompt, size_t columns, struct buf *out);
/* How many columns a character takes in most terminals. */
size_t chat_edit_columns(uint32_t code);
void chat_edit_done(struct chat_edit *e);

#endif
