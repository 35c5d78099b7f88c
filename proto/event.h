/* event -- the events of a task and their wire lines (PROTOCOL.md section 4).
 *
 * Shape:    a line is {"type":"event","task_id":"<26>","seq":N,"ts":N,"event":"…","data":{…}}\n and
 *           is encoded once, when the event is made; journal, replay and subscribers carry these
 *           bytes.  The prefix before seq has one fixed length: EVENT_SEQ_AT.
 * Thread:   any.
 */
#ifndef PROTO_EVENT_H
#define PROTO_EVENT_H

#include "proto/js.h"
#include "proto/limits.h"

/* X(enum name, wire name, whether an agent may send it) */
#define EVENT_TABLE(X)                               \
    X(EVENT_TASK_CREATED, "task.created", false)     \
    X(EVENT_TASK_STARTED, "task.started", false)     \
    X(EVENT_TASK_RESUMED, "task.resumed", false)     \
    X(EVENT_THINKING, "thinking", true)              \
    X(EVENT_TOKEN, "token", true)                    \
    X(EVENT_TOOL_CALL, "tool_call", true)            \
    X(EVENT_TOOL_RESULT, "tool_result", true)        \
    X(EVENT_PROGRESS, "progress", true)              \
    X(EVENT_CHILD, "child", false)                   \
    X(EVENT_MESSAGE, "message", false)               \
    X(EVENT_INPUT_REQUIRED, "input_required", true)  \
    X(EVENT_INPUT_RECEIVED, "input_received", false) \
    X(EVENT_CUSTOM, "custom", true)                  \
    X(EVENT_FILE, "file", false)                     \
    X(EVENT_FINAL_ANSWER, "final_answer", true)      \
    X(EVENT_TASK_COMPLETED, "task.completed", false) \
    X(EVENT_TASK_FAILED, "task.failed", false)

enum event_type {
#define X(name, wire, agent) name,
    EVENT_TABLE(X)
#undef X
        N_EVENT_TYPES
};

#define EVENT_PREFIX "{\"type\":\"event\",\"task_id\":\""
#define EVENT_SEQ_AT (sizeof(EVENT_PREFIX) - 1 + TASK_ID_LEN + sizeof("\",\"seq\":") - 1)

const char *event_name(enum event_type e);
bool event_find(struct str name, enum event_type *ret); /* false when there is no such event */
static inline bool event_is_terminal(enum event_type e)
{
    return e == EVENT_TASK_COMPLETED || e == EVENT_TASK_FAILED;
}

/* Appends one line with its newline. data is a complete JSON object, "{}" for none. */
void event_line(struct buf *out, const char task_id[TASK_ID_LEN], uint64_t seq, int64_t ts_wall_ms,
                enum event_type event, struct str data);
size_t event_line_bytes(uint64_t seq, int64_t ts, enum event_type event, struct str data);

/* The seq of a line; asserts that event_line made it. */
uint64_t event_line_seq(const char *line, size_t len);
/* The last of some lines, at least one, and its seq. */
struct str event_last_line(struct str lines);
uint64_t event_last_seq(struct str lines);
/* Whether these are whole lines of one task with the seqs first to last; checks what was read from
 * disk. */
bool event_lines_are(struct str lines, uint64_t first, uint64_t last);
/* The parts of such a line (spans into it).  data is its raw JSON object. */
struct event_parts {
    uint64_t seq;
    int64_t ts;
    enum event_type event;
    struct str data;
};
bool event_line_split(struct str line, struct event_parts *ret) MUST_USE;

/* Merges runs of consecutive token (or thinking) events whose data is {"text":…} alone, and appends
 * the result.  A merged line has the last event's seq and ts, and after "seq" a "from" with the
 * first one's seq. lines are whole lines of one task, in order.  A run is cut so that no merged
 * line exceeds MAX_MESSAGE_OUT; a run of one stays as it is. */
void event_coalesce(struct str lines, struct buf *out);
/* Whether every one of these whole lines is text that event_coalesce may join with another. */
bool event_lines_are_text(struct str lines);
/* Adds the member "output" to an event's data: as much of the text as fits into the line when
 * quoted, MAX_OUTPUT bytes at most.  Returns that part. */
struct str event_put_output(struct buf *data, struct str text);

#endif
