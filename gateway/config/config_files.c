/* Design.  A configuration names files and variables: keys for models and other servers,
 * certificates of theirs, the store's URL.  One that cannot be read is a fault of the
 * configuration, which a start finds before it begins anything.  The keys that verify tokens, those
 * of workers and the gateway's own certificate are looked into as well, by those who know them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/base/secret_line.h"
#include "gateway/config/config_keys.h"

#define LONGEST_LINE 16384 /* bytes: an API key's; other lines are shorter */

struct named {
    const struct config *config;
    struct faults faults;
    bool is_start;
};

static void check_line(struct named *n, const char *at, const char *key, const char *file)
{
    struct buf line = {0};
    char path[96];
    const char *wrong = file ? secret_line_read(file, LONGEST_LINE, &line) : NULL;
    snprintf(path, sizeof path, "%s.%s", at, key);
    if (wrong)
        fault(&n->faults, path, "%s: %s", file, wrong);
    secret_line_done(&line);
}

static void check_readable(struct named *n, const char *at, const char *key, const char *file)
{
    char path[96];
    snprintf(path, sizeof path, "%s.%s", at, key);
    if (file && access(file, R_OK) != 0)
        fault(&n->faults, path, "%s: %s", file, strerror(errno));
}

static void check_server(struct named *n, const char *at, const struct config_upstream *from)
{
    const char *name = from->api_key_env, *value = name ? getenv(name) : NULL;
    char path[96];
    snprintf(path, sizeof path, "%s.api_key_env", at);
    if (n->is_start && name && !(value && *value))
        fault(&n->faults, path, "%s: this variable is empty, or not set", name);
    check_line(n, at, "api_key_file", from->api_key_file);
    check_readable(n, at, "ca_file", from->ca_file);
}

/* The model and its fallbacks.  One that nobody asks may lack its key. */
static void check_asked(struct named *n, const char *name, bool *seen)
{
    const struct config_model *m = name ? config_find_model(n->config, name) : NULL;
    char at[64];
    for (; m; m = m->fallback ? config_find_model(n->config, m->fallback) : NULL) {
        size_t i = (size_t)(m - n->config->models);
        if (seen[i])
            return;
        seen[i] = true;
        snprintf(at, sizeof at, "models[%zu]", i);
        check_server(n, at, &m->upstream);
    }
}

static void check_models(struct named *n)
{
    bool *seen = xcalloc((n->config->n_models + 1) * sizeof *seen);
    for (size_t i = 0; i < n->config->n_agents; i++)
        if (n->config->agents[i].kind == AGENT_REACT)
            check_asked(n, n->config->agents[i].model, seen);
    check_asked(n, n->config->titles.model, seen);
    free(seen);
}

int config_check_files(const struct config *c, bool is_start, struct buf *ret_faults)
{
    struct named n = {.config = c, .faults = {.out = ret_faults}, .is_start = is_start};
    char at[64];

    check_line(&n, "store", "url_file", c->store.url_file);
    check_models(&n);
    for (size_t i = 0; i < c->n_agents; i++) {
        snprintf(at, sizeof at, "agents[%zu]", i);
        check_server(&n, at, &c->agents[i].upstream);
    }
    for (size_t i = 0; i < c->n_webhooks; i++) {
        snprintf(at, sizeof at, "webhooks[%zu]", i);
        check_line(&n, at, "secret_file", c->webhooks[i].secret_file);
        check_readable(&n, at, "ca_file", c->webhooks[i].ca_file);
    }
    if (c->traces.url)
        check_server(&n, "traces", &c->traces.upstream);
    return n.faults.n;
}
