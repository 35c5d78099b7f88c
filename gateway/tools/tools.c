#include "gateway/tools/tools.h"

#include <time.h>

#include "gateway/models/calculator.h"
#include "gateway/tools/tool_arguments.h"

#define DAY_MINUTES (24 * 60)

/* --- calculator ------------------------------------------------------------------------------- */

static bool evaluate(const struct js_doc *doc, struct buf *out)
{
    uint32_t node = js_get(doc, 0, "expression");
    if (!node || js_type(doc, node) != JS_STRING) {
        buf_puts(out, "\"expression\" must be a string");
        return false;
    }
    struct buf expression = {0};
    js_value(doc, node, &expression);
    bool good = calculate(buf_str(&expression), out);
    buf_done(&expression);
    return good;
}

static bool call_calculator(struct str arguments, int64_t wall_ms, struct buf *out)
{
    struct js_doc doc = {0};
    (void)wall_ms;
    bool good = arguments_open(&doc, arguments, out) && evaluate(&doc, out);
    js_done(&doc);
    return good;
}

/* --- clock ------------------------------------------------------------------------------------ */

enum clock_format { CLOCK_ISO, CLOCK_UNIX, CLOCK_DATE, CLOCK_TIME };

static bool read_format(const struct js_doc *doc, enum clock_format *ret, struct buf *out)
{
    static const char *const names[] = {
        [CLOCK_ISO] = "iso", [CLOCK_UNIX] = "unix", [CLOCK_DATE] = "date", [CLOCK_TIME] = "time"};
    uint32_t node = js_get(doc, 0, "format");
    *ret = CLOCK_ISO;
    if (!node || js_type(doc, node) == JS_NULL)
        return true;
    for (size_t i = 0; js_type(doc, node) == JS_STRING && i < countof(names); i++) {
        if (js_is(doc, node, names[i])) {
            *ret = (enum clock_format)i;
            return true;
        }
    }
    buf_puts(out, "\"format\" must be iso, unix, date or time");
    return false;
}

static bool read_offset(const struct js_doc *doc, int64_t *ret_minutes, struct buf *out)
{
    uint32_t node = js_get(doc, 0, "utc_offset_minutes");
    *ret_minutes = 0;
    if (!node || js_type(doc, node) == JS_NULL)
        return true;
    int64_t minutes;
    if (js_type(doc, node) == JS_NUMBER && js_int(doc, node, &minutes) && minutes > -DAY_MINUTES &&
        minutes < DAY_MINUTES) {
        *ret_minutes = minutes;
        return true;
    }
    buf_putf(out, "\"utc_offset_minutes\" must be an integer from %d to %d", 1 - DAY_MINUTES,
             DAY_MINUTES - 1);
    return false;
}

static void put_offset(struct buf *out, int64_t minutes, const char *utc)
{
    int64_t size = minutes < 0 ? -minutes : minutes;
    if (minutes == 0)
        buf_puts(out, utc);
    else
        buf_putf(out, "%c%02d:%02d", minutes < 0 ? '-' : '+', (int)(size / 60), (int)(size % 60));
}

/* A broken-down time in that form; false when the year does not fit. */
static bool put_time(struct buf *out, enum clock_format format, int64_t seconds, int64_t offset)
{
    time_t local = (time_t)(seconds + offset * 60);
    struct tm tm;
    char text[64];
    if (!gmtime_r(&local, &tm)) {
        buf_puts(out, "the clock's time cannot be written in this format");
        return false;
    }
    if (format == CLOCK_DATE) {
        strftime(text, sizeof text, "%A, %Y-%m-%d", &tm);
        buf_puts(out, text);
        return true;
    }
    strftime(text, sizeof text, format == CLOCK_ISO ? "%Y-%m-%dT%H:%M:%S" : "%H:%M:%S ", &tm);
    buf_puts(out, text);
    put_offset(out, offset, format == CLOCK_ISO ? "Z" : "UTC");
    return true;
}

static bool tell_time(const struct js_doc *doc, int64_t wall_ms, struct buf *out)
{
    enum clock_format format;
    int64_t offset;
    if (!read_format(doc, &format, out) || !read_offset(doc, &offset, out))
        return false;
    int64_t seconds = wall_ms / 1000 - (wall_ms % 1000 < 0);
    if (format != CLOCK_UNIX)
        return put_time(out, format, seconds, offset);
    buf_putf(out, "%lld", (long long)seconds);
    return true;
}

static bool call_clock(struct str arguments, int64_t wall_ms, struct buf *out)
{
    struct js_doc doc = {0};
    bool good = arguments_open(&doc, arguments, out) && tell_time(&doc, wall_ms, out);
    js_done(&doc);
    return good;
}

/* --- the table -------------------------------------------------------------------------------- */

static const struct tool tools[] = {
    {.name = "calculator",
     .description =
         "Computes an arithmetic expression exactly as written. Operators + - * / % ^, "
         "parentheses; sqrt abs round floor ceil min max pow ln log10 exp sin cos tan (radians); "
         "constants pi and e.",
     .parameters = "{\"type\":\"object\",\"properties\":{\"expression\":{\"type\":\"string\","
                   "\"description\":\"for example 12 * (3 + 4)\"}},\"required\":[\"expression\"],"
                   "\"additionalProperties\":false}",
     .call = call_calculator},
    {.name = "clock",
     .description = "Tells the current date and time.",
     .parameters =
         "{\"type\":\"object\",\"properties\":{\"format\":{\"type\":\"string\","
         "\"enum\":[\"iso\",\"unix\",\"date\",\"time\"],\"description\":\"iso when left out\"},"
         "\"utc_offset_minutes\":{\"type\":\"integer\",\"description\":\"minutes east of UTC; "
         "0 when left out\"}},\"additionalProperties\":false}",
     .call = call_clock},
    {.name = "spawn_task",
     .description = "Starts another agent on its own task and returns its answer. Several calls in "
                    "one turn run side by side. It knows nothing about this conversation: tell it "
                    "everything that it needs.",
     .parameters =
         "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\",\"description\":\"the "
         "task, in full\"},\"agent\":{\"type\":\"string\",\"description\":\"which agent; the "
         "default one when left out\"},\"name\":{\"type\":\"string\",\"description\":\"a short "
         "name to find the task by\"},\"description\":{\"type\":\"string\",\"description\":\"one "
         "line for the user\"},\"wait\":{\"type\":\"boolean\",\"description\":\"false: return at "
         "once with its task_id; a message reports its end. true when left "
         "out\"}},\"required\":[\"input\"],\"additionalProperties\":false}",
     .says = "spawn"},
    {.name = "cancel_task",
     .description = "Cancels a task that you have started.",
     .parameters =
         "{\"type\":\"object\",\"properties\":{\"task_id\":{\"type\":\"string\"},\"tree\":{\"type\":"
         "\"boolean\",\"description\":\"also all tasks that it has started\"}},\"required\":"
         "[\"task_id\"],\"additionalProperties\":false}",
     .says = "cancel"},
    {.name = "send_message",
     .description = "Sends a message to a running task that you have started, or to the task that "
                    "has started you.",
     .parameters =
         "{\"type\":\"object\",\"properties\":{\"task_id\":{\"type\":\"string\",\"description\":"
         "\"the task's id, or parent\"},\"content\":{\"type\":\"string\"}},\"required\":[\"task_id\","
         "\"content\"],\"additionalProperties\":false}",
     .says = "send"},
    {.name = "ask_user",
     .description = "Asks the user a question and waits for the answer. Only for what you cannot "
                    "find out or decide yourself.",
     .parameters =
         "{\"type\":\"object\",\"properties\":{\"prompt\":{\"type\":\"string\",\"description\":\"the "
         "question, as the user will read "
         "it\"},\"kind\":{\"type\":\"string\",\"enum\":[\"question\",\"approval\"],\"description\":\"question "
         "(when left out): a text; approval: yes or "
         "no\"},\"timeout_s\":{\"type\":\"number\",\"description\":\"seconds to wait; for ever "
         "when left out\"}},\"required\":[\"prompt\"],\"additionalProperties\":false}",
     .says = "input_required"},
};

const struct tool *tool_find(struct str name)
{
    for (size_t i = 0; i < countof(tools); i++)
        if (str_eq(name, str_of(tools[i].name)))
            return &tools[i];
    return NULL;
}
