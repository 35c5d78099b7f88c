/* chat_private -- what the parts of the command-line client share; no other file includes it.
 *
 * Shape:    chat.c has the connection, the requests and the end; chat_lines.c handles the gateway's
 *           lines; chat_talk.c has the prompt of a terminal, and chat_command.c its commands;
 *           chat_attach.c sends files, and chat_save.c saves them.
 * Thread:   the program's only one.
 */
#ifndef GATEWAY_CLI_CHAT_PRIVATE_H
#define GATEWAY_CLI_CHAT_PRIVATE_H

#include <termios.h>

#include "gateway/cli/chat.h"
#include "gateway/cli/chat_edit.h"
#include "gateway/cli/chat_question.h"
#include "gateway/cli/chat_show.h"
#include "proto/js.h"

/* IDLE: a talk waits for the next question, or a question for its files. */
enum chat_state {
    CHAT_CONNECTING,
    CHAT_GREETING,
    CHAT_IDLE,
    CHAT_ASKING,
    CHAT_FOLLOWING,
    CHAT_OVER
};

/* A file of the conversation. */
struct chat_file {
    char *id, *name;
    int64_t size;
};

#define CHAT_ATTACHED 32 /* files of one question */

struct chat_attachment;
struct chat_saving;

struct chat {
    const struct chat_options *o;
    enum chat_state state;
    int code; /* the exit code, when over */
    uv_loop_t loop;
    struct chat_link link;
    uv_timer_t again;
    uv_signal_t sigint, sigterm, sigtstp, sigcont, sigwinch;
    uv_prepare_t settle; /* a talk's prompt is put back before the loop waits */
    uv_poll_t keyboard;
    struct chat_show show;
    struct js_doc doc;
    struct str line; /* that is taken: of which doc is */
    char *token;     /* NULL: a new guest */
    char request_key[33];
    struct buf message;              /* the question; empty in an idle talk */
    char *agent;                     /* NULL: the default */
    struct buf agents;               /* the available ones, one a line; a string */
    char *conversation, *task;       /* NULL until started */
    uint64_t seen;                   /* newest event */
    uint64_t epoch;                  /* of the history that seen is of: PROTOCOL.md 4 */
    uint64_t epoch_now;              /* the gateway's */
    uint64_t broken_at;              /* on the loop's clock */
    uint64_t away_ms;                /* goaway: how long to stay away at most */
    uint64_t retry_ms;               /* the gateway is busy: when to ask again */
    struct chat_questions questions; /* of the agent, open */
    struct buf typed;                /* by a terminal that edits: an incomplete line */
    struct buf waiting;              /* lines of a talk for after the answer, a NUL behind each */
    struct chat_edit edit;           /* a talk's prompt */
    struct termios cooked;           /* the terminal's original mode */
    struct buf older_than;           /* --list: the id of the last row */
    struct buf to_follow;            /* tasks that run in the conversation too, a NUL behind each */
    struct chat_attachment **attached;
    size_t n_attached;
    struct chat_file *files; /* those that /save knows */
    size_t n_files;
    struct chat_saving *saving; /* under way */
    int end_code;               /* has_ended: for when all is saved */
    unsigned n_waiting;
    unsigned n_chosen; /* how often a command chose another conversation */
    unsigned attempts; /* since the last welcome */
    bool is_stored_token;
    bool is_stopping; /* a talk's answer was cancelled */
    bool talk_began;
    bool has_looked_back; /* --continue: the conversation is known, or there is none */
    bool is_warned;       /* the last thing typed was a Ctrl-C */
    bool was_welcome;
    bool is_broken;
    bool may_miss_answers; /* the connection broke, and the task's events are not caught up yet */
    bool is_raw;           /* this program edits: in a talk */
    bool has_attached;     /* those of --attach */
    bool has_ended;        /* the task has */
    bool has_not_saved;    /* a file could not be saved */
    bool tells_questions;  /* several tasks are followed: each says what it answers */
};

/* chat.c */
void chat_finish(struct chat *c, int code); /* the first code counts */
void chat_give_up(struct chat *c, const char *why);
void chat_ask(struct chat *c);     /* this run's request, or its resume */
void chat_new_key(struct chat *c); /* the next chat is a new one */
/* Begins a request: {"type":…,"id":… with the type as id.  The caller adds members and sends it. */
struct buf chat_request(const char *type);
void chat_put_task(struct chat *c, struct buf *out);
void chat_send(struct chat *c, struct buf *request); /* and frees it */

/* chat_lines.c: takes one line from the gateway */
void chat_take_line(void *arg, struct str line); /* arg: the struct chat */

/* Answers the question that is asked. */
void chat_answer(struct chat *c, struct str typed);
/* Shows the next open question, if there is one, and listens for its answer. */
void chat_ask_user(struct chat *c);

/* chat_errors.c: a member of the line that is taken; "" and 0 for what is none.  The caller frees
 * the string. */
char *chat_member(struct chat *c, uint32_t object, const char *key);
int64_t chat_number(struct chat *c, uint32_t object, const char *key);
void chat_take_error(struct chat *c); /* the line that is taken is one */

/* chat_command.c: what begins with a slash in a talk.  UNKNOWN: meant as a command, but there is
 * none of that name.  NOW: obeyed while an answer comes; the others wait for its end. */
enum chat_command { CHAT_COMMAND_NONE, CHAT_COMMAND_UNKNOWN, CHAT_COMMAND_LATER, CHAT_COMMAND_NOW };
enum chat_command chat_command_of(const char *line);
void chat_command_obey(struct chat *c, const char *line); /* or says what is wrong with it */
void chat_command_complete(struct chat *c);               /* the line at the prompt, for Tab */
void chat_command_list(struct chat *c, int limit);        /* asks for the newest conversations */
/* Asks for the end of the conversation, and for the tasks that run in it. */
void chat_command_look_back(struct chat *c);
/* Whether the line that is taken answers that for the conversation that is chosen now. */
bool chat_command_still_wants(struct chat *c);
/* True also where the gateway tells of no agents. */
bool chat_command_has_agent(const struct chat *c, const char *wanted);
void chat_command_put_agents(const struct chat *c, struct buf *out); /* "a, b" */

/* chat_talk.c */
void chat_talk_begin(struct chat *c); /* once: the terminal is its own from now on */
void chat_talk_idle(struct chat *c);  /* an answer has ended, or there was none yet */
void chat_talk_line(struct chat *c, struct str typed);
void chat_talk_forget(struct chat *c); /* the task that was followed */
/* It is followed when those before it have ended. */
void chat_talk_follow(struct chat *c, struct str task);
/* Follows what is to be followed, then asks what waits: whatever there is, while it is idle. */
void chat_talk_go_on(struct chat *c);
void chat_talk_take_back(struct chat *c); /* the waiting lines, to the prompt */
/* Keys, while is_raw. */
void chat_talk_keys(struct chat *c, const char *keys, size_t n);
void chat_talk_draw(struct chat *c);      /* what the prompt depends on has changed */
void chat_talk_again(struct chat *c);     /* the program was stopped, or its terminal resized */
void chat_talk_leave(struct chat *c);     /* and tells how to come back */
bool chat_talk_stop(struct chat *c);      /* false when there is nothing (more) to stop */
void chat_talk_send_stop(struct chat *c); /* the task to stop is known */
bool chat_talk_interrupt(struct chat *c); /* Ctrl-C; false: it leaves */
void chat_talk_cooked(struct chat *c);    /* restores the terminal's mode, if it is raw */

/* chat_attach.c: files that go along with the next question. */
void chat_attach(struct chat *c, const char *path); /* or says why not */
bool chat_attach_is_busy(const struct chat *c);
void chat_attach_ready(struct chat *c); /* the question that waited for them goes on */
void chat_attach_put_message(const struct chat *c, struct buf *request);
void chat_attach_asked(struct chat *c); /* the task has them */
bool chat_attach_stop(struct chat *c);  /* what is under way; false: nothing is */
void chat_attach_drop(struct chat *c);

/* chat_save.c: files of the conversation, to this machine. */
size_t chat_save_know(struct chat *c, struct str id, struct str name,
                      int64_t size); /* its number */
void chat_save_forget(struct chat *c);
void chat_save_list(struct chat *c);
void chat_save(struct chat *c, const char *words);
/* The task has given a file: with --save it is saved. */
void chat_save_given(struct chat *c, const char *file_id, const char *name);
void chat_save_end(struct chat *c, int code); /* the program ends, when all is saved */
bool chat_save_stop(struct chat *c);          /* what is under way; false: nothing is */
void chat_save_tell_unfinished(struct chat *c);

#endif
