#include "gateway/reload.h"

#include "gateway/auth/auth.h"
#include "gateway/base/audit.h"
#include "gateway/base/log.h"
#include "gateway/front/tls.h"
#include "gateway/server.h"

/* If keys were added where there were none, or all removed, other clients would become guests; and
 * the rules for guests were checked at the start. */
static bool is_of_a_kind(const struct config *running, const struct config *now)
{
    return config_has_keys(now) == config_has_keys(running);
}

static struct auth *read_keys(const struct config *running, size_t *ret_n, struct buf *ret_faults)
{
    struct config now, with = *running;
    struct auth *auth = NULL;
    if (config_load(running->file, &running->flags, &now, ret_faults) == 0) {
        with.auth.keys = now.auth.keys;
        with.auth.n_keys = *ret_n = now.auth.n_keys;
        if (is_of_a_kind(running, &now))
            auth = auth_open(&with, running->data, ret_faults);
        else
            buf_puts(ret_faults,
                     "auth.keys: adding the first key or removing the last one needs a restart\n");
    }
    config_done(&now);
    return auth;
}

static void reload_keys(struct server *s)
{
    struct buf faults = {0};
    size_t n_keys = 0;
    struct auth *fresh = read_keys(s->config, &n_keys, &faults);
    if (fresh) {
        auth_set_jwks(fresh, s->jwks);
        front_set_auth(&s->front, fresh);
        log_event(LEVEL_INFO, "auth", "reloaded", LOG_INT("keys", (int64_t)n_keys));
    } else {
        log_event(LEVEL_ERROR, "auth", "not_reloaded", LOG_STR("why", buf_str(&faults)));
    }
    buf_done(&faults);
}

static void reload_certificate(struct server *s)
{
    const char *wrong = tls_reload(s->front.tls, s->config);
    if (wrong)
        log_event(LEVEL_ERROR, "tls", "not_reloaded", LOG_TEXT("why", wrong));
    else
        log_event(LEVEL_INFO, "tls", "reloaded", LOG_TEXT("cert", s->config->tls.cert));
}

void reload(struct server *s)
{
    reload_keys(s);
    if (s->front.tls)
        reload_certificate(s);
    audit_reopen(s->audit);
}
