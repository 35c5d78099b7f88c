/* auth -- identifies connections: verifies tokens, creates guests (PROTOCOL.md section 2).
 *
 * Shape:    one function, auth_check, for WebSocket and HTTP alike.  Keys are read once and kept
 *           parsed; jwt.h knows a token's format, this file decides which tokens to believe.
 * Thread:   any; a struct auth is const after auth_open.  With a set of keys (jwks.h): loop.
 * Owns:     its keys (wiped by auth_close); a set stays the caller's.
 * Errors:   auth_open lists all faults, one a line, in the form of config.h.  auth_check puts a few
 *           words into identity.error, never any part of the token: they are for the log, not for
 *           the client.
 */
#ifndef GATEWAY_AUTH_AUTH_H
#define GATEWAY_AUTH_AUTH_H

#include "core/session.h"

struct config;
struct file_link;
struct auth;
struct jwks;

#define GUEST_PREFIX "guest-"
#define MAX_TENANT 64 /* bytes; an owner with one is TENANT/SUB (auth.tenant_claim) */
#define UNKNOWN_GUEST \
    "unknown guest" /* begins the error for a client that may start anew without a token */

/* Reads the key files and, when guests are served, <data_dir>/guest.key, which is created when
 * missing (data_dir must exist).  data_dir NULL: the guest key is made up and not kept
 * (check-config).  NULL with faults appended to ret_faults. */
struct auth *auth_open(const struct config *config, const char *data_dir, struct buf *ret_faults)
    MUST_USE;
void auth_close(struct auth *auth);
/* The set counts beside its keys from now on. */
void auth_set_jwks(struct auth *auth, struct jwks *jwks);

/* Identifies the client.  Exactly one token counts: hello.token, or the bearer, or the cookie's
 * value, in this order; each is STR_NULL when absent ("" is a token, and a bad one).  Without any
 * token, and if guests are served: a new guest with a token of its own in ret->token (HTTP creates
 * no guests: do not call this without a token). ret->expires_at_ms is the token's exp; the token is
 * accepted for TOKEN_LEEWAY_S more.  When ret->error begins with UNKNOWN_GUEST, the client may
 * start anew without a token.  ret->later: its key is not known yet, but may be soon. */
bool auth_check(const struct auth *auth, struct str hello_token, struct str bearer,
                struct str cookie, int64_t wall_ms, struct identity *ret) MUST_USE;

/* The token of an Authorization header, STR_NULL when that is absent or of another scheme. */
struct str auth_bearer(struct str authorization);
/* The value of the configured cookie in a Cookie header, STR_NULL when there is none, or when the
 * configuration names no cookie. */
struct str auth_cookie(const struct auth *auth, struct str cookie_header);
/* Whether a text can be an owner: 1 to 255 bytes, no controls. */
bool auth_is_owner(struct str text);
bool auth_serves_guests(const struct auth *auth);

/* Appends a token for sub, an owner (with its tenant), signed with the first HS256 key or, when no
 * keys are configured, with the gateway's own.  False with a sentence in ret_error when there is no
 * key to sign with or sub may not be an owner. */
bool auth_token(const struct auth *auth, struct str sub, int64_t ttl_s, int64_t wall_ms,
                struct buf *out, char ret_error[128]) MUST_USE;

/* Appends a token with these claims (the members of an object, without braces), signed with a key
 * that only the gateway has: auth_check takes it, whatever keys are configured.  False: there is no
 * such key. */
bool auth_sign(const struct auth *auth, struct str members, int64_t wall_ms, struct buf *out)
    MUST_USE;

/* Appends the proof that a URL of this file has (file_link.h).  False: there is no key. */
bool auth_sign_file(const struct auth *auth, const struct file_link *link, int64_t wall_ms,
                    struct buf *out) MUST_USE;
/* Identifies the bearer of such a URL, whose path names what link has but the owner: he may read
 * this file and nothing else.  False: the proof is not good, for whatever reason. */
bool auth_check_file(const struct auth *auth, const struct file_link *link, struct str proof,
                     int64_t wall_ms, struct identity *ret) MUST_USE;

#endif
