/* model_anthropic -- models with Anthropic's Messages API, on any server.
 *
 * Shape:    model_anthropic_ops is an adapter for model.h; its settings are stream_settings.  A
 *           turn is one POST, streamed.  Deltas of text become text, those of thinking thoughts,
 *           tool_use blocks calls.  Blocks are put together as they came, with signatures,
 *           encrypted thoughts and citations, and go back so with the calls' results.
 * End:      message_stop; stop_reason max_tokens, model_context_window_exceeded and refusal are
 *           errors.
 * Usage:    the prompt's tokens include those written to and read from the cache.
 * Thread:   loop.
 * Owns:     the turn, until free, which closes its connection at once.
 * Errors:   see model_stream.h.
 */
#ifndef GATEWAY_MODELS_MODEL_ANTHROPIC_H
#define GATEWAY_MODELS_MODEL_ANTHROPIC_H

#include "gateway/models/model_stream.h"

#define ANTHROPIC_VERSION "2023-06-01" /* the header anthropic-version */
#define ANTHROPIC_MAX_TOKENS 8192      /* of an answer; the API wants a number */

extern const struct model_ops model_anthropic_ops;

/* The body of a request, an open object; false when the messages are no array. */
bool anthropic_put_request(const struct stream_settings *s, const struct model_request *request,
                           struct buf *out);

#endif
