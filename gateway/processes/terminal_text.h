/* terminal_text -- what a command has printed, as text that can be read, sent and searched.
 *
 * Shape:    terminal_text appends the text of raw bytes: escape sequences of terminals go, "\r\n"
 *           becomes "\n", other control characters and invalid bytes become U+FFFD.  A line that
 *           is written over (a carriage return, backspaces, sequences that move in the line or
 *           erase it) is what stands there in the end.  A character is a column.
 * Rules:    cut says that the bytes begin in the middle of things: what continues a character that
 *           began before is left out.  ended says that no more will come: a character that is cut
 *           at the end becomes U+FFFD then, and is left out else, for its rest is still to come.
 * Thread:   any.
 */
#ifndef GATEWAY_PROCESSES_TERMINAL_TEXT_H
#define GATEWAY_PROCESSES_TERMINAL_TEXT_H

#include "proto/buf.h"

void terminal_text(struct str bytes, bool cut, bool ended, struct buf *out);

#endif
