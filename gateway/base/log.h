/* log -- one line per event on stderr, as logfmt or JSON.
 *
 *     log_event(LEVEL_INFO, "ws", "closed", LOG_INT("conn", 41), LOG_INT("code", 1001));
 *     ts=2026-03-01T12:00:00.000Z level=info component=ws event=closed conn=41 code=1001
 *
 * Shape:    values are escaped and cut at LOG_VALUE_MAX.  A reader of stderr that stops does not
 *           stop the gateway: a line waits LOG_WAIT_MS at most, and the next line that is written
 *           counts the lost ones.  ERROR: an operator must act.  WARN: the gateway continued, and
 *           the line says how.  INFO: lifecycle.  DEBUG: anything.
 * Thread:   any.
 * Never:    contents, tokens, secrets, pointers.
 * Limits:   lines that peers can cause go through log_event_limited: LOG_BURST at once, then one a
 *           second for each call site; the next line that passes says how many were left out.
 */
#ifndef GATEWAY_BASE_LOG_H
#define GATEWAY_BASE_LOG_H

#include "proto/base.h"

#define LOG_VALUE_MAX 1024 /* bytes of a value */
#define LOG_BURST 10
#define LOG_WAIT_MS 50

struct secrets;

enum log_level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_WARN, LEVEL_ERROR };
enum log_format { FORMAT_LOGFMT, FORMAT_JSON };

struct log_field {
    const char *key; /* NULL ends the list */
    struct str text; /* NULL: number is the value */
    int64_t number;
};
#define LOG_INT(key, value) ((struct log_field){(key), STR_NULL, (int64_t)(value)})
#define LOG_STR(key, span) (log_field_str((key), (span)))
#define LOG_TEXT(key, text) (log_field_str((key), str_of(text)))

static inline struct log_field log_field_str(const char *key, struct str text)
{
    return (struct log_field){key, text.p ? text : STR(""), 0};
}

/* Before the call: info, logfmt. */
void log_open(enum log_level level, enum log_format format);
bool log_is_on(enum log_level level);
/* The number of this process among several is in each line from now on. */
void log_set_process(int process);
/* Takes these out of all values from now on; NULL: nothing.  They must not change meanwhile. */
void log_hide(const struct secrets *secrets);

#define LOG_FIELDS(...) ((const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){NULL, STR_NULL, 0}})

#define log_event(level, component, event, ...)                                              \
    (log_is_on(level) ? log_write((level), (component), (event), LOG_FIELDS(__VA_ARGS__), 0) \
                      : (void)0)

#define log_event_limited(level, component, event, ...)                                       \
    do {                                                                                      \
        static struct log_rate log_rate_;                                                     \
        uint64_t log_left_out_;                                                               \
        if (log_is_on(level) && log_rate_allows(&log_rate_, &log_left_out_))                  \
            log_write((level), (component), (event), LOG_FIELDS(__VA_ARGS__), log_left_out_); \
    } while (0)

/* For the macros. */
struct log_rate {
    msec_t since;   /* when spent was updated; 0 at first */
    uint32_t spent; /* of LOG_BURST */
    uint64_t left_out;
};
bool log_rate_allows(struct log_rate *rate, uint64_t *ret_left_out);
void log_write(enum log_level level, const char *component, const char *event,
               const struct log_field *fields, uint64_t left_out);

/* One line, without its newline, as log_write writes it (wall_ms: Unix time). */
struct log_entry {
    enum log_level level;
    const char *component, *event;
    const struct log_field *fields;
};
struct buf;
void log_line(struct buf *out, enum log_format format, int64_t wall_ms,
              const struct log_entry *entry);

#endif
