/* mcp_form -- a server's question to the user (elicitation), asked and answered as text.
 *
 * Shape:    pure.  mcp_form_read keeps an elicitation/create; mcp_form_put_prompt says it to the
 *           user, always with the server's name; mcp_form_take makes of his answer what the server
 *           gets.
 * Answers:  a form with one field takes its value, one with several a JSON object.  An empty
 *           answer, or "decline", declines.  A form without fields, and a URL that is to be opened,
 *           are questions of yes and no.
 * Thread:   any; one at a time.
 * Owns:     its copies; mcp_form_done frees them.
 * Limits:   below; the URL must begin with http:// or https://, and is never opened by the gateway.
 */
#ifndef PROTO_MCP_MCP_FORM_H
#define PROTO_MCP_MCP_FORM_H

#include "proto/js.h"

#define MCP_FORM_FIELDS 64
#define MCP_FORM_BYTES (32 * 1024) /* of its schema */
#define MCP_FORM_MESSAGE 4096      /* bytes; a longer one is cut */
#define MCP_FORM_URL 2048

struct mcp_form {
    bool is_url;
    struct buf message;
    struct buf schema;   /* JSON: its properties, "{}" for none */
    struct buf required; /* JSON: a list, "[]" for none */
    struct buf url;
    size_t n_fields;
};

enum mcp_verdict { MCP_ACCEPT, MCP_DECLINE, MCP_CANCEL, MCP_AGAIN };

/* False with why: it is no question that can be asked. */
bool mcp_form_read(struct mcp_form *f, const struct js_doc *doc, uint32_t params,
                   const char **ret_why) MUST_USE;
/* Whether it is answered with yes or no (an approval). */
bool mcp_form_is_yes_or_no(const struct mcp_form *f);
/* wrong: what the last answer lacked; "" at first. */
void mcp_form_put_prompt(const struct mcp_form *f, const char *server, struct str wrong,
                         struct buf *out);
/* answer is JSON: a text, true, false or null (nobody answered in time).  MCP_AGAIN: ret has what
 * is wrong with it; else ret has the result for the server: {"action":…}. */
enum mcp_verdict mcp_form_take(const struct mcp_form *f, struct str answer, struct buf *ret);
void mcp_form_done(struct mcp_form *f);

#endif
