/* chat_errors -- an error of the gateway in words, for a person at a terminal.
 *
 * Thread:   any.
 * Owns:     nothing; the caller frees the words.
 */
#ifndef GATEWAY_CLI_CHAT_ERRORS_H
#define GATEWAY_CLI_CHAT_ERRORS_H

#include "proto/js.h"

/* A sentence; below it what the machine says besides, where the gateway tells it. */
char *chat_error_words(const struct js_doc *doc, uint32_t error);

#endif
