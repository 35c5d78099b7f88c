#include "gateway/tools/tool_http_get.h"

#include <stdlib.h>

#include "proto/str.h"

#define URL_BYTES 8192

struct tool_job {
    struct fetch *fetch;
    tool_done_fn done;
    void *user;
    struct buf text;
    bool is_over; /* done was called */
};

static void http_get_conclude(struct tool_job *job, bool good, struct str output)
{
    if (job->is_over)
        return;
    job->is_over = true;
    job->done(job->user, good, output);
}

static bool http_get_has(struct str text, struct str what)
{
    for (; text.n; text.p++, text.n--)
        if (str_begins_nocase(text, what))
            return true;
    return false;
}

static bool is_text(struct str type)
{
    return type.n == 0 || str_begins_nocase(type, STR("text/")) ||
           http_get_has(type, STR("json")) || http_get_has(type, STR("xml")) ||
           http_get_has(type, STR("javascript"));
}

static void http_get_on_head(void *user, const struct fetch_head *head)
{
    struct tool_job *job = user;
    struct buf why = {0};
    if (is_text(head->content_type))
        return;
    buf_puts(&why, "the reply is not text, but ");
    buf_putstr(&why, head->content_type);
    http_get_conclude(job, false, buf_str(&why));
    buf_done(&why);
}

static bool http_get_on_bytes(void *user, struct str bytes)
{
    struct tool_job *job = user;
    size_t room = HTTP_GET_BYTES - job->text.len;
    if (job->is_over)
        return false;
    buf_put(&job->text, bytes.p, bytes.n < room ? bytes.n : room);
    if (bytes.n <= room)
        return true;
    job->text.len = utf8_whole(buf_str(&job->text));
    buf_putf(&job->text, "\n[cut off at %d KiB]", HTTP_GET_BYTES / 1024);
    http_get_conclude(job, true, buf_str(&job->text));
    return false;
}

static void http_get_on_done(void *user, struct str error)
{
    struct tool_job *job = user;
    http_get_conclude(job, !error.p, error.p ? error : buf_str(&job->text));
}

static const struct fetch_events fetch_events = {http_get_on_head, http_get_on_bytes,
                                                 http_get_on_done};

/* The argument "url"; NULL with a sentence in out. */
static char *read_url(struct str arguments, struct buf *out)
{
    struct js_doc doc = {0};
    struct buf url = {0};
    bool good = js_parse(&doc, arguments.p, arguments.n, JS_AGENT);
    uint32_t node = good && js_type(&doc, 0) == JS_OBJECT ? js_get(&doc, 0, "url") : 0;
    if (node && js_type(&doc, node) == JS_STRING)
        js_value(&doc, node, &url);
    js_done(&doc);
    struct str text = buf_str(&url);
    good = (str_begins_nocase(text, STR("http://")) || str_begins_nocase(text, STR("https://"))) &&
           text.n <= URL_BYTES;
    for (size_t i = 0; i < text.n; i++)
        good &= (unsigned char)text.p[i] > ' ' && text.p[i] != 0x7f;
    if (good)
        return buf_take(&url);
    buf_puts(out, "\"url\" must be a URL that begins with http:// or https://");
    buf_done(&url);
    return NULL;
}

static struct tool_job *http_get_start(const struct tool *tool, const struct tool_caller *caller,
                                       struct str arguments, tool_done_fn done, void *user,
                                       struct buf *out)
{
    (void)caller;
    const struct http_get *h = tool->settings;
    char *url = read_url(arguments, out);
    if (!url)
        return NULL;
    struct tool_job *job = xcalloc(sizeof *job);
    job->done = done;
    job->user = user;
    job->fetch = fetch_start(h->fetcher, &h->options, &(struct fetch_request){.url = url},
                             &fetch_events, job);
    free(url);
    return job;
}

static void http_get_stop(struct tool_job *job)
{
    fetch_free(job->fetch);
    buf_done(&job->text);
    free(job);
}

void http_get_init(struct http_get *h, struct fetcher *fetcher, const struct net *allow,
                   size_t n_allow)
{
    *h = (struct http_get){
        .fetcher = fetcher,
        .options = {.connect_ms = 10000,
                    .total_ms = HTTP_GET_MS,
                    .redirects = 5,
                    .guarded = true,
                    .allow = allow,
                    .n_allow = n_allow},
        .tool = {.name = "http_get",
                 .description = "Reads a page of the public web by its URL and returns its text "
                                "unchanged, at most 128 KiB.",
                 .parameters = "{\"type\":\"object\",\"properties\":{\"url\":{\"type\":\"string\","
                               "\"description\":\"http:// or https://\"}},\"required\":[\"url\"],"
                               "\"additionalProperties\":false}",
                 .start = http_get_start,
                 .again = TOOL_AGAIN,
                 .stop = http_get_stop,
                 .settings = h}};
}
