/* titles -- a conversation's title by a model, when the operator has named one (titles.model).
 *
 * Shape:    when the first turn of a listed conversation has ended well, and its title still is
 *           that of its first message, the model gets the beginnings of question and answer, and
 *           says a title.  The store takes it only if the title is still the same (OP_TITLE): what
 *           the owner or an agent has said meanwhile stays.
 * Task:     none: nothing waits for a title.  One that fails, or that a stop of the gateway cuts,
 *           is not asked for again.
 * Thread:   loop.
 * Owns:     its own connection to the model, without its fallbacks and retries; what is under way.
 * Limits:   below; titles.max_tokens, titles.timeout_s.
 */
#ifndef GATEWAY_AGENTS_TITLES_H
#define GATEWAY_AGENTS_TITLES_H

#include "core/hub.h"
#include "gateway/config/config.h"
#include "gateway/fetch/fetch.h"
#include "gateway/models/model.h"

#define TITLES_AT_ONCE 32         /* that the model is asked for; further ones are left */
#define TITLE_QUESTION_BYTES 4096 /* of the question, for the model */
#define TITLE_ANSWER_BYTES 2048   /* of the answer */

struct secrets;
struct titles;

/* Counters.  too_many: not asked for, as so many others were under way. */
struct titles_stats {
    uint64_t said, failed, too_many;
};

/* Without titles.model it asks nobody.  NULL with a sentence in ret_error when the model's API key
 * cannot be read.  The configuration, the hub and the fetcher must outlive it. */
struct titles *titles_open(const struct config *config, struct hub *hub, struct fetcher *fetcher,
                           struct secrets *secrets, char *ret_error, size_t n);
/* A task was created, runs or has ended, and that is committed.  all: NULL is allowed, here and
 * below: it is closed, or not open yet. */
void titles_reported(struct titles *all, const struct task_record *task);
/* Calls visit for the model, as that of the agent "". */
void titles_each_model(const struct titles *all,
                       void (*visit)(void *arg, const char *agent, const struct model *model),
                       void *arg);
struct titles_stats titles_stats(const struct titles *all);
void titles_close(struct titles *all); /* before the hub, and when the store is closed */

/* Appends what a model said as a title: its first line that has a word, at most AUTO_TITLE_CHARS
 * characters, without double quotes, signs of Markdown around it, control characters and runs of
 * blanks.  Nothing if nothing is left. */
void title_put_clean(struct str said, struct buf *out);

#endif
