#include "gateway/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define KEY_BYTES 16384

static bool has(const struct config_texts *headers, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < headers->n; i++)
        if (strncasecmp(headers->list[i], name, n) == 0 && headers->list[i][n] == ':')
            return true;
    return false;
}

static void add(struct config_texts *headers, const char *name, const char *value)
{
    struct buf line = {0};
    if (has(headers, name))
        return;
    buf_putf(&line, "%s: %s", name, value);
    headers->list[headers->n++] = buf_take(&line);
}

/* The first line of a file. */
static bool read_key(const char *file, char ret_key[KEY_BYTES], char *ret_error, size_t n)
{
    FILE *stream = fopen(file, "re");
    const char *got = stream ? fgets(ret_key, KEY_BYTES, stream) : NULL;
    int error = errno;
    if (stream)
        (void)fclose(stream);
    if (got) {
        ret_key[strcspn(ret_key, "\r\n")] = '\0';
        if (*ret_key)
            return true;
    }
    snprintf(ret_error, n, "the API key in %s cannot be read: %s", file,
             stream ? "the first line is empty" : strerror(error));
    return false;
}

static bool is_plain(const char *key)
{
    for (const unsigned char *p = (const unsigned char *)key; *p; p++)
        if (*p <= ' ' || *p >= 0x7f)
            return false;
    return true;
}

static bool add_key(const struct config_peer *from, struct config_texts *headers, char *ret_error,
                    size_t n)
{
    char key[KEY_BYTES], value[KEY_BYTES + 16];
    if (!from->api_key_env && !from->api_key_file)
        return true;
    if (from->api_key_file && !read_key(from->api_key_file, key, ret_error, n))
        return false;
    if (from->api_key_env) {
        const char *text = getenv(from->api_key_env);
        snprintf(key, sizeof key, "%s", text ? text : "");
    }
    if (!*key || !is_plain(key)) {
        snprintf(ret_error, n, "the API key in %s has no characters, or some that none has",
                 from->api_key_env ? from->api_key_env : from->api_key_file);
        return false;
    }
    snprintf(value, sizeof value, "Bearer %s", key);
    add(headers, "Authorization", value);
    return true;
}

bool peer_open(const struct config_peer *from, struct peer *ret, char *ret_error, size_t n)
{
    struct config_texts *headers = &ret->headers;
    *ret = (struct peer){.options = {.ca_file = from->ca_file,
                                     .proxy = from->proxy,
                                     .connect_ms = (msec_t)from->connect_timeout_s * 1000,
                                     .retries = from->retries}};
    headers->list = xcalloc((from->headers.n + 4) * sizeof *headers->list);
    for (size_t i = 0; i < from->headers.n; i++)
        headers->list[headers->n++] = xstrdup(str_of(from->headers.list[i]));
    add(headers, "Content-Type", "application/json");
    add(headers, "Accept", "text/event-stream, application/json");
    return add_key(from, headers, ret_error, n);
}

void peer_done(struct peer *peer)
{
    for (size_t i = 0; i < peer->headers.n; i++)
        free(peer->headers.list[i]);
    free(peer->headers.list);
    *peer = (struct peer){0};
}
