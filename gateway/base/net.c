#include "gateway/base/net.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static void set_ipv4(struct net_address *ret, const void *four)
{
    memcpy(ret->bytes, mapped, sizeof mapped);
    memcpy(ret->bytes + sizeof mapped, four, 4);
}

static bool is_ipv4(const struct net_address *a)
{
    return memcmp(a->bytes, mapped, sizeof mapped) == 0;
}

bool net_parse_address(struct str text, struct net_address *ret)
{
    char copy[NET_TEXT];
    struct in_addr four;
    struct in6_addr six;

    if (text.n >= 2 && text.p[0] == '[' && text.p[text.n - 1] == ']') {
        text = (struct str){text.p + 1, text.n - 2};
        if (!memchr(text.p, ':', text.n))
            return false;
    }
    if (!text.p || text.n == 0 || text.n >= sizeof copy || memchr(text.p, '\0', text.n))
        return false;
    memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    if (inet_pton(AF_INET, copy, &four) == 1)
        set_ipv4(ret, &four);
    else if (inet_pton(AF_INET6, copy, &six) == 1)
        memcpy(ret->bytes, &six, sizeof ret->bytes);
    else
        return false;
    return true;
}

static bool parse_bits(struct str text, unsigned max, unsigned *ret)
{
    unsigned bits = 0;

    if (text.n < 1 || text.n > 3 || (text.n > 1 && text.p[0] == '0'))
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        bits = bits * 10 + (unsigned)(text.p[i] - '0');
    }
    if (bits > max)
        return false;
    *ret = bits;
    return true;
}

/* The byte's bits that belong to the prefix. */
static unsigned mask_of(unsigned bits, unsigned byte)
{
    if (bits >= byte * 8 + 8)
        return 0xff;
    return bits <= byte * 8 ? 0 : (0xff00u >> (bits - byte * 8)) & 0xff;
}

bool net_parse(struct str text, struct net *ret)
{
    const char *slash = text.p ? memchr(text.p, '/', text.n) : NULL;
    struct net net = {.bits = 128};

    if (slash) {
        size_t at = (size_t)(slash - text.p);
        struct str bits = {slash + 1, text.n - at - 1};
        text.n = at;
        if (!net_parse_address(text, &net.address))
            return false;
        bool four = !memchr(text.p, ':', text.n);
        if (!parse_bits(bits, four ? 32 : 128, &net.bits))
            return false;
        net.bits += four ? 96 : 0;
    } else if (!net_parse_address(text, &net.address)) {
        return false;
    }
    for (unsigned i = 0; i < sizeof net.address.bytes; i++)
        if (net.address.bytes[i] & ~mask_of(net.bits, i) & 0xff)
            return false;
    *ret = net;
    return true;
}

bool net_of_sockaddr(const struct sockaddr *from, struct net_address *ret)
{
    if (from->sa_family == AF_INET)
        set_ipv4(ret, &((const struct sockaddr_in *)(const void *)from)->sin_addr);
    else if (from->sa_family == AF_INET6)
        memcpy(ret->bytes, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr,
               sizeof ret->bytes);
    else
        return false;
    return true;
}

bool net_of_peer(int fd, struct net_address *ret)
{
    struct sockaddr_storage at = {0};
    socklen_t n = sizeof at;

    return getpeername(fd, (struct sockaddr *)&at, &n) == 0 &&
           net_of_sockaddr((const struct sockaddr *)&at, ret);
}

static bool net_has(const struct net *net, const struct net_address *address)
{
    for (unsigned i = 0; i < sizeof address->bytes; i++)
        if ((net->address.bytes[i] ^ address->bytes[i]) & mask_of(net->bits, i))
            return false;
    return true;
}

bool net_list_has(const struct net *nets, size_t n_nets, const struct net_address *address)
{
    for (size_t i = 0; i < n_nets; i++)
        if (net_has(&nets[i], address))
            return true;
    return false;
}

bool net_is_loopback(const struct net_address *address)
{
    static const struct net_address six = {.bytes = {[15] = 1}};

    if (is_ipv4(address))
        return address->bytes[12] == 127;
    return memcmp(address, &six, sizeof six) == 0;
}

/* IPv6 is assigned only in 2000::/3; everything else is special. */
bool net_is_public(const struct net_address *address)
{
    static const char *const special4[] = {
        "0.0.0.0/8",      "10.0.0.0/8",     "100.64.0.0/10",   "127.0.0.0/8",     "169.254.0.0/16",
        "172.16.0.0/12",  "192.0.0.0/24",   "192.0.2.0/24",    "192.31.196.0/24", "192.52.193.0/24",
        "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",   "198.51.100.0/24",
        "203.0.113.0/24", "224.0.0.0/3"};
    static const char *const special6[] = {"2001::/23", "2001:db8::/32", "2002::/16",
                                           "2620:4f:8000::/48", "3fff::/20"};
    bool four = is_ipv4(address);
    const char *const *special = four ? special4 : special6;
    struct net net;

    if (!four && (address->bytes[0] & 0xe0) != 0x20)
        return false;
    for (size_t i = 0; i < (four ? countof(special4) : countof(special6)); i++) {
        bool good = net_parse(str_of(special[i]), &net);
        ASSERT(good);
        if (net_has(&net, address))
            return false;
    }
    return true;
}

void net_format(const struct net_address *address, char ret_text[NET_TEXT])
{
    const char *text = is_ipv4(address)
                           ? inet_ntop(AF_INET, address->bytes + sizeof mapped, ret_text, NET_TEXT)
                           : inet_ntop(AF_INET6, address->bytes, ret_text, NET_TEXT);

    ASSERT(text);
}

void net_format_group(const struct net_address *address, unsigned ipv6_prefix,
                      char ret_text[NET_TEXT])
{
    struct net_address first = *address;

    if (is_ipv4(address) || ipv6_prefix >= 128) {
        net_format(address, ret_text);
        return;
    }
    for (unsigned i = 0; i < sizeof first.bytes; i++)
        first.bytes[i] &= (uint8_t)mask_of(ipv6_prefix, i);
    net_format(&first, ret_text); /* 39 characters at most, as it is not a mapped one */
    size_t n = strlen(ret_text);
    snprintf(ret_text + n, NET_TEXT - n, "/%u", ipv6_prefix);
}
