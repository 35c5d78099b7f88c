/* terminal_text -- a command's output as text that can be read, sent and searched.
 *
 * Shape:    terminal_text appends the text of raw bytes: terminals' escape sequences are removed,
 *           "\r\n" becomes "\n", other control characters and invalid bytes become U+FFFD.  An
 *           overwritten line (a carriage return, backspaces, sequences that move in the line or
 *           erase it) appears in its final form.  A character is a column.
 * Rules:    cut says that the bytes begin in the middle: bytes that continue an earlier character
 *           are left out. ended says that no more will come: a character that is cut at the end
 *           then becomes U+FFFD; without ended it is left out, because its rest may still come.
 * Thread:   any.
 */
#ifndef GATEWAY_PROCESSES_TERMINAL_TEXT_H
#define GATEWAY_PROCESSES_TERMINAL_TEXT_H

#include "proto/buf.h"

void terminal_text(struct str bytes, bool cut, bool ended, struct buf *out);

#endif
