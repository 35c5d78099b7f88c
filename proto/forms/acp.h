/* acp -- the Agent Client Protocol, version 1, as its client: one program with one session, and one
 * turn after the other.
 *
 * Shape:    pure: lines of JSON-RPC come in by acp_take; what is to be written to the program is
 *           appended to `out`, and what the task says (lines of PROTOCOL.md section 8) to `said`.
 *           The caller empties both.  Opening, authenticating, making or resuming the session goes
 *           by itself; a prompt waits for it.
 * Turn:     acp_prompt begins one; it is over when `turn` is ACP_DONE or ACP_FAILED (with
 *           `failure`).  What the program says outside of a turn, or while it loads a session, is
 *           dropped: it is in the journal already.
 * Files:    those of a message go along: an image with its data where the program takes images, any
 *           other as a link to its path.  Images, sounds and blobs that the program says become
 *           `gifts`, which the caller takes; a link of the program's is a custom event.
 * Requests: a permission is asked of the user; files go through struct acp_files, terminals through
 *           struct acp_terminals; every other request is refused at once, since the program waits
 *           for ever.
 * Effects:  while `holds` is set, a request that writes a file, or makes or ends a terminal, is
 *           left as it is: `effect_waits` says so, and the caller gives the line to acp_do when it
 *           may begin.
 * State:    what must be known again of a turn by another client of the same program is one JSON
 *           object (acp_put_state); the rest, its prompt and what was answered, comes by acp_go_on.
 * Thread:   any; one at a time.
 * Owns:     its buffers; acp_done frees them.  The options' texts must outlive it.
 * Errors:   `broken` says that the program is of no use any more.  Texts of the program's errors
 *           are told, their data is not: it may echo what was sent.
 */
#ifndef PROTO_FORMS_ACP_H
#define PROTO_FORMS_ACP_H

#include "proto/forms/gift.h"
#include "proto/forms/say.h"

#define ACP_WAITS 64       /* for ends of terminals, open at once */
#define ACP_GIFTS 16       /* files that wait for the caller; further ones are not told */
#define ACP_PERMISSIONS 32 /* that are open at once; a further one is answered "cancelled" */

/* NULL in why: it went well; else a sentence, and ret or the file is as it was. */
struct acp_files {
    const char *(*read)(void *arg, const char *path, struct buf *ret);
    const char *(*write)(void *arg, const char *path, struct str content);
};

/* A command for a terminal.  Lists end with a NULL; NULL for none. */
struct acp_command {
    char **argv, **env; /* env: "NAME=value" */
    size_t n_argv, n_env;
    char *cwd;           /* NULL: the session's */
    size_t output_bytes; /* of its output, the last ones are kept */
    bool again;          /* maybe an earlier client has begun it */
};

/* How a command has ended: a code, or a signal ("SIGTERM"). */
struct acp_exit {
    int code;
    const char *signal; /* NULL: it exited */
};

struct acp_terminals {
    /* NULL: it runs, under that number (not 0); else a sentence. */
    const char *(*create)(void *arg, const struct acp_command *command, unsigned *ret_number);
    bool (*exists)(void *arg, unsigned number);
    /* Appends its output; whether the beginning is missing. */
    bool (*output)(void *arg, unsigned number, struct buf *ret);
    bool (*ended)(void *arg, unsigned number, struct acp_exit *ret); /* false: it runs */
    void (*kill)(void *arg, unsigned number); /* its end is told by acp_terminal_ended */
    void (*release)(void *arg, unsigned number);
};

struct acp_options {
    const char *cwd; /* absolute */
    const char *version;
    const char *auth_method; /* its id; NULL: none is configured */
    /* Members of the list mcpServers, as JSON; NULL for none.  Those over HTTP are for a program
     * that says it can. */
    const char *mcp_stdio, *mcp_http;
    const struct acp_files *files; /* NULL: the program is told that there are none */
    void *files_arg;
    const struct acp_terminals *terminals; /* NULL: the program is told that there are none */
    void *terminals_arg;
};

enum acp_turn { ACP_IDLE, ACP_RUNNING, ACP_DONE, ACP_FAILED };

/* The answer that our one open request of ours will bring.  States have these numbers. */
enum acp_awaits {
    ACP_AWAITS_NOTHING,
    ACP_AWAITS_INITIALIZE,
    ACP_AWAITS_AUTHENTICATE,
    ACP_AWAITS_NEW,
    ACP_AWAITS_RESUME,
    ACP_AWAITS_LOAD,
    ACP_AWAITS_PROMPT
};

struct acp_wait {
    unsigned number; /* of the terminal */
    struct buf id;   /* of the request, as JSON */
};

struct acp_permission {
    unsigned number;
    struct buf id;      /* of the request, as JSON */
    struct buf options; /* as the program gave them */
};

struct acp {
    struct acp_options o;
    enum acp_awaits awaits;
    int64_t id; /* of our last request */
    bool can_load, can_resume, can_mcp_http, can_image, has_authenticated;
    bool resumed; /* the session knows what was before */
    bool broken;
    bool waits_for_files; /* the turn has begun, and its prompt is not sent */
    bool holds;           /* the caller's */
    bool effect_waits;
    bool again;      /* in acp_do */
    bool is_unknown; /* what acp_do did: nobody knows whether it took effect */

    enum acp_turn turn;
    bool cancelled; /* by us */
    bool whole;     /* answer has all of it */
    struct buf input, recap, files;
    struct gift gifts[ACP_GIFTS];
    size_t n_gifts;
    struct buf answer; /* said since the last call of a tool */
    struct buf failure;
    struct buf session; /* its id; "": none yet, or the one to resume */
    struct buf methods; /* of authentication, for a message */
    struct say_calls calls;
    struct buf held; /* a tool_call that does not say yet what it calls with; "" for none */
    struct acp_permission permissions[ACP_PERMISSIONS];
    size_t n_permissions;
    unsigned asked; /* how often */
    struct acp_wait waits[ACP_WAITS];
    size_t n_waits;

    struct js_doc doc, other;
    struct buf text, more; /* scratch */
    struct buf out, said;
};

/* session: to go on with; "" for a new one. */
void acp_open(struct acp *a, const struct acp_options *o, struct str session);
/* recap: the input and what was before, for a session that does not know it.  files: those of the
 * message, an array of {"name","media_type","size","path"}, images that may go along with "data";
 * "" for none, STR_NULL while they are on their way: then the prompt waits for acp_take_files. */
void acp_prompt(struct acp *a, struct str input, struct str recap, struct str files);
void acp_take_files(struct acp *a, struct str files); /* nothing, when no prompt waits for them */
void acp_take(struct acp *a, struct str line);
/* Carries out the request that waits.  again: an earlier client has begun to; what may be done
 * twice is done, and what is seen to be done is told so. */
void acp_do(struct acp *a, struct str line, bool again);
/* The program has ended: so has a turn that was not over. */
void acp_lost(struct acp *a, struct str why);
/* A line {"type":"input",…} of section 8. */
void acp_answer(struct acp *a, struct str line);
/* The same in two steps: what the program is told, for a caller that cannot tell it at once, and
 * that this permission is over.  False: the line answers none that is open. */
bool acp_put_answer(struct acp *a, struct str line, struct buf *out, unsigned *ret_number);
void acp_answered(struct acp *a, unsigned number);
/* Asks the program to end its turn, and answers what it has asked.  False: it cannot be asked now,
 * and is broken. */
bool acp_cancel(struct acp *a);
/* A terminal's command has ended. */
void acp_terminal_ended(struct acp *a, unsigned number);
void acp_done(struct acp *a);

/* Appends the members of its state to an object. */
void acp_put_state(const struct acp *a, struct buf *out);
/* In place of acp_open, for a program that is in the midst of a turn.  False: that is no state;
 * then only acp_done is left. */
bool acp_take_state(struct acp *a, const struct acp_options *o, const struct js_doc *doc,
                    uint32_t object);
/* After acp_take_state: what acp_prompt was given, and what was said since the last call. */
void acp_go_on(struct acp *a, struct str input, struct str recap, struct str files,
               struct str answer);

/* Errors of JSON-RPC, and of the protocol. */
#define RPC_NO_METHOD -32601
#define RPC_BAD_PARAMS -32602
#define RPC_FAILED -32603
#define ACP_NOT_FOUND -32002
#define ACP_UNKNOWN "the gateway restarted while this ran; whether it took effect is unknown"

/* Between acp.c and its parts: params are nodes of doc; more is what else is known of a call, an
 * update or a permission's toolCall, 0 for nothing. */
void acp_update(struct acp *a, uint32_t params);
void acp_tell_held(struct acp *a, uint32_t more);
void acp_permission(struct acp *a, uint32_t id, uint32_t params);
void acp_put_id(struct acp *a, uint32_t id); /* {"jsonrpc":"2.0","id":ID */
void acp_cancel_permissions(struct acp *a);
void acp_put_files(struct acp *a); /* as blocks of a prompt, each behind a comma */
void acp_end(struct acp *a);       /* of params or a result: "}}" and the line's end */
void acp_refuse(struct acp *a, uint32_t id, int code, const char *why);
bool acp_terminal(struct acp *a, uint32_t id, uint32_t params,
                  uint32_t method); /* false: it is no request of theirs */
void acp_terminals_done(struct acp *a);
void acp_keep_answer(struct acp *a, struct str text);

#endif
