#include "gateway/cli/chat_transfer.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/backoff.h"
#include "gateway/cli/chat_errors.h"
#include "proto/file_head.h"
#include "proto/js.h"
#include "proto/str.h"

#define CONNECT_MS 20000L
#define SILENT_S 60L /* without a byte: this try is over */
#define TRIES 12     /* in a row without a further byte */
#define PAUSE_MS 500 /* after the first of them */
#define PAUSE_MAX_MS 8000
#define ANSWER_BYTES 65536
#define LOOKED_AT 4096 /* bytes of a file that tell its kind */

struct chat_transfer {
    uv_work_t work;
    chat_transfer_fn on_done;
    void *arg;
    char *url; /* without the key */
    char *token, *path;
    bool is_saved; /* to this machine */
    char key[33];
    char type[MAX_MEDIA_TYPE + 1]; /* of a file that is sent */
    const char *certificates;
    CURLM *multi;
    atomic_bool is_stopped;

    CURL *easy; /* a try */
    FILE *file;
    int64_t size; /* of a file that is sent; saved so far of another one */
    int64_t offset;
    long status;
    struct buf answer;
    char says[CURL_ERROR_SIZE];
    int64_t upload_offset; /* of the answer's head; -1: it has none */
    char *error;
};

/* --- words ------------------------------------------------------------------------------------ */

static char *in_words(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *in_words(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    ASSERT(vasprintf(&text, format, args) >= 0);
    va_end(args);
    return text;
}

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void keep_error(struct chat_transfer *t, char *words)
{
    free(t->error);
    t->error = words;
}

/* The gateway's own words, where its answer has them. */
static void keep_refusal(struct chat_transfer *t)
{
    struct js_doc doc = {0};
    uint32_t error = 0;
    if (js_parse(&doc, t->answer.len ? t->answer.bytes : "", t->answer.len, JS_AGENT))
        error = js_get(&doc, 0, "error");
    keep_error(t, error ? chat_error_words(&doc, error) : in_words("HTTP %ld", t->status));
    js_done(&doc);
}

/* --- inside libcurl --------------------------------------------------------------------------- */

static size_t on_read(char *bytes, size_t size, size_t n, void *user)
{
    struct chat_transfer *t = user;
    size_t got = fread(bytes, 1, size * n, t->file);
    if (got == 0 && (ferror(t->file) || ftello(t->file) < t->size)) {
        keep_error(t, in_words("it was changed while it was sent"));
        return CURL_READFUNC_ABORT;
    }
    return got;
}

static size_t on_write(char *bytes, size_t size, size_t n, void *user)
{
    struct chat_transfer *t = user;
    n *= size;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &t->status);
    if (t->is_saved && (t->status == 200 || t->status == 206)) {
        if (fwrite(bytes, 1, n, t->file) != n) {
            keep_error(t, in_words("%s", strerror(errno)));
            return 0;
        }
        t->size += (int64_t)n;
        return n;
    }
    if (t->answer.len + n <= ANSWER_BYTES)
        buf_put(&t->answer, bytes, n);
    return n;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *user)
{
    struct chat_transfer *t = user;
    const struct str name = STR("upload-offset:");
    struct str line = {bytes, n * size};
    uint64_t offset;
    if (str_begins_nocase(line, name)) {
        line = str_trim(str_from(line, name.n));
        if (str_take_u64(&line, &offset) && offset <= INT64_MAX)
            t->upload_offset = (int64_t)offset;
    }
    return n * size;
}

/* --- one try ---------------------------------------------------------------------------------- */

#define SET(option, value) \
    (void)curl_easy_setopt(t->easy, CURLOPT_##option, (value)) /* no option fails that 7.88 knows */

static void begin_try(struct chat_transfer *t, const char *method)
{
    char url[4096];
    snprintf(url, sizeof url, "%s%s%s", t->url,
             t->is_saved ? "" : "?upload=", t->is_saved ? "" : t->key);
    t->easy = curl_easy_init();
    ASSERT(t->easy);
    t->status = 0;
    t->upload_offset = -1;
    t->says[0] = '\0';
    buf_clear(&t->answer);
    SET(URL, url);
    SET(PROTOCOLS_STR, "http,https");
    SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(NOSIGNAL, 1L);
    SET(FRESH_CONNECT, 1L); /* otherwise libcurl may want to begin again by itself */
    SET(FORBID_REUSE, 1L);
    SET(CUSTOMREQUEST, method);
    SET(ERRORBUFFER, t->says);
    SET(USERAGENT, "holdfast/" HOLDFAST_VERSION);
    SET(CONNECTTIMEOUT_MS, CONNECT_MS);
    SET(LOW_SPEED_LIMIT, 1L);
    SET(LOW_SPEED_TIME, SILENT_S);
    SET(CAINFO, t->certificates);
    SET(WRITEFUNCTION, on_write);
    SET(WRITEDATA, t);
    SET(HEADERFUNCTION, on_header);
    SET(HEADERDATA, t);
}

static struct curl_slist *heads_of(const struct chat_transfer *t, bool has_body)
{
    struct buf line = {0};
    struct curl_slist *heads = curl_slist_append(NULL, "Expect:");
    if (t->token) {
        buf_putf(&line, "Authorization: Bearer %s", t->token);
        heads = curl_slist_append(heads, line.bytes);
    }
    if (has_body) {
        buf_clear(&line);
        buf_puts(&line, "Content-Disposition: ");
        disposition_put(&line, false, str_of(name_in(t->path)));
        heads = curl_slist_append(heads, line.bytes);
        buf_clear(&line);
        buf_putf(&line, "Content-Type: %s", t->type);
        heads = curl_slist_append(heads, line.bytes);
        buf_clear(&line);
        buf_putf(&line, "Upload-Offset: %lld", (long long)t->offset);
        if (t->offset > 0)
            heads = curl_slist_append(heads, line.bytes);
    }
    buf_done(&line);
    return heads;
}

/* curl_easy_perform, but a stop ends it at once. */
static CURLcode perform(struct chat_transfer *t, bool has_body)
{
    struct curl_slist *heads = heads_of(t, has_body);
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    int running = 1, left;
    SET(HTTPHEADER, heads);
    (void)curl_multi_add_handle(t->multi, t->easy);
    while (running && !atomic_load(&t->is_stopped)) {
        (void)curl_multi_perform(t->multi, &running);
        if (running)
            (void)curl_multi_poll(t->multi, NULL, 0, 1000, NULL);
    }
    for (CURLMsg *said; (said = curl_multi_info_read(t->multi, &left)) != NULL;)
        if (said->msg == CURLMSG_DONE)
            result = said->data.result;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &t->status);
    (void)curl_multi_remove_handle(t->multi, t->easy);
    curl_easy_cleanup(t->easy);
    t->easy = NULL;
    curl_slist_free_all(heads);
    return result;
}

/* --- all tries -------------------------------------------------------------------------------- */

/* Asks where it goes on. */
static void find_offset(struct chat_transfer *t)
{
    begin_try(t, "HEAD");
    SET(NOBODY, 1L);
    if (perform(t, false) == CURLE_OK && t->upload_offset >= 0 && t->upload_offset <= t->size)
        t->offset = t->upload_offset;
}

static CURLcode try_to_send(struct chat_transfer *t, bool is_first)
{
    if (!is_first)
        find_offset(t);
    if (fseeko(t->file, t->offset, SEEK_SET) != 0) {
        keep_error(t, in_words("%s", strerror(errno)));
        return CURLE_READ_ERROR;
    }
    begin_try(t, t->offset > 0 ? "PATCH" : "POST");
    SET(UPLOAD, 1L);
    SET(READFUNCTION, on_read);
    SET(READDATA, t);
    SET(INFILESIZE_LARGE, (curl_off_t)(t->size - t->offset));
    return perform(t, true);
}

static CURLcode try_to_save(struct chat_transfer *t)
{
    t->offset = t->size;
    begin_try(t, "GET");
    if (t->offset > 0)
        SET(RESUME_FROM_LARGE, (curl_off_t)t->offset);
    return perform(t, false);
}

static bool is_passing(const struct chat_transfer *t, CURLcode result)
{
    switch (result) {
    case CURLE_OK:
        return t->status == 429 || (t->status >= 502 && t->status <= 504) ||
               (t->status == 409 && t->upload_offset >= 0);
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_SEND_FAIL_REWIND:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT: return !t->error;
    default: return false;
    }
}

static void wait_before(struct chat_transfer *t, unsigned tries)
{
    uint32_t random = 0;
    msec_t ms = backoff_ms(tries, PAUSE_MS, PAUSE_MAX_MS);
    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    if (!atomic_load(&t->is_stopped))
        (void)curl_multi_poll(t->multi, NULL, 0, (int)backoff_between(ms / 2, ms, random), NULL);
}

static void keep_why(struct chat_transfer *t, CURLcode result)
{
    bool is_good = t->status >= 200 && t->status < 300;
    if (t->error)
        return;
    if (result == CURLE_OK && !is_good)
        keep_refusal(t);
    else if (result != CURLE_OK)
        keep_error(t, in_words("%s", t->says[0] ? t->says : curl_easy_strerror(result)));
}

static void work(uv_work_t *request)
{
    struct chat_transfer *t = container_of(request, struct chat_transfer, work);
    CURLcode result = CURLE_OK;
    int64_t before = 0;
    for (unsigned tries = 0; tries < TRIES && !atomic_load(&t->is_stopped); tries++) {
        if (tries > 0)
            wait_before(t, tries);
        result = t->is_saved ? try_to_save(t) : try_to_send(t, tries == 0 && before == 0);
        if (!is_passing(t, result))
            break;
        int64_t now = t->is_saved ? t->size : t->offset;
        if (now > before)
            tries = 0;
        before = now;
    }
    if (!atomic_load(&t->is_stopped))
        keep_why(t, result);
    if (fclose(t->file) != 0 && !t->error)
        keep_error(t, in_words("%s", strerror(errno)));
    t->file = NULL;
    if (t->is_saved && (t->error || atomic_load(&t->is_stopped)))
        (void)unlink(t->path);
}

static void on_worked(uv_work_t *request, int status)
{
    struct chat_transfer *t = container_of(request, struct chat_transfer, work);
    if (status != 0) { /* it was taken back before it had begun */
        fclose(t->file);
        t->file = NULL;
        if (t->is_saved)
            (void)unlink(t->path);
    }
    t->on_done(t->arg, t);
}

/* --- what is sent ----------------------------------------------------------------------------- */

static bool looks_like_text(struct str head)
{
    uint32_t code;
    for (size_t i = 0; i < head.n;) {
        size_t n = utf8_step(head.p + i, head.n - i, &code);
        if (code == UTF8_BROKEN && i + 4 <= head.n)
            return false; /* nearer to the end it may be cut */
        if (code == 0)
            return false;
        i += n;
    }
    return true;
}

static const char *type_of(const char *path, struct str head)
{
    static const struct {
        const char *ending, *type;
    } known[] = {{".pdf", "application/pdf"}, {".json", "application/json"}, {".csv", "text/csv"},
                 {".md", "text/markdown"},    {".html", "text/html"},        {".xml", "text/xml"},
                 {".svg", "image/svg+xml"},   {".zip", "application/zip"},   {".wav", "audio/wav"},
                 {".mp3", "audio/mpeg"},      {".mp4", "video/mp4"},         {".ogg", "audio/ogg"}};
    const char *image = image_type(head), *dot = strrchr(name_in(path), '.');
    if (image)
        return image;
    for (size_t i = 0; dot && i < countof(known); i++)
        if (strcasecmp(dot, known[i].ending) == 0)
            return known[i].type;
    return looks_like_text(head) ? "text/plain" : "application/octet-stream";
}

static char *open_source(struct chat_transfer *t)
{
    char head[LOOKED_AT];
    struct stat st;
    int fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return in_words("%s", strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return in_words(S_ISDIR(st.st_mode) ? "it is a folder" : "it is no plain file");
    }
    t->file = fdopen(fd, "rb");
    ASSERT(t->file);
    t->size = st.st_size;
    size_t n = fread(head, 1, sizeof head, t->file);
    snprintf(t->type, sizeof t->type, "%s", type_of(t->path, (struct str){head, n}));
    return NULL;
}

static char *open_target(struct chat_transfer *t)
{
    int fd = open(t->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return in_words(errno == EEXIST ? "it exists already" : "%s", strerror(errno));
    t->file = fdopen(fd, "wb");
    ASSERT(t->file);
    return NULL;
}

/* --- its life --------------------------------------------------------------------------------- */

static void put_segment(struct buf *out, const char *text)
{
    char *escaped = curl_easy_escape(NULL, text, (int)strlen(text));
    ASSERT(escaped);
    buf_puts(out, escaped);
    curl_free(escaped);
}

/* The path of the WebSocket is PREFIX/v1/ws. */
static char *transfer_url(const struct chat_transfer_order *order)
{
    const struct chat_url *url = order->url;
    const char *v1 = strstr(url->path, "/v1/"), *next;
    struct buf out = {0};
    for (; v1 && (next = strstr(v1 + 1, "/v1/")) != NULL; v1 = next)
        ;
    buf_putf(&out, strchr(url->host, ':') ? "%s://[%s]:%d" : "%s://%s:%d",
             url->is_tls ? "https" : "http", url->host, url->port);
    buf_putf(&out, "%.*s/v1/conversations/", v1 ? (int)(v1 - url->path) : 0, url->path);
    put_segment(&out, order->conversation);
    buf_puts(&out, order->file_id ? "/files/" : "/files");
    if (order->file_id)
        put_segment(&out, order->file_id);
    return buf_take(&out);
}

struct chat_transfer *chat_transfer_open(const struct chat_transfer_order *order, char **ret_why)
{
    struct chat_transfer *t = xcalloc(sizeof *t);
    uint32_t random[4] = {0};
    t->path = xstrdup(str_of(order->path));
    t->is_saved = order->file_id != NULL;
    char *why = t->is_saved ? open_target(t) : open_source(t);
    if (why) {
        *ret_why = why;
        chat_transfer_free(t);
        return NULL;
    }
    ASSERT(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    t->multi = curl_multi_init();
    ASSERT(t->multi);
    (void)!getrandom(random, sizeof random, 0);
    snprintf(t->key, sizeof t->key, "%08x%08x%08x%08x", random[0], random[1], random[2], random[3]);
    t->url = transfer_url(order);
    t->token = order->token ? xstrdup(str_of(order->token)) : NULL;
    t->certificates = chat_link_certificates();
    return t;
}

void chat_transfer_start(struct chat_transfer *t, uv_loop_t *loop, chat_transfer_fn on_done,
                         void *arg)
{
    t->on_done = on_done;
    t->arg = arg;
    ASSERT(uv_queue_work(loop, &t->work, work, on_worked) == 0);
}

void chat_transfer_stop(struct chat_transfer *t)
{
    atomic_store(&t->is_stopped, true);
    if (uv_cancel((uv_req_t *)&t->work) != 0)
        (void)curl_multi_wakeup(t->multi);
}

const char *chat_transfer_error(const struct chat_transfer *t)
{
    return t->error;
}

bool chat_transfer_was_stopped(const struct chat_transfer *t)
{
    return atomic_load(&t->is_stopped);
}

struct str chat_transfer_answer(const struct chat_transfer *t)
{
    return buf_str(&t->answer);
}

int64_t chat_transfer_size(const struct chat_transfer *t)
{
    return t->size;
}

const char *chat_transfer_name(const struct chat_transfer *t)
{
    return name_in(t->path);
}

void chat_transfer_free(struct chat_transfer *t)
{
    if (!t)
        return;
    if (t->file)
        fclose(t->file);
    if (t->multi) {
        curl_multi_cleanup(t->multi);
        curl_global_cleanup();
    }
    buf_done(&t->answer);
    free(t->url);
    free(t->token);
    free(t->path);
    free(t->error);
    free(t);
}
