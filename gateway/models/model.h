/* model -- the port behind which language models lie: one turn of the assistant at a time.
 *
 * Shape:    start is given the whole conversation and streams the assistant's next message through
 *           struct model_events: pieces of text, calls of tools, then on_done.  Whoever drives it
 *           (agent_react.h) carries out the calls and starts the next turn.
 * Thread:   loop.  Callbacks come at any time after start has returned, never from inside start or
 *           free; they may come from inside unpause.
 * Owns:     the adapter owns the turn until free, which is called exactly once, never from inside a
 *           callback of that turn, and always after on_done or instead of it (that is the cancel).
 * Errors:   a turn that breaks off before its end is an error, never an answer; so is one that has
 *           neither called a tool nor said a word, unless may_be_empty.
 */
#ifndef GATEWAY_MODELS_MODEL_H
#define GATEWAY_MODELS_MODEL_H

#include "proto/errors.h"

struct model_turn; /* the adapter's */

/* What the model is given, in the form of OpenAI's chat completions, as compact JSON.  Spans live
 * during start only. */
struct model_request {
    struct str messages; /* array of {"role","content"}, assistant's with "tool_calls", tool's with
                            "tool_call_id" */
    struct str tools;    /* array of {"type":"function","function":{…}}, "[]" for none */
    bool
        may_be_empty; /* after tools have done what was asked a turn without a word is an end too */
};

enum model_piece { PIECE_THINKING, PIECE_TOKEN };

/* more: members of JSON without the braces around them, which go back as they came; "" for none. */
struct model_call {
    struct str id, name;
    struct str arguments;           /* as the model wrote them: an object's JSON, if it did well */
    struct str more, function_more; /* further members of the call, and of its "function" */
};

/* What a turn has cost, as its server counts. */
struct model_usage {
    int64_t prompt_tokens, completion_tokens;
};

struct model_events {
    /* Whole characters.  Returns false when no more is wanted for now: the adapter stops until
     * unpause; what it has already may still be handed in. */
    bool (*on_piece)(void *user, enum model_piece kind, struct str text);
    void (*on_tool_call)(void *user, const struct model_call *call);
    /* The answer that was told so far in this turn was a thought: it is no part of what is kept. */
    void (*on_unsaid)(void *user);
    /* Further members of the assistant's message, which go back when it calls tools: what was
     * thought.  Once at most, before on_done. */
    void (*on_more)(void *user, struct str members);
    /* Once at most, before on_done. */
    void (*on_usage)(void *user, const struct model_usage *usage);
    /* Exactly once, last, unless free comes first.  STR_NULL: it ended well; else reason says what
     * kind of fault the error is. */
    void (*on_done)(void *user, enum model_reason reason, struct str error);
};

struct model_ops {
    const char *kind; /* "builtin" */
    /* NULL with a sentence in ret_error (256 bytes) when the turn cannot be started. */
    struct model_turn *(*start)(void *settings, const struct model_request *request,
                                const struct model_events *events, void *user, char *ret_error);
    void (*unpause)(struct model_turn *turn);
    void (*free)(struct model_turn *turn); /* NULL is fine */
};

/* One configured model. */
struct model {
    const char *name;
    const struct model_ops *ops;
    void *settings;
    size_t context_bytes;         /* of messages that it can be given; 0: any */
    const struct model *fallback; /* takes a turn that failed before it was told; NULL: none does */
};

#endif
