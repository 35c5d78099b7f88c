/* limits -- every fixed maximum of the wire, with its unit and its reason.
 *
 * Thread:   any.
 * An operator cannot change these; limits that he can change are in the configuration.
 */
#ifndef PROTO_LIMITS_H
#define PROTO_LIMITS_H

#define MAX_MESSAGE_OUT 65536            /* bytes of lines packed into one message */
#define MAX_EVENT_LINE (1024 * 1024)     /* bytes of one event's line, its newline included */
#define MAX_AGENT_LINE (4 * 1024 * 1024) /* as an agent writes it: escapes and blanks shrink */
#define EVENT_FRAME 4096                 /* bytes of an event's line besides its texts */
#define MAX_HELLO_MESSAGE (32 * 1024) /* bytes of a message before welcome: a stranger's memory */
#define MAX_JSON_DEPTH 128            /* nested arrays and objects; the outermost counts as 1 */
#define MAX_JSON_WRAP 4               /* levels that we may add around a value of that depth */
#define MAX_SAFE_INTEGER 9007199254740991LL /* 2^53-1: beyond it JavaScript rounds */
#define MAX_REQUEST_ID 64                   /* bytes of a request's id */
#define MAX_CONVERSATION_ID 128             /* bytes */
#define MAX_REQUEST_KEY 128                 /* bytes */
#define MAX_NAME 128                        /* bytes of a task's name and of an agent's */
#define MAX_DESCRIPTION 1024                /* bytes */
#define MAX_TITLE 512                       /* bytes of a title that a client sets */
#define AUTO_TITLE_CHARS 80                 /* characters of the first message that make a title */
#define MAX_INPUT_ID 128                    /* bytes of an open question's id */
#define MAX_OPTIONS 32                      /* of one question */
#define MAX_QUESTIONS 1000                  /* of a task: open, and answered but kept */
#define MAX_GENERATIONS 1000                /* of tasks that start each other */
#define MAX_METADATA (16 * 1024)            /* bytes of compact JSON */
#define METADATA_BUDGET "holdfast_budget"   /* the member that keeps a task's budget */
#define METADATA_TRACE "traceparent"        /* the members with its caller's context (W3C) */
#define METADATA_TRACESTATE "tracestate"
#define MAX_CONTEXT (256 * 1024) /* likewise */
#define MAX_OUTPUT (256 * 1024)  /* bytes of a task's output, and of its result */
#define MAX_REPLY (256 * 1024)   /* bytes after which a list ends early */
#define MAX_HISTORY (256 * 1024) /* bytes of messages given to an agent */
#define HISTORY_MESSAGES 10000   /* messages given to an agent */
#define MAX_SIBLINGS 256         /* ids in a message's siblings: the newest */
#define MAX_THINK_TAG 32         /* bytes of the name of a tag that encloses thoughts */
#define MAX_OWNER 255            /* bytes of a token's sub */
#define MAX_SEARCH 256           /* bytes of what is searched for */
#define MAX_WATCH_CURSOR 8192    /* bytes of a watcher's cursor */
#define MAX_ROLLUP_MS 10000      /* how long text of live events may be held back, to be merged */
#define LIST_DEFAULT 50
#define LIST_MAX 200
#define MAX_GRAFTS 16               /* forks and imports under way, each of some MiB … */
#define MAX_GRAFTS_PER_OWNER 2      /* … and of one owner */
#define MAX_ACK_IDS 1000            /* task ids in one ack */
#define MAX_REPLIES_WAITING 64      /* a connection with this many is not read */
#define MAX_MALFORMED_PER_MINUTE 10 /* lines; one more closes with 1008 */
#define TASK_ID_LEN 26              /* characters of a ULID */

#endif
