/* model -- the port for language models: one turn of the assistant at a time.
 *
 * Shape:    start gets the whole conversation and streams the assistant's next message through
 *           struct model_events: pieces of text, calls of tools, then on_done.  The caller
 *           (agent_react.h) carries out the calls and starts the next turn.
 * Thread:   loop.  Callbacks come at any time after start has returned, never from inside start or
 *           free; they may come from inside unpause.
 * Owns:     the adapter owns the turn until free, which is called exactly once, never from inside a
 *           callback of that turn, and always after on_done or instead of it (that is the cancel).
 * Errors:   a turn that breaks off before its end is an error, never an answer; so is one without a
 *           tool call or a word, unless may_be_empty.
 */
#ifndef GATEWAY_MODELS_MODEL_H
#define GATEWAY_MODELS_MODEL_H

#include "proto/errors.h"

struct model_stats;
struct model_turn; /* defined by the adapter */

/* The input of a model, in the form of OpenAI's chat completions, as compact JSON.  Spans are valid
 * during start only. */
struct model_request {
    struct str messages; /* array of {"role","content"}, assistant's with "tool_calls", tool's with
                            "tool_call_id"; a user's or tool's content may be an array of
                            {"type":"text","text"} and {"type":"file","media_type","name",
                            "data"}, with base64, or instead of it "url", if links_type says so; a
                            tool's has its text first */
    struct str tools;    /* array of {"type":"function","function":{…}}, "[]" for none */
    bool
        may_be_empty; /* once tools have done what was asked, a turn without a word is an end too */
    const struct trace_context *trace; /* of this turn; NULL: none */
};

enum model_piece { PIECE_THINKING, PIECE_TOKEN };

/* more: members of JSON without the braces around them, which go back unchanged; "" for none. */
struct model_call {
    struct str id, name;
    struct str arguments;           /* as the model wrote them: an object's JSON, if correct */
    struct str more, function_more; /* further members of the call, and of its "function" */
};

/* The cost of a turn, counted by its server.  cached_tokens: of the prompt, read from a cache. */
struct model_usage {
    int64_t prompt_tokens, completion_tokens, cached_tokens;
};

/* A count as its server tells it: one that no turn can have is none, so sums stay far from the end
 * of the type. */
#define MODEL_MOST_TOKENS ((int64_t)1 << 40)
static inline int64_t model_count(int64_t told)
{
    return told > 0 && told <= MODEL_MOST_TOKENS ? told : 0;
}

static inline void model_usage_add(struct model_usage *to, const struct model_usage *usage)
{
    to->prompt_tokens += usage->prompt_tokens;
    to->completion_tokens += usage->completion_tokens;
    to->cached_tokens += usage->cached_tokens;
}

struct model_events {
    /* Whole characters.  Returns false when no more is wanted for now: the adapter stops until
     * unpause; it may still hand in what it already has. */
    bool (*on_piece)(void *user, enum model_piece kind, struct str text);
    void (*on_tool_call)(void *user, const struct model_call *call);
    /* The answer so far in this turn turned out to be a thought: it is not kept. */
    void (*on_unsaid)(void *user);
    /* Further members of the assistant's message, which go back when it calls tools: its thoughts.
     * At most once, before on_done. */
    void (*on_more)(void *user, struct str members);
    /* At most once, before on_done. */
    void (*on_usage)(void *user, const struct model_usage *usage);
    /* Exactly once, last, unless free comes first.  STR_NULL: success; otherwise reason is the kind
     * of fault. */
    void (*on_done)(void *user, enum model_reason reason, struct str error);
};

struct model_ops {
    const char *kind; /* "builtin" */
    /* NULL with a sentence in ret_error (256 bytes) when the turn cannot start. */
    struct model_turn *(*start)(void *settings, const struct model_request *request,
                                const struct model_events *events, void *user, char *ret_error);
    void (*unpause)(struct model_turn *turn);
    void (*free)(struct model_turn *turn); /* NULL is allowed */
};

/* Files of messages that a model can be given, and images of tools' results. */
enum model_takes { MODEL_TAKES_IMAGES = 1, MODEL_TAKES_FILES = 2, MODEL_TAKES_RESULTS = 4 };

/* One configured model. */
struct model {
    const char *name;
    const struct model_ops *ops;
    void *settings;
    size_t context_bytes;                      /* of its input messages; 0: any */
    unsigned takes;                            /* enum model_takes */
    bool (*takes_type)(struct str media_type); /* of these; NULL: all */
    bool (*links_type)(struct str media_type); /* of files with an id; NULL: of none */
    struct model_stats *stats;                 /* of one agent; NULL: nobody counts */
    const struct model *fallback; /* takes over a turn that failed without output; NULL: none */
};

#endif
