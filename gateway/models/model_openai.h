/* model_openai -- models with the API of OpenAI's chat completions, on any server.
 *
 * Shape:    model_openai_ops is an adapter for model.h; its settings are openai_settings.  A turn
 *           is one POST, streamed: content becomes text, reasoning_content (or reasoning) becomes
 *           thoughts, pieces of tool calls are joined, usage is reported.  A server that does not
 *           stream is understood too.
 * End:      [DONE] is the end, and so is the last bracket of a reply in one piece, whatever happens
 *           to the connection; finish_reason is, OPENAI_GRACE_MS later.
 * Empty:    a reply without a call, a thought or a word is requested again, as one of the retries.
 * Thread:   loop.
 * Owns:     the turn, until free, which closes its connection at once. settings and everything that
 *           they point to stay the caller's and must outlive the turns, which only write
 *           without_usage.
 * Errors:   those of fetch.h, and: an error object, even in mid-stream; a stream that ends without
 *           finish_reason and [DONE]; finish_reason length or content_filter; a reply in another
 *           form; a turn of thoughts alone; replies that stay empty.  Earlier pieces were already
 *           sent, and remain.
 */
#ifndef GATEWAY_MODELS_MODEL_OPENAI_H
#define GATEWAY_MODELS_MODEL_OPENAI_H

#include "gateway/fetch/fetch.h"
#include "gateway/models/model.h"

#define OPENAI_REPLY_BYTES (4 * 1024 * 1024) /* of a reply in one piece */

struct openai_settings {
    struct fetcher *fetcher;
    struct fetch_options options;
    const char *url;            /* …/chat/completions */
    const char *model;          /* the model's name there */
    const char *think_tag;      /* around thoughts in content (think_tags.h); NULL: none */
    const char *effort;         /* how much it thinks, a word of its server; NULL: its default */
    uint32_t max_tokens;        /* of an answer; 0: as its server has it */
    const char *const *headers; /* "Name: value", Content-Type too; followed by a NULL */
    bool without_usage;         /* its server refuses stream_options: later turns do not ask */
};

extern const struct model_ops model_openai_ops;

#endif
