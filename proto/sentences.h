/* sentences -- errors in a sentence for people, and what the machine says besides.
 *
 * Shape:    one table: a sentence for each reason and code of the wire (proto/errors.h).  The page
 *           and the Python client say the same: the lint compares web/client/src/sentences.ts and
 *           clients/python/src/holdfast_client/sentences.py.
 * Thread:   any.
 * Owns:     nothing: sentences are constants, a detail is a part of the message.
 */
#ifndef PROTO_SENTENCES_H
#define PROTO_SENTENCES_H

#include "proto/base.h"

/* A reason says more than its code; unknown ones have a sentence too. */
const char *sentence_of(struct str reason, struct str code);
/* The message without its code in front; empty where the gateway keeps the details for its log
 * (`errors` is "short"), because it says no more than the sentence. */
struct str sentence_detail(struct str code, struct str message);

#endif
