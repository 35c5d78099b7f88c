/* chat_token -- the guest's token that the command-line client keeps, one for each gateway.
 *
 * Shape:    $XDG_STATE_HOME/holdfast/chat-HOST-PORT.token, by default below ~/.local/state; mode
 *           0600.
 * Thread:   one.
 * Errors:   without a place for it, the token is not kept.  A file that others may read is not
 *           used.
 */
#ifndef GATEWAY_CLI_CHAT_TOKEN_H
#define GATEWAY_CLI_CHAT_TOKEN_H

#include "gateway/cli/chat_link.h"

char *chat_token_load(const struct chat_url *url); /* free() it; NULL for none */
void chat_token_save(const struct chat_url *url, struct str token);
void chat_token_forget(const struct chat_url *url);

#endif
