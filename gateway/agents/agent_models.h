/* agent_models -- the models of an agent of kind react, from the configuration: its own, and the
 * fallbacks behind it.
 *
 * Thread:   loop.
 * Owns:     the chain; agent_models_free frees it. The configuration and the fetcher must outlive
 *           it.
 * Errors:   a sentence: a model's API key cannot be read.
 */
#ifndef GATEWAY_AGENTS_AGENT_MODELS_H
#define GATEWAY_AGENTS_AGENT_MODELS_H

#include "gateway/config/config.h"
#include "gateway/fetch/fetch.h"
#include "gateway/models/model.h"

struct secrets;
struct served; /* a model on a server */

struct models_rim {
    const struct config *config; /* names the fallbacks */
    struct fetcher *fetcher;
    struct secrets *secrets; /* gets their keys; NULL: nobody wants them */
};

/* *ret is the chain, also on failure. */
bool agent_models_build(const struct models_rim *rim, const struct config_model *from,
                        struct served **ret, char *ret_error, size_t n) MUST_USE;
const struct model *agent_models_first(const struct served *m);
void agent_models_free(struct served *m); /* NULL is allowed */

#endif
