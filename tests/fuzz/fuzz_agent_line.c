/* Any bytes as a line that an agent printed, then as lines of the journal.  An event's data makes a
 * line that splits into the same parts; what was merged has the same text; any other bytes are
 * refused without harm. */
#include "proto/agent_line.h"

#include "proto/said.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char task_id[] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
static struct agent_line_decoder decoder;

static void check_event(const struct agent_line *line)
{
    struct buf lines = {0}, merged = {0};
    struct event_parts parts;
    struct said said = {0};
    ASSERT(utf8_valid(line->data));
    event_line(&lines, task_id, 41, -7, line->event, line->data);
    bool ok = event_line_split(buf_str(&lines), &parts);
    ASSERT(ok && parts.seq == 41 && parts.ts == -7 && parts.event == line->event);
    ASSERT(str_eq(parts.data, line->data));
    ASSERT(event_line_seq(lines.bytes, lines.len) == 41);
    ASSERT(memchr(lines.bytes, '\n', lines.len) == lines.bytes + lines.len - 1);

    event_line(&lines, task_id, 42, -7, line->event, line->data);
    event_coalesce(buf_str(&lines), &merged);
    ASSERT(utf8_valid(buf_str(&merged)) && merged.len <= lines.len);
    for (size_t at = 0; at < merged.len;) {
        const char *end = memchr(merged.bytes + at, '\n', merged.len - at);
        ASSERT(end);
        size_t n = (size_t)(end + 1 - merged.bytes) - at;
        ASSERT(event_line_split((struct str){merged.bytes + at, n}, &parts));
        said_line(&said, &parts);
        at += n;
    }
    struct str output = said_output(&said);
    if (line->event == EVENT_FINAL_ANSWER)
        ASSERT(str_eq(output, line->text));
    if (line->event == EVENT_TOKEN && line->text.n <= MAX_OUTPUT / 2) {
        ASSERT(output.n == 2 * line->text.n);
        ASSERT(str_eq((struct str){output.p, line->text.n}, line->text));
    }
    said_done(&said);
    buf_done(&lines);
    buf_done(&merged);
}

static void check_strange_lines(struct str lines)
{
    struct buf merged = {0};
    struct event_parts parts;
    struct said said = {0};
    if (event_line_split(lines, &parts)) {
        ASSERT(parts.data.n >= 2);
        said_line(&said, &parts);
    }
    event_coalesce(lines, &merged);
    said_done(&said);
    buf_done(&merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct agent_line line;
    if (agent_line_decode(&decoder, text, &line)) {
        if (line.kind == LINE_EVENT)
            check_event(&line);
        ASSERT(utf8_valid(line.text) && utf8_valid(line.call_id) && utf8_valid(line.name));
        ASSERT(utf8_valid(line.input) && utf8_valid(line.content) && utf8_valid(line.arguments));
    } else {
        size_t n = strnlen(line.error, sizeof line.error);
        ASSERT(n > 0 && n < sizeof line.error - 1);
        ASSERT(utf8_valid((struct str){line.error, n}));
    }
    check_strange_lines(text);
    return 0;
}
