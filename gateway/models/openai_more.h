/* openai_more -- members of a call, or of a message, that this gateway does not know, but that its
 * model's server wants back: signatures of thoughts, hidden reasoning, and future inventions.
 *
 * Shape:    openai_more_take keeps an object's members besides the known names; a repeated member
 *           replaces the earlier one.  openai_more_join keeps an array whose objects come in
 *           pieces: pieces of one text are joined again, as OpenRouter's reasoning_details require.
 * Thread:   any; one at a time.
 * Owns:     its members; openai_more_done frees them.
 * Limits:   OPENAI_MORE_BYTES: when it is exceeded, everything kept is forgotten, and nothing is
 *           kept from then on.
 */
#ifndef GATEWAY_MODELS_OPENAI_MORE_H
#define GATEWAY_MODELS_OPENAI_MORE_H

#include "proto/js.h"

#define OPENAI_MORE_BYTES ((size_t)1024 * 1024)

struct openai_member;

struct openai_more {
    struct openai_member *list;
    size_t n, bytes;
    bool is_over; /* the limit was exceeded */
};

/* known: names, followed by a NULL.  Members that are null do not count. */
void openai_more_take(struct openai_more *m, const struct js_doc *doc, uint32_t object,
                      const char *const *known);
/* One member of any type. */
void openai_more_set(struct openai_more *m, struct str name, const struct js_doc *doc,
                     uint32_t value);
/* Appends the objects of an array to those that came before under this name. */
void openai_more_join(struct openai_more *m, const char *name, const struct js_doc *doc,
                      uint32_t array);
/* Appends `"name":value,…`, with a comma before it unless it comes first. */
void openai_more_put(const struct openai_more *m, struct buf *out);
void openai_more_done(struct openai_more *m);

#endif
