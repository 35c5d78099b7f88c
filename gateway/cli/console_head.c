#include "gateway/cli/console_head.h"

#include <stdio.h>

#include "proto/str.h"

static bool is_token(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", s.p[i]))
            return false;
    return s.n > 0;
}

/* RFC 9110 section 5.5, and no bytes beyond ASCII: our page sends none. */
static bool is_value(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((s.p[i] < ' ' && s.p[i] != '\t') || s.p[i] >= 0x7f)
            return false;
    return true;
}

/* Takes up to the separator and drops it; false when it is not there. */
static bool take_up_to(struct str *rest, const char *separator, struct str *ret)
{
    size_t n = strlen(separator);
    const char *at = memmem(rest->p, rest->n, separator, n);
    if (!at)
        return false;
    *ret = (struct str){rest->p, (size_t)(at - rest->p)};
    *rest = str_from(*rest, ret->n + n);
    return true;
}

static bool read_length(struct str value, size_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < value.n; i++) {
        if (!is_digit(value.p[i]) || value.n > 9)
            return false;
        *ret = *ret * 10 + (size_t)(value.p[i] - '0');
    }
    return value.n > 0;
}

static bool is_header_name(struct str name, const char *wanted)
{
    return name.n == strlen(wanted) && str_begins_nocase(name, str_of(wanted));
}

/* False when a header that counts is there twice. */
static bool keep_header(struct console_head *head, struct str name, struct str value)
{
    const struct {
        const char *name;
        struct str *to;
    } kept[] = {{"host", &head->host},
                {"origin", &head->origin},
                {"sec-fetch-site", &head->site},
                {"authorization", &head->bearer},
                {"holdfast-owner", &head->owner},
                {"content-type", &head->content_type}};
    for (size_t i = 0; i < countof(kept); i++) {
        if (!is_header_name(name, kept[i].name))
            continue;
        if (kept[i].to->p)
            return false;
        *kept[i].to = value;
    }
    return true;
}

static int console_fail(const char **ret_why, int status, const char *why)
{
    *ret_why = why;
    return status;
}

int console_head_read(struct str bytes, struct console_head *ret, const char **ret_why)
{
    struct str rest = bytes, line, version;
    bool has_length = false;
    *ret = (struct console_head){0};
    if (!take_up_to(&rest, "\r\n", &line) || !take_up_to(&line, " ", &ret->method) ||
        !take_up_to(&line, " ", &ret->path) || !is_token(ret->method))
        return console_fail(ret_why, 400, "the request line cannot be read");
    version = line;
    if (!str_eq(version, STR("HTTP/1.1")) || ret->path.n == 0 || ret->path.p[0] != '/' ||
        !is_value(ret->path) || memchr(ret->path.p, ' ', ret->path.n))
        return console_fail(ret_why, 400, "the request line cannot be read");
    while (take_up_to(&rest, "\r\n", &line) && line.n > 0) {
        struct str name, value = line;
        if (!take_up_to(&value, ":", &name) || !is_token(name) || !is_value(value))
            return console_fail(ret_why, 400, "a header cannot be read");
        value = str_trim(value);
        if (is_header_name(name, "transfer-encoding") || is_header_name(name, "upgrade"))
            return console_fail(ret_why, 400, "neither a coding nor an upgrade is served here");
        if (is_header_name(name, "content-length")) {
            if (has_length || !read_length(value, &ret->length))
                return console_fail(ret_why, 400, "the length cannot be read");
            has_length = true;
        }
        if (!keep_header(ret, name, value))
            return console_fail(ret_why, 400, "a header is there twice");
    }
    ret->head_bytes = (size_t)(rest.p - bytes.p);
    if (ret->length > CONSOLE_BODY_MAX)
        return console_fail(ret_why, 413, "the body is too large");
    return 0;
}

int console_head_check(const struct console_head *head, int port, const char **ret_why)
{
    char host[32], origin[40];
    snprintf(host, sizeof host, "127.0.0.1:%d", port);
    snprintf(origin, sizeof origin, "http://%s", host);
    if (!str_eq(head->host, str_of(host)))
        return console_fail(ret_why, 421, "this is not the address of the console");
    if (head->origin.p && !str_eq(head->origin, str_of(origin)))
        return console_fail(ret_why, 403, "another page has sent this");
    if (head->site.p && !str_eq(head->site, STR("same-origin")) &&
        !str_eq(head->site, STR("none")) && !str_eq(head->method, STR("GET")))
        return console_fail(ret_why, 403, "another page has sent this");
    return 0;
}

bool console_head_is_page(const struct console_head *head)
{
    static const char folder[] = "/console/", in_names[] = "abcdefghijklmnopqrstuvwxyz0123456789.";
    if (!str_begins(head->path, STR("/console/")) || !str_eq(head->method, STR("GET")))
        return false;
    struct str name = str_from(head->path, sizeof folder - 1);
    for (size_t i = 0; i < name.n; i++)
        if (!strchr(in_names, name.p[i]) || !name.p[i] || (name.p[i] == '.' && i == 0) ||
            (name.p[i] == '.' && name.p[i - 1] == '.'))
            return false;
    return true;
}

void console_head_put(const struct console_head *head, struct buf *out)
{
    buf_putstr(out, head->method);
    buf_putc(out, ' ');
    buf_putstr(out, head->path);
    buf_puts(out, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    if (head->owner.p) {
        buf_puts(out, "Holdfast-Owner: ");
        buf_putstr(out, head->owner);
        buf_puts(out, "\r\n");
    }
    if (head->content_type.p) {
        buf_puts(out, "Content-Type: ");
        buf_putstr(out, head->content_type);
        buf_puts(out, "\r\n");
    }
    if (head->length)
        buf_putf(out, "Content-Length: %zu\r\n", head->length);
    buf_puts(out, "\r\n");
}
