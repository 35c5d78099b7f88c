/* model_openai -- models behind OpenAI's chat completions, whoever serves them.
 *
 * Shape:    model_openai_ops is an adapter behind model.h; its settings are openai_settings.  A
 *           turn is one POST, streamed: content is said, reasoning_content (or reasoning) is
 *           thought, pieces of tool calls are put together, usage is told.  A server that does not
 *           stream is understood too.
 * End:      [DONE] is the end, and so is the last bracket of a reply in one piece, whatever becomes
 *           of the connection; finish_reason is, OPENAI_GRACE_MS later.
 * Empty:    a reply without a call, a thought or a word is asked for again, as one of the retries.
 * Thread:   loop.
 * Owns:     the turn, until free, which closes its connection at once.  settings and all that they
 *           point to stay the caller's and must outlive the turns, which write without_usage alone.
 * Errors:   what fetch.h says, and: an error object, also in mid-stream; a stream that ends without
 *           finish_reason and [DONE]; finish_reason length or content_filter; what is no such
 *           reply; a turn of thoughts alone; replies that stay empty. Pieces that came before were
 *           told, and stay so.
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
    const char *model;          /* its name there */
    const char *think_tag;      /* around thoughts in content (think_tags.h); NULL: none */
    const char *const *headers; /* "Name: value", Content-Type too; a NULL behind the last */
    bool without_usage;         /* its server refuses stream_options: no turn asks again */
};

extern const struct model_ops model_openai_ops;

#endif
