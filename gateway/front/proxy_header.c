#include "gateway/front/proxy_header.h"

#define LINE_MAX_BYTES 107
#define FIXED 16 /* bytes of version 2 before its addresses */

static const char signature[12] = "\r\n\r\n\0\r\nQUIT\n";

static bool is_prefix(struct str bytes, const char *of, size_t n)
{
    return memcmp(bytes.p, of, bytes.n < n ? bytes.n : n) == 0;
}

/* --- version 1: PROXY TCP4 client proxy port port\r\n ----------------------------------------- */

/* The word at *at, which ends at a space or the line's end; *at moves past one space. */
static struct str take_word(struct str *at)
{
    struct str word = *at;
    const char *space = memchr(at->p, ' ', at->n);
    word.n = space ? (size_t)(space - at->p) : at->n;
    size_t skip = word.n + (space ? 1 : 0);
    at->p += skip;
    at->n -= skip;
    return word;
}

static bool is_port(struct str word)
{
    unsigned n = 0;
    for (size_t i = 0; i < word.n; i++) {
        if (word.p[i] < '0' || word.p[i] > '9')
            return false;
        n = n * 10 + (unsigned)(word.p[i] - '0');
    }
    return word.n > 0 && word.n <= 5 && n <= 65535 && (word.p[0] != '0' || word.n == 1);
}

static bool is_address(struct str word, bool v4, struct net_address *ret)
{
    bool has_colon = word.n && memchr(word.p, ':', word.n);
    return word.n && word.p[0] != '[' && has_colon != v4 && net_parse_address(word, ret);
}

static enum proxy_verdict read_line(struct str line, bool *ret_says_who, struct net_address *ret)
{
    struct net_address proxy;
    (void)take_word(&line); /* PROXY */
    struct str family = take_word(&line);
    if (str_eq(family, STR("UNKNOWN"))) {
        *ret_says_who = false;
        return PROXY_DONE;
    }
    bool v4 = str_eq(family, STR("TCP4"));
    if (!v4 && !str_eq(family, STR("TCP6")))
        return PROXY_BAD;
    struct str client = take_word(&line), to = take_word(&line);
    struct str from_port = take_word(&line), to_port = take_word(&line);
    *ret_says_who = true;
    return line.n == 0 && is_address(client, v4, ret) && is_address(to, v4, &proxy) &&
                   is_port(from_port) && is_port(to_port)
               ? PROXY_DONE
               : PROXY_BAD;
}

static enum proxy_verdict read_version_1(struct str bytes, size_t *ret_bytes, bool *ret_says_who,
                                         struct net_address *ret)
{
    size_t n = bytes.n < LINE_MAX_BYTES ? bytes.n : LINE_MAX_BYTES;
    const char *end = memmem(bytes.p, n, "\r\n", 2);
    if (!end)
        return bytes.n >= LINE_MAX_BYTES ? PROXY_BAD : PROXY_MORE;
    *ret_bytes = (size_t)(end - bytes.p) + 2;
    return read_line((struct str){bytes.p, (size_t)(end - bytes.p)}, ret_says_who, ret);
}

/* --- version 2 -------------------------------------------------------------------------------- */

static enum proxy_verdict read_addresses(struct str all, bool *ret_says_who,
                                         struct net_address *ret)
{
    enum { LOCAL = 0x20, PROXY = 0x21, TCP4 = 0x11, TCP6 = 0x21 };
    unsigned char command = (unsigned char)all.p[12], family = (unsigned char)all.p[13];
    struct str at = {all.p + FIXED, all.n - FIXED};
    *ret_says_who = false;
    if (command == LOCAL)
        return PROXY_DONE;
    if (command != PROXY)
        return PROXY_BAD;
    *ret = (struct net_address){{0}};
    if (family == TCP4 && at.n >= 12) {
        ret->bytes[10] = ret->bytes[11] = 0xff;
        memcpy(ret->bytes + 12, at.p, 4);
    } else if (family == TCP6 && at.n >= 36) {
        memcpy(ret->bytes, at.p, 16);
    } else {
        return PROXY_BAD; /* UDP, a Unix socket, or cut off: not a possible client */
    }
    *ret_says_who = true;
    return PROXY_DONE;
}

static enum proxy_verdict read_version_2(struct str bytes, size_t *ret_bytes, bool *ret_says_who,
                                         struct net_address *ret)
{
    if (bytes.n < FIXED)
        return PROXY_MORE;
    const unsigned char *p = (const unsigned char *)bytes.p;
    size_t n = FIXED + ((size_t)p[14] << 8 | p[15]);
    if (n > PROXY_HEADER_MAX)
        return PROXY_BAD;
    if (bytes.n < n)
        return PROXY_MORE;
    *ret_bytes = n;
    return read_addresses((struct str){bytes.p, n}, ret_says_who, ret);
}

enum proxy_verdict proxy_header_read(struct str bytes, size_t *ret_bytes, bool *ret_says_who,
                                     struct net_address *ret_client)
{
    if (bytes.n == 0)
        return PROXY_MORE;
    if (is_prefix(bytes, signature, sizeof signature))
        return read_version_2(bytes, ret_bytes, ret_says_who, ret_client);
    if (is_prefix(bytes, "PROXY ", 6))
        return read_version_1(bytes, ret_bytes, ret_says_who, ret_client);
    return PROXY_BAD;
}
