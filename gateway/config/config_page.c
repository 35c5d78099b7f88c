/* Design.  The operator's own chat page.  Its mark is read here, so that check-config finds what is
 * wrong with it, and what is served is what was checked. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/config/config_check.h"
#include "gateway/config/config_keys.h"
#include "proto/str.h"

#define MARK_MAX (256u << 10)
#define SVG_WITHIN 1024    /* bytes, in which an SVG's root begins: after a head and comments */
#define LEAST_CONTRAST 4.5 /* of letters to their ground: WCAG 2.2, 1.4.3 */

/* WCAG 2.2, relative luminance. */
static double linear(unsigned long of_255)
{
    double c = (double)of_255 / 255;
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

static bool is_colour(const char *text)
{
    return text[0] == '#' && strlen(text) == 7 && strspn(text + 1, "0123456789abcdefABCDEF") == 6;
}

static double contrast_to_white(const char *colour)
{
    unsigned long rgb = strtoul(colour + 1, NULL, 16);
    double luminance =
        0.2126 * linear(rgb >> 16) + 0.7152 * linear(rgb >> 8 & 255) + 0.0722 * linear(rgb & 255);
    return 1.05 / (luminance + 0.05);
}

static const char *type_of(struct str picture)
{
    struct str head = {picture.p, picture.n < SVG_WITHIN ? picture.n : SVG_WITHIN};
    if (str_begins(picture, STR("\x89PNG\r\n\x1a\n")))
        return "image/png";
    return memmem(head.p, head.n, "<svg", 4) ? "image/svg+xml" : NULL;
}

static const char *read_mark(const char *path, struct buf *ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0 && ret->len <= MARK_MAX) {
        char *room = buf_reserve(ret, MARK_MAX + 1);
        n = read(fd, room + ret->len, MARK_MAX + 1 - ret->len);
        ret->len += n > 0 ? (size_t)n : 0;
        n = n < 0 && errno == EINTR ? 1 : n;
    }
    const char *wrong = n < 0 ? strerror(errno) : NULL;
    if (fd >= 0)
        close(fd);
    return wrong;
}

/* A link has its token behind a '#' of its own. */
static bool is_public(const char *url)
{
    size_t scheme = strncmp(url, "https://", 8) == 0 ? 8 : strncmp(url, "http://", 7) == 0 ? 7 : 0;
    return scheme && url[scheme] && url[scheme] != '/' && !strpbrk(url, "#@\"<> \t\r\n");
}

void config_check_page(struct config *c, struct faults *f)
{
    if (*c->public_url && !is_public(c->public_url))
        fault(f, "public_url", "must be an address of http or https without a user and a \"#\"");
    if (*c->page.accent && !is_colour(c->page.accent))
        fault(f, "page.accent", "must be a colour such as #0b6e66");
    else if (*c->page.accent && contrast_to_white(c->page.accent) < LEAST_CONTRAST)
        fault(f, "page.accent",
              "is too light for white letters on it: the contrast is %.1f, not 4.5",
              contrast_to_white(c->page.accent));
    if (!*c->page.mark)
        return;
    struct buf *picture = &c->page.mark_bytes;
    const char *wrong = read_mark(c->page.mark, picture);
    c->page.mark_type = type_of(buf_str(picture));
    if (wrong)
        fault(f, "page.mark", "cannot be read: %s", wrong);
    else if (picture->len > MARK_MAX)
        fault(f, "page.mark", "is larger than 256 KiB");
    else if (!c->page.mark_type)
        fault(f, "page.mark", "must be an SVG or a PNG");
}
