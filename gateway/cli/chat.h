/* chat -- the command-line client: asks, prints the answer as it arrives, resumes after a break.
 *
 * Shape:    one command of the program, with options of its own (chat_options.c).  Whatever happens
 *           to the connection, the task continues; a user who leaves is told how to come back.
 * Thread:   the program's only one.
 * Errors:   the exit code: 0 answered (or done); 1 not: failed, refused, left early; 2 usage.
 */
#ifndef GATEWAY_CLI_CHAT_H
#define GATEWAY_CLI_CHAT_H

#include "gateway/cli/chat_link.h"

enum chat_what { CHAT_ASK, CHAT_RESUME, CHAT_CANCEL, CHAT_LIST };

struct chat_options {
    enum chat_what what;
    const char *url_text; /* as given; NULL: the default */
    struct chat_url url;
    const char *token;      /* NULL: a guest's */
    const char *token_from; /* where it was given, for an error */
    const char *agent, *conversation;
    char *task;         /* RESUME, CANCEL */
    uint64_t after;     /* RESUME: the last event that was seen */
    struct buf message; /* ASK */
    struct buf attach;  /* ASK: paths of files, a NUL behind each */
    const char *save;   /* a folder for the files that a task gives; NULL: they are only told */
    bool continues;     /* ASK: in the conversation that changed last */
    bool prints_json;   /* the events, instead of the answer */
    bool talks;         /* ASK, without a message, on a terminal: one question after another */
};

/* argv begins with "chat".  False with a sentence for the usage. */
bool chat_options_read(int argc, char **argv, struct chat_options *ret, const char **ret_error)
    MUST_USE;
void chat_options_done(struct chat_options *o);

int chat_run(const struct chat_options *o);

#endif
