/* model_talk -- the messages of a request (model.h), read by the APIs that write them in another
 * form.
 *
 * Output:   what a model's server has produced beside text: reasoning, signatures, encrypted
 *           content, tool blocks.  It stands in the assistant's message that calls tools, as the
 *           member MODEL_OUTPUT, and goes back byte for byte to the API that it came from, and to
 *           no other.
 * Thread:   any.
 * Owns:     nothing; results are nodes of the document.
 */
#ifndef GATEWAY_MODELS_MODEL_TALK_H
#define GATEWAY_MODELS_MODEL_TALK_H

#include "proto/js.h"

#define MODEL_OUTPUT "holdfast_output"

enum model_role { MODEL_SYSTEM, MODEL_USER, MODEL_ASSISTANT, MODEL_TOOL };

/* How an API writes a call in its output. */
struct model_output_form {
    const char *api, *type, *id; /* "responses", "function_call", "call_id" */
};

/* doc's root is the array of messages; message one of its objects. */
enum model_role model_talk_role(const struct js_doc *doc, uint32_t message);
/* Appends the text of a member: a string, or the text parts of an array. */
void model_talk_put_text(const struct js_doc *doc, uint32_t message, const char *name,
                         struct buf *out);
/* The message's "tool_calls"; 0 for none. */
uint32_t model_talk_calls(const struct js_doc *doc, uint32_t message);
/* The items that the message's output has for this API, an array; 0 when there are none, or when
 * they have other calls than the message. */
uint32_t model_talk_output(const struct js_doc *doc, uint32_t message,
                           const struct model_output_form *form);
/* Appends the member for an array of items. */
void model_talk_put_output(struct buf *out, const char *api, struct str items);
/* Before the images of results, where a user's message is made for them. */
#define MODEL_IMAGES "[The images of the results above, in their order:]"

/* Appends messages as Chat Completions want them: without their outputs, files in its form, and the
 * images of results with the user's next message, since a tool's has only text there. */
void model_talk_put_plain(struct buf *out, struct str messages);
/* A call's id, name or arguments, of its function where they stand there; 0 for none. */
uint32_t model_talk_of_call(const struct js_doc *doc, uint32_t call, const char *name);

#endif
