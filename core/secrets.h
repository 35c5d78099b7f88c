/* secrets -- byte strings that must not appear in what passes by: keys, tokens and secrets of the
 * configuration, which programs and servers echo into outputs and errors.
 *
 * Shape:    a set that grows while the gateway starts, and is only read from then on.  A secret is
 *           replaced by SECRET_HIDDEN wherever it stands; in JSON only within strings, however they
 *           escape it, and not within the names of members.
 * Streams:  a text that comes in pieces keeps its last secrets_tail bytes back until more comes, so
 *           that a secret is found however it was cut.
 * Thread:   adding: one, before others read; reading: any.
 * Owns:     copies of the secrets; secrets_free overwrites them.  NULL is an empty set.
 * Limits:   values shorter than SECRET_MIN are words like others, and are not added.
 */
#ifndef CORE_SECRETS_H
#define CORE_SECRETS_H

#include "proto/buf.h"

#define SECRET_MIN 8
#define SECRET_HIDDEN "***"

struct secrets;

struct secrets *secrets_new(void);
void secrets_free(struct secrets *s); /* NULL is allowed */
/* A value that is there already, or too short, adds nothing. */
void secrets_add(struct secrets *s, struct str value);
bool secrets_are_none(const struct secrets *s);

/* Appends the text without its secrets; false, and nothing, when there are none in it. */
bool secrets_hide(const struct secrets *s, struct str text, struct buf *out) MUST_USE;
/* The same for valid JSON. */
bool secrets_hide_json(const struct secrets *s, struct str json, struct buf *out) MUST_USE;
/* How many bytes at its end may be the beginning of a secret. */
size_t secrets_tail(const struct secrets *s, struct str text);

#endif
