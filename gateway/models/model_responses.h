/* model_responses -- models with the API of OpenAI's Responses, on any server.
 *
 * Shape:    model_responses_ops is an adapter for model.h; its settings are stream_settings.  A
 *           turn is one POST, streamed, and stored nowhere (store false): what the model has
 *           thought comes encrypted, and its items go back as they came, with the calls' results.
 *           Deltas of output_text and refusal become text, those of reasoning_summary_text and
 *           reasoning_text thoughts, function_call items calls.
 * End:      response.completed; response.incomplete and response.failed are errors.
 * Thread:   loop.
 * Owns:     the turn, until free, which closes its connection at once.
 * Errors:   see model_stream.h.
 */
#ifndef GATEWAY_MODELS_MODEL_RESPONSES_H
#define GATEWAY_MODELS_MODEL_RESPONSES_H

#include "gateway/models/model_stream.h"

extern const struct model_ops model_responses_ops;

/* The body of a request, an open object; false when the messages are no array. */
bool responses_put_request(const struct stream_settings *s, const struct model_request *request,
                           struct buf *out);

#endif
