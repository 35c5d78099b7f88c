/* model_fault -- why a model's turn failed, in a form that a user's program can act on.
 *
 * Thread:   any.
 */
#ifndef GATEWAY_MODELS_MODEL_FAULT_H
#define GATEWAY_MODELS_MODEL_FAULT_H

#include "proto/errors.h"

struct model_fault {
    int status;      /* of the last reply; 0: there was none */
    bool begun;      /* an answer had begun */
    struct str said; /* the whole message */
};

/* From the message where that is clear, otherwise from the status; MODEL_FAULT_OTHER: neither
 * tells. */
enum model_reason model_fault_reason(const struct model_fault *fault);

#endif
