/* model_builtin -- the model that is always available: a few rules and no language model.
 *
 * Shape:    model_builtin_ops is an adapter for model.h; its settings are builtin_settings.  Its
 *           answer is decided at once (model_rules.h), then streamed word by word: always the same
 *           for the same conversation.  It needs no network and says that it is no language model.
 * Thread:   loop.
 * Owns:     the turn, until its handle has closed: a turn of the loop after free. settings stay the
 *           caller's and must outlive the turns.
 * Errors:   start: messages that are not a JSON array.  A user who asks it to fail gets an error.
 */
#ifndef GATEWAY_MODELS_MODEL_BUILTIN_H
#define GATEWAY_MODELS_MODEL_BUILTIN_H

#include <uv.h>

#include "gateway/models/model.h"

#define BUILTIN_PACE_MS 15      /* a good pace_ms: comfortable to read */
#define BUILTIN_SLOW_PACE_MS 50 /* "slowly" */

struct builtin_settings {
    uv_loop_t *loop;
    unsigned pace_ms; /* between words; 0: as fast as they are taken */
};

extern const struct model_ops model_builtin_ops;

#endif
