#include "gateway/fetch/upstream.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "gateway/base/secret_line.h"

#define MAX_API_KEY 16384 /* bytes */

static bool upstream_has(const struct config_texts *headers, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < headers->n; i++)
        if (strncasecmp(headers->list[i], name, n) == 0 && headers->list[i][n] == ':')
            return true;
    return false;
}

void upstream_add(struct upstream *upstream, const char *name, const char *value)
{
    struct config_texts *headers = &upstream->headers;
    struct buf line = {0};
    if (upstream_has(headers, name))
        return;
    ASSERT(headers->n < upstream->room);
    buf_putf(&line, "%s: %s", name, value);
    headers->list[headers->n++] = buf_take(&line);
}

static bool is_plain(const char *key)
{
    for (const unsigned char *p = (const unsigned char *)key; *p; p++)
        if (*p <= ' ' || *p >= 0x7f)
            return false;
    return true;
}

static const char *read_env(const char *name, struct buf *ret)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return "it is empty, or not set";
    if (strlen(text) > MAX_API_KEY)
        return "it is too long";
    buf_puts(ret, text);
    return NULL;
}

static bool add_key(const struct config_upstream *from, const char *header, struct upstream *to,
                    char *ret_error, size_t n)
{
    const char *where = from->api_key_env ? from->api_key_env : from->api_key_file;
    struct buf key = {0}, value = {0};
    if (!where)
        return true;
    const char *wrong =
        from->api_key_env ? read_env(where, &key) : secret_line_read(where, MAX_API_KEY, &key);
    if (!wrong && !is_plain(key.bytes))
        wrong = "it has characters that a key cannot have";
    if (wrong) {
        snprintf(ret_error, n, "the API key in %s cannot be used: %s", where, wrong);
    } else {
        buf_putf(&value, "%s%s", header ? "" : "Bearer ", key.bytes);
        upstream_add(to, header ? header : "Authorization", value.bytes);
    }
    secret_line_done(&key);
    secret_line_done(&value);
    return !wrong;
}

bool upstream_open(const struct config_upstream *from, const char *key_header, struct upstream *ret,
                   char *ret_error, size_t n)
{
    struct config_texts *headers = &ret->headers;
    *ret = (struct upstream){.options = {.ca_file = from->ca_file,
                                         .proxy = from->proxy,
                                         .connect_ms = (msec_t)from->connect_timeout_s * 1000,
                                         .retries = from->retries}};
    ret->room = from->headers.n + UPSTREAM_ADDED;
    headers->list = xcalloc((ret->room + 1) * sizeof *headers->list);
    for (size_t i = 0; i < from->headers.n; i++)
        headers->list[headers->n++] = xstrdup(str_of(from->headers.list[i]));
    upstream_add(ret, "Content-Type", "application/json");
    upstream_add(ret, "Accept", "text/event-stream, application/json");
    return add_key(from, key_header, ret, ret_error, n);
}

void upstream_done(struct upstream *upstream)
{
    for (size_t i = 0; i < upstream->headers.n; i++)
        free(upstream->headers.list[i]);
    free(upstream->headers.list);
    *upstream = (struct upstream){0};
}
