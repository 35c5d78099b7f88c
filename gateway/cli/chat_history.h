/* chat_history -- the lines of earlier talks, for the arrow keys of the next one.
 *
 * Shape:    $XDG_STATE_HOME/holdfast/chat-history, by default below ~/.local/state; mode 0600; a
 *           line of the file for each, with \n and \\ for a newline and a backslash.  As in shells,
 *           a line that begins with a blank is not kept.
 * Thread:   one.  Two talks at once append to the same file.
 * Errors:   without a place for it nothing is kept, and nobody is told.
 */
#ifndef GATEWAY_CLI_CHAT_HISTORY_H
#define GATEWAY_CLI_CHAT_HISTORY_H

#include "gateway/cli/chat_edit.h"

void chat_history_load(struct chat_edit *e); /* the newest CHAT_EDIT_PAST */
void chat_history_add(struct str line);

#endif
