#include "gateway/tools/tool_http_get.h"

#include <stdlib.h>
#include <strings.h>

#define URL_BYTES 8192

struct tool_job {
    struct fetch *fetch;
    tool_done_fn done;
    void *user;
    struct buf text;
    bool is_over; /* done was called */
};

static void conclude(struct tool_job *job, bool good, struct str output)
{
    if (job->is_over)
        return;
    job->is_over = true;
    job->done(job->user, good, output);
}

static bool begins(struct str text, const char *with)
{
    size_t n = strlen(with);
    return text.n >= n && strncasecmp(text.p, with, n) == 0;
}

static bool has(struct str text, const char *what)
{
    for (; text.n; text.p++, text.n--)
        if (begins(text, what))
            return true;
    return false;
}

static bool is_text(struct str type)
{
    return type.n == 0 || begins(type, "text/") || has(type, "json") || has(type, "xml") ||
           has(type, "javascript");
}

static void on_head(void *user, const struct fetch_head *head)
{
    struct tool_job *job = user;
    struct buf why = {0};
    if (is_text(head->content_type))
        return;
    buf_puts(&why, "the reply is no text, but ");
    buf_putstr(&why, head->content_type);
    conclude(job, false, buf_str(&why));
    buf_done(&why);
}

static bool on_bytes(void *user, struct str bytes)
{
    struct tool_job *job = user;
    size_t room = HTTP_GET_BYTES - job->text.len;
    if (job->is_over)
        return false;
    buf_put(&job->text, bytes.p, bytes.n < room ? bytes.n : room);
    if (bytes.n <= room)
        return true;
    job->text.len = utf8_cut(buf_str(&job->text), job->text.len);
    buf_putf(&job->text, "\n[cut off at %d KiB]", HTTP_GET_BYTES / 1024);
    conclude(job, true, buf_str(&job->text));
    return false;
}

static void on_done(void *user, struct str error)
{
    struct tool_job *job = user;
    conclude(job, !error.p, error.p ? error : buf_str(&job->text));
}

static const struct fetch_events fetch_events = {on_head, on_bytes, on_done};

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
    good = (begins(text, "http://") || begins(text, "https://")) && text.n <= URL_BYTES;
    for (size_t i = 0; i < text.n; i++)
        good &= (unsigned char)text.p[i] > ' ' && text.p[i] != 0x7f;
    if (good)
        return buf_take(&url);
    buf_puts(out, "\"url\" must be a URL that begins with http:// or https://");
    buf_done(&url);
    return NULL;
}

static struct tool_job *start(const struct tool *tool, const struct tool_caller *caller,
                              struct str arguments, tool_done_fn done, void *user, struct buf *out)
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

static void stop(struct tool_job *job)
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
                 .description = "Reads a page of the public web by its URL and gives back its text "
                                "as it stands, at most 128 KiB.",
                 .parameters = "{\"type\":\"object\",\"properties\":{\"url\":{\"type\":\"string\","
                               "\"description\":\"http:// or https://\"}},\"required\":[\"url\"],"
                               "\"additionalProperties\":false}",
                 .start = start,
                 .stop = stop,
                 .settings = h}};
}
