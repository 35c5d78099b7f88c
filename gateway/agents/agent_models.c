#include "gateway/agents/agent_models.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/secret_lines.h"
#include "gateway/fetch/upstream.h"
#include "gateway/models/model_anthropic.h"
#include "gateway/models/model_openai.h"
#include "gateway/models/model_parts.h"
#include "gateway/models/model_responses.h"
#include "gateway/models/model_stats.h"

struct served {
    struct served *fallback;
    struct model model;
    struct model_stats stats;
    union {
        struct openai_settings openai;
        struct stream_settings stream;
    };
    struct upstream upstream;
    char *url;
};

/* By enum model_api: what follows base_url, and the header of the key. */
static const struct {
    const char *path, *key_header;
    const struct model_ops *ops;
    bool (*links_type)(struct str media_type);
} apis[] = {
    [API_CHAT] = {"/chat/completions", NULL, &model_openai_ops, model_part_links_chat},
    [API_RESPONSES] = {"/responses", NULL, &model_responses_ops, model_part_links_responses},
    [API_ANTHROPIC] = {"/messages", "x-api-key", &model_anthropic_ops, model_part_links_anthropic},
};

static void set_url(struct served *h, const struct config_model *from)
{
    struct buf url = {0};
    size_t base = strlen(from->base_url);
    while (base && from->base_url[base - 1] == '/')
        base--;
    buf_put(&url, from->base_url, base);
    buf_puts(&url, apis[from->api].path);
    h->url = buf_take(&url);
}

static void set_openai(struct served *h, const struct config_model *from, struct fetcher *fetcher)
{
    h->openai = (struct openai_settings){.fetcher = fetcher,
                                         .options = h->upstream.options,
                                         .url = h->url,
                                         .model = from->model,
                                         .think_tag = from->think_tag,
                                         .effort = from->effort,
                                         .max_tokens = from->max_tokens,
                                         .headers = (const char *const *)h->upstream.headers.list};
    h->model.settings = &h->openai;
}

static void set_stream(struct served *h, const struct config_model *from, struct fetcher *fetcher)
{
    if (from->api == API_ANTHROPIC)
        upstream_add(&h->upstream, "anthropic-version", ANTHROPIC_VERSION);
    h->stream = (struct stream_settings){.fetcher = fetcher,
                                         .options = h->upstream.options,
                                         .url = h->url,
                                         .model = from->model,
                                         .think_tag = from->think_tag,
                                         .effort = from->effort,
                                         .max_tokens = from->max_tokens,
                                         .thinking_tokens = from->thinking_tokens,
                                         .headers = (const char *const *)h->upstream.headers.list};
    h->model.settings = &h->stream;
}

static bool build_served(const struct config_model *from, struct fetcher *fetcher, struct served *h,
                         char *ret_error, size_t n)
{
    static const unsigned takes[] = {[TAKES_MESSAGES] = MODEL_TAKES_IMAGES | MODEL_TAKES_FILES,
                                     [TAKES_FILES] = MODEL_TAKES_IMAGES | MODEL_TAKES_FILES |
                                                     MODEL_TAKES_RESULTS,
                                     [TAKES_IMAGES] = MODEL_TAKES_IMAGES | MODEL_TAKES_RESULTS,
                                     [TAKES_TEXT] = 0};
    char why[256];
    if (!upstream_open(&from->upstream, apis[from->api].key_header, &h->upstream, why,
                       sizeof why)) {
        snprintf(ret_error, n, "model %s: %s", from->name, why);
        return false;
    }
    h->upstream.options.idle_ms = (msec_t)from->idle_timeout_s * 1000;
    set_url(h, from);
    h->model =
        (struct model){.name = from->name,
                       .ops = apis[from->api].ops,
                       .context_bytes = from->context_bytes,
                       .takes = takes[from->takes],
                       .takes_type = from->api == API_ANTHROPIC ? model_part_is_anthropic : NULL,
                       .links_type = from->files == FILES_URL ? apis[from->api].links_type : NULL,
                       .stats = &h->stats};
    if (from->api == API_CHAT)
        set_openai(h, from, fetcher);
    else
        set_stream(h, from, fetcher);
    return true;
}

bool agent_models_build(const struct models_rim *rim, const struct config_model *from,
                        struct served **ret, char *ret_error, size_t n)
{
    struct model *before = NULL;
    for (; from; ret = &(*ret)->fallback) {
        *ret = xcalloc(sizeof **ret);
        if (!build_served(from, rim->fetcher, *ret, ret_error, n))
            return false;
        secret_lines_add(rim->secrets, (char *const *)(*ret)->upstream.headers.list, ':');
        if (before)
            before->fallback = &(*ret)->model;
        before = &(*ret)->model;
        from = from->fallback ? config_find_model(rim->config, from->fallback) : NULL;
    }
    return true;
}

const struct model *agent_models_first(const struct served *m)
{
    return &m->model;
}

void agent_models_free(struct served *m)
{
    while (m) {
        struct served *next = m->fallback;
        upstream_done(&m->upstream);
        free(m->url);
        free(m);
        m = next;
    }
}
