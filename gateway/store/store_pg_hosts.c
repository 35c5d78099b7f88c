#include "gateway/store/store_pg_hosts.h"

#include <libpq-fe.h>
#include <stdlib.h>

#include "proto/str.h"

#define DEFAULT_PORT "5432" /* of an entry without one, where others have theirs */

static const char *option_of(const PQconninfoOption *options, const char *keyword)
{
    for (; options && options->keyword; options++)
        if (strcmp(options->keyword, keyword) == 0)
            return options->val && options->val[0] ? options->val : NULL;
    return NULL;
}

static size_t entries_of(const char *list)
{
    size_t n = list != NULL;
    for (; list && *list; list++)
        n += *list == ',';
    return n;
}

/* The entry at that place; a list of one is everybody's. */
static struct str entry_at(const char *list, size_t at)
{
    const char *comma;
    while (at-- > 0 && (comma = strchr(list, ',')) != NULL)
        list = comma + 1;
    return (struct str){list, strcspn(list, ",")};
}

/* Lists of hosts and addresses are as long as each other, and as the ports' unless that has one;
 * each has a name or an address. */
static bool can_be_split(const char *host, const char *hostaddr, const char *port, size_t n)
{
    if (n < 2 || n > PG_HOSTS_MAX || (host && hostaddr && entries_of(host) != entries_of(hostaddr)))
        return false;
    if (entries_of(port) > 1 && entries_of(port) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (entry_at(hostaddr ? hostaddr : host, i).n == 0)
            return false;
    return true;
}

static char *own_entry(const char *list, size_t at, const char *otherwise)
{
    if (!list || (entries_of(list) < 2 && !otherwise))
        return NULL;
    struct str entry = entry_at(list, at);
    return xstrdup(entry.n > 0 || !otherwise ? entry : str_of(otherwise));
}

void pg_hosts_read(struct pg_hosts *hosts, const char *url)
{
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    const char *host = option_of(options, "host"), *port = option_of(options, "port");
    const char *hostaddr = option_of(options, "hostaddr");
    size_t n = entries_of(hostaddr ? hostaddr : host);
    *hosts = (struct pg_hosts){.n = 1};
    if (can_be_split(host, hostaddr, port, n))
        hosts->n = n;
    for (size_t i = 0; i < hosts->n && hosts->n > 1; i++)
        hosts->all[i] = (struct pg_host){.host = own_entry(host, i, NULL),
                                         .hostaddr = own_entry(hostaddr, i, NULL),
                                         .port = own_entry(port, i, DEFAULT_PORT)};
    PQconninfoFree(options);
}

void pg_hosts_done(struct pg_hosts *hosts)
{
    for (size_t i = 0; i < hosts->n; i++) {
        free(hosts->all[i].host);
        free(hosts->all[i].hostaddr);
        free(hosts->all[i].port);
    }
    hosts->n = 0;
}
