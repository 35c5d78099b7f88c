#include "gateway/models/model_fault.h"

#include <strings.h>

/* Servers' messages, in lower case. */
static const struct {
    const char *words;
    enum model_reason reason;
} phrases[] = {
    {"context length", CONTEXT_TOO_LONG},
    {"context_length", CONTEXT_TOO_LONG},
    {"context window", CONTEXT_TOO_LONG},
    {"context_window", CONTEXT_TOO_LONG},
    {"context size", CONTEXT_TOO_LONG},
    {"context is full", CONTEXT_TOO_LONG},
    {"maximum context", CONTEXT_TOO_LONG},
    {"prompt is too long", CONTEXT_TOO_LONG},
    {"too many tokens", CONTEXT_TOO_LONG},
    {"input is too long", CONTEXT_TOO_LONG},
    {"input token count", CONTEXT_TOO_LONG},
    {"rate limit", MODEL_BUSY},
    {"rate_limit", MODEL_BUSY},
    {"tokens per min", MODEL_BUSY},
    {"requests per min", MODEL_BUSY},
    {"quota", MODEL_BUSY},
    {"too many requests", MODEL_BUSY},
    {"overloaded", MODEL_OVERLOADED},
    {"at capacity", MODEL_OVERLOADED},
    {"invalid api key", MODEL_REFUSED},
    {"incorrect api key", MODEL_REFUSED},
};

static bool has(struct str text, const char *words)
{
    size_t n = strlen(words);
    for (size_t i = 0; i + n <= text.n; i++)
        if (strncasecmp(text.p + i, words, n) == 0)
            return true;
    return false;
}

static enum model_reason by_status(int status)
{
    switch (status) {
    case 0:
    case 502:
    case 504: return MODEL_UNREACHABLE;
    case 401:
    case 402:
    case 403:
    case 404: return MODEL_REFUSED;
    case 413: return CONTEXT_TOO_LONG;
    case 429: return MODEL_BUSY;
    case 503:
    case 529: return MODEL_OVERLOADED;
    default: return MODEL_FAULT_OTHER;
    }
}

enum model_reason model_fault_reason(const struct model_fault *fault)
{
    for (size_t i = 0; i < countof(phrases); i++)
        if (has(fault->said, phrases[i].words))
            return phrases[i].reason;
    return fault->begun ? BROKE_OFF : by_status(fault->status);
}
