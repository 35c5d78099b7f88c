/* session -- one client's side of the protocol, over any transport.
 *
 * Shape:    messages in (session_receive), messages out (session_fill), and a table of callbacks
 *           into the rim.  Requests run one after the other, so that replies keep their order;
 *           events come in between.  Its memory is bounded: 64 replies, cursors, newest states.
 *
 *             HELLO ──hello──▶ OPEN ──close──▶ CLOSING        (a fault in HELLO closes: 4401)
 * Thread:   loop.
 * Owns:     its subscriptions and replies.  The rim owns the session and ends it by session_done.
 */
#ifndef CORE_SESSION_H
#define CORE_SESSION_H

#include "core/bucket.h"
#include "core/call.h"

#define HEARTBEAT_MS 20000
#define TOKEN_LEEWAY_S 30 /* how long a token is accepted after its exp, and before its nbf */

struct identity {
    char owner[MAX_OWNER + 1];
    size_t owner_len;
    char quota[64];        /* against whom its tasks count, when not the owner: all guests of one
                            * address count as one; "" for the owner */
    int64_t expires_at_ms; /* Unix ms; 0 for never */
    bool later;            /* refused for now: the token may be good in a moment */
    bool is_admin;         /* an operator: the token has auth.admin_claim */
    struct buf token;      /* a guest's token for the client; empty for none; receiver frees */
    struct rights *rights; /* a reference, the receiver's; NULL: all of the owner's */
    char error[128];       /* the reason when authenticate returns false */
};

struct session_ops {
    /* Verifies the token: hello.token, or STR_NULL.  Fills identity, or its error. */
    bool (*authenticate)(struct session *s, struct str token, struct identity *ret);
    /* Stops (true) or resumes (false) the delivery of messages. */
    void (*hold)(struct session *s, bool hold);
    /* Sends what the session has, because it was woken.  Called at the end of the turn. */
    void (*flush)(struct session *s);
};

enum session_state { SESSION_HELLO, SESSION_OPEN, SESSION_CLOSING };

struct coded_hello;
struct opening;
struct watching;

/* Text of a followed task is sent once in so many ms, joined. */
struct rollup {
    struct subscription *subscription;
    uint32_t every_ms;
    msec_t text_at;       /* when text was sent last */
    struct timer due;     /* armed: text is held back until then … */
    size_t held;          /* … so many bytes behind the cursor, which are text */
    uint64_t exact_until; /* text up to this seq is not joined: the client may have half of it */
};

/* A followed task.  Each idle client has one (bench/README.md, `idle`). */
struct subscription {
    struct list in_session;
    struct list ready;
    struct cursor cursor;
    struct session *session;
    struct rollup *rollup; /* NULL: text is sent as it comes */
    uint64_t caught_up_at;
    uint32_t since; /* when the resume arrived: the low half of now_ms */
    bool opened;    /* by the opening of its conversation; otherwise the client asked for it */
    bool watched;   /* of the session's watching (watching.h), which tells cursors */
    bool coalesce;
    bool marks; /* caught_up is still to be sent, at caught_up_at */
};

/* An opened conversation, or (conversation NULL) the owner's watch. */
struct opening {
    struct list in_session;
    struct list ready;
    struct follower follower; /* in the conversation, with follow */
    struct session *session;
    struct conversation *conversation;
    struct feed_reader reader;
    bool held;  /* its snapshot has not been sent yet */
    bool fresh; /* the first snapshot of this opening */
    bool follow;
    uint32_t rollup_ms;       /* of those that it follows */
    char newest[TASK_ID_LEN]; /* in the snapshot: newer ones are followed from event 1 */
};

/* A client's requests and their answers: only while there are any. */
struct backlog {
    struct list replies;       /* of struct reply: complete lines */
    struct list urgent;        /* pongs */
    struct list requests;      /* of struct pending: decoded requests that wait for their turn */
    struct call *call;         /* the request that is being carried out */
    struct coded_hello *hello; /* the same of a hello with a code (session_hello.c) */
    struct buf input;          /* the rest of a message whose lines wait */
    char *away_hello;          /* the id of the hello that waits for its home; NULL: it has none */
    size_t reply_bytes;
    uint32_t n_replies, n_requests;
};

/* The opened conversations, and the owner's watch. */
struct views {
    struct list openings;
    struct list ready_openings;
    struct watching *watching; /* watch with events; NULL: none */
    struct watching *walking;  /* an ended one, whose answer from the store is awaited */
    uint32_t n_openings;
};

/* There may be 100,000, and most only follow a task: what they need for that is here, the rest is
 * made when it is needed (bench/README.md, `idle`). */
struct session {
    const struct session_ops *ops;
    void *rim; /* the rim's own */
    struct hub *hub;
    struct owner *owner;   /* NULL before welcome */
    struct owner *quota;   /* against whom live tasks count */
    const char *from;      /* of its asker (core/call.h); the rim's, outlives the session */
    struct rights *rights; /* a reference; NULL: all of the owner's */
    struct list in_grant;  /* of the grant that its token is of */
    struct list woken;     /* in the hub's list */
    struct list subscriptions;
    struct list ready;       /* of struct subscription */
    struct backlog *backlog; /* NULL: none */
    struct views *views;     /* NULL: never any */
    struct bucket lines;     /* the rate limit; negative in a flood */
    msec_t malformed_since;
    int64_t expires_at_ms;
    struct away *away;  /* its owner is served at another node (home.h); NULL: here */
    struct timer timer; /* hello's deadline, then the token's expiry */
    enum close_code close_code : 16;
    enum session_state state : 8;
    uint32_t n_subscriptions;
    uint32_t n_malformed;
    uint32_t free_resumes;
    uint32_t away_charge; /* lines that its next message costs there */
    uint8_t away_knows;   /* of its home, see session_knows */
    bool away_waits;      /* for its home to take it: then the welcome goes out */
    bool too_slow;        /* exceeded a feed's limit */
    bool held;
    bool running; /* inside session_run */
    bool resumes; /* the current request is a resume */
    bool keepalive_data;
    bool strict; /* unknown members are faults */
    bool expiring_said;
};

/* Drops lines that have not gone out. */
void session_drop_replies(struct session *s);
size_t session_reply_bytes(const struct session *s);
uint32_t session_n_replies(const struct session *s);
uint32_t session_n_waiting(const struct session *s); /* replies, and requests for their turn */
void session_init(struct session *s, struct hub *h, const struct session_ops *ops, void *rim);
void session_done(struct session *s);
/* Instead of a hello: the owner was authenticated in another way (HTTP). */
void session_adopt(struct session *s, const struct asker *who);
/* As the one who asks: session or NULL, for HTTP's sake. */
static inline struct asker session_asker(const struct session *s, struct session *to)
{
    return (struct asker){.owner = s->owner,
                          .quota = s->quota,
                          .session = to,
                          .from = s->from,
                          .rights = s->rights,
                          .expires_at_ms = s->expires_at_ms};
}

/* One whole message from the client, valid UTF-8. */
void session_receive(struct session *s, struct str message);
void session_receive_binary(struct session *s);
/* The next message took as much work as that many extra lines: the rate limit charges for them
 * before its own. */
void session_charge(struct session *s, uint32_t lines);

/* Appends the next message to out, at most max bytes unless one long line travels alone.  Returns
 * false when there is nothing to send. */
bool session_fill(struct session *s, struct buf *out, size_t max);
bool session_has_output(const struct session *s);
/* How far it is, wherever it is served: LINK_FOLLOWS a task, LINK_IS_TOLD all that is committed of
 * the first one, LINK_IS_THROUGH with it, LINK_WATCHES a conversation or the owner's list
 * (proto/link.h). */
uint8_t session_knows(const struct session *s);
/* The agents that may be asked, in the form of `welcome`: a JSON array. */
void session_put_agents(struct buf *line, const struct hub *h);

void session_say_goaway(struct session *s); /* a planned stop is near */
void session_close(struct session *s, enum close_code code);

/* For the verbs. */
struct subscription *session_subscribe(struct session *s, struct stream *stream, uint64_t after);
void session_unsubscribe(struct session *s, struct stream *stream);
void subscription_roll_up(struct subscription *sub, uint32_t every_ms); /* 0: as it comes */
struct subscription *session_find(const struct session *s, const struct stream *stream);
/* limits.subscriptions: for followed tasks, and for opened conversations. */
bool session_may_follow(const struct session *s, const struct stream *stream);
bool session_may_open(struct session *s, const struct conversation *c, bool follow);
struct opening *session_open(struct session *s, struct conversation *c, bool follow);
/* The owner's list, as far as the session's rights reach. */
struct opening *session_watch(struct session *s);
void session_shut(struct session *s, struct conversation *c);
void opening_release(struct opening *o);
void session_wake(struct session *s);

/* Between session.c, session_hello.c, session_send.c and subscription.c. */
void session_hello(struct session *s, struct request *r);
void session_forget_hello(struct session *s);
void session_on_timer(struct timer *timer);
struct reply {
    struct list node;
    size_t len;
    char line[];
};
static inline void session_count(struct session *s, int n)
{
    s->owner->n_sessions += (uint32_t)n;
    s->quota->n_sessions += (uint32_t)n;
}
struct backlog *session_backlog(struct session *s); /* which is made when there is none */
void session_settle(struct session *s);             /* frees the backlog when all is done */
struct views *session_views(struct session *s);     /* which are made when there are none */
static inline struct watching *session_watching(const struct session *s)
{
    return s->views ? s->views->watching : NULL;
}
void session_put_reply(struct session *s, struct str line);
void session_put_urgent(struct session *s, struct str line);
void session_push_error(struct session *s, enum error e, struct str id, const char *message);
void session_go_on(struct session *s); /* sent messages have made room */
void subscription_end(struct subscription *sub);
void opening_end(struct opening *o);

#endif
