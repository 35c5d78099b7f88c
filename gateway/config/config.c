#include "gateway/config/config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/config/config_check.h"
#include "proto/str.h"

/* Takes "agents[3]" from its front; false: it names no agent. */
static bool take_agent(struct str *line, uint64_t *ret_at)
{
    const struct str begins = STR("agents[");
    if (!str_begins(*line, begins))
        return false;
    *line = str_from(*line, begins.n);
    if (!str_take_u64(line, ret_at) || !str_begins(*line, STR("]")))
        return false;
    *line = str_from(*line, 1);
    return true;
}

/* "agents[3].url: …" becomes "agents[3] (coder).url: …": a number alone has to be counted. */
static void name_agents(const struct config *c, struct buf *faults, size_t from)
{
    struct buf named = {0};
    struct str rest = str_from(buf_str(faults), from);
    while (rest.n > 0) {
        const char *newline = memchr(rest.p, '\n', rest.n);
        struct str line = {rest.p, newline ? (size_t)(newline - rest.p) + 1 : rest.n};
        struct str tail = line;
        uint64_t at = 0;
        bool is_agent = take_agent(&tail, &at) && at < c->n_agents;
        const char *name = is_agent ? c->agents[at].name : NULL;
        if (name && *name && config_is_name(name))
            buf_putf(&named, "agents[%zu] (%s)", (size_t)at, name);
        else
            tail = line;
        buf_putstr(&named, tail);
        rest = str_from(rest, line.n);
    }
    faults->len = from;
    buf_putstr(faults, buf_str(&named));
    buf_done(&named);
}

int config_load(const char *file, const struct config_flags *flags, struct config *ret,
                struct buf *ret_faults)
{
    static const struct config_flags none = {0};
    struct faults f = {.out = ret_faults};
    size_t from = ret_faults->len;

    *ret = (struct config){0};
    ret->file = file;
    ret->flags = flags ? *flags : none;
    keys_set_defaults(&config_table, ret);
    if (!file || config_read(file, ret, &f))
        config_check(ret, &ret->flags, &f);
    if (f.n > 0)
        name_agents(ret, ret_faults, from);
    return f.n;
}

void config_done(struct config *c)
{
    for (size_t i = 0; i < c->parsed_origins.n; i++)
        origin_done(&c->parsed_origins.list[i]);
    free(c->parsed_origins.list);
    for (size_t i = 0; i < c->parsed_origins.n_hosts; i++)
        origin_done(&c->parsed_origins.hosts[i]);
    free(c->parsed_origins.hosts);
    free(c->trusted_nets);
    free(c->metrics.allow_nets);
    free(c->http_get.allow_nets);
    free(c->webhook_allow_nets);
    free(c->listen_host);
    buf_done(&c->page.mark_bytes);
    keys_free(&config_table, c);
    *c = (struct config){0};
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static json_t *table_json(const struct key_table *table, const void *base);

/* A text that is not UTF-8 (a path on the command line) cannot be shown in JSON. */
static json_t *text_json(const char *text)
{
    json_t *json = json_string(text);

    return json ? json : json_string("?");
}

/* https://user:password@host/path?key=… is shown with *** before the @, and instead of what follows
 * the path. */
static json_t *url_json(const char *url)
{
    const char *host = strstr(url, "://"), *at;
    struct buf shown = {0};

    host = host ? host + 3 : url;
    at = memrchr(host, '@', strcspn(host, "/?#"));
    if (at) {
        buf_put(&shown, url, (size_t)(host - url));
        buf_puts(&shown, "***");
        url = at;
    }
    size_t n = strcspn(url, "?#");
    buf_put(&shown, url, n);
    if (url[n])
        buf_putf(&shown, "%c***", url[n]);
    json_t *json = text_json(shown.len ? shown.bytes : "");
    buf_done(&shown);
    return json;
}

static json_t *texts_json(const struct config_texts *texts)
{
    json_t *array = json_array();

    for (size_t i = 0; i < texts->n; i++)
        json_array_append_new(array, text_json(texts->list[i]));
    return array;
}

static json_t *env_json(const struct config_texts *texts, const char *border)
{
    json_t *object = json_object();

    for (size_t i = 0; i < texts->n; i++) {
        size_t n = strcspn(texts->list[i], border);
        char *name = xstrdup((struct str){texts->list[i], n});
        json_object_set_new(object, name, json_string("***"));
        free(name);
    }
    return object;
}

static json_t *list_json(const struct key *key, const void *base)
{
    const char *elements = *(char *const *)(const void *)((const char *)base + key->offset);
    size_t n = *(const size_t *)(const void *)((const char *)base + key->count_offset);
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, table_json(key->table, elements + i * key->size));
    return array;
}

/* NULL for a value that was not given. */
static json_t *value_json(const struct key *key, const void *base)
{
    const void *member = (const char *)base + key->offset;
    const char *text;

    switch (key->type) {
    case KEY_INT: return json_integer(key_number(key, base));
    case KEY_BOOL: return json_boolean(key_number(key, base));
    case KEY_CHOICE: return json_string(key->choices[key_number(key, base)]);
    case KEY_TEXT: text = *(char *const *)member; return text ? text_json(text) : NULL;
    case KEY_URL: text = *(char *const *)member; return text ? url_json(text) : NULL;
    case KEY_TEXTS: return texts_json(member);
    case KEY_ENV: return env_json(member, "=");
    case KEY_HEADERS: return env_json(member, ":");
    case KEY_GROUP: return table_json(key->table, base);
    case KEY_LIST: return list_json(key, base);
    }
    UNREACHABLE();
}

static json_t *table_json(const struct key_table *table, const void *base)
{
    json_t *object = json_object();

    for (size_t i = 0; i < table->n; i++) {
        json_t *value = value_json(&table->keys[i], base);
        bool is_empty_group = table->keys[i].type == KEY_GROUP && json_object_size(value) == 0;
        if (is_empty_group)
            json_decref(value);
        else if (value)
            json_object_set_new(object, table->keys[i].name, value);
    }
    return object;
}

void config_print(const struct config *c, struct buf *out)
{
    json_t *json = table_json(&config_table, c);
    char *text = json_dumps(json, JSON_INDENT(2));

    buf_puts(out, text ? text : "{}");
    buf_putc(out, '\n');
    free(text);
    json_decref(json);
}

/* --- the keys themselves ---------------------------------------------------------------------- */

static void put_default(const struct key *key, struct buf *out)
{
    if (key->computed)
        buf_putf(out, "; default: %s", key->computed);
    else if (key->type == KEY_INT)
        buf_putf(out, "; default: %lld", (long long)key->number);
    else if (key->type == KEY_BOOL)
        buf_putf(out, "; default: %s", key->number ? "true" : "false");
    else if (key->type == KEY_CHOICE && !key->required)
        buf_putf(out, "; default: \"%s\"", key->choices[key->number]);
    else if (key->type == KEY_TEXT && key->text)
        buf_putf(out, "; default: \"%s\"", key->text);
    else if (key->required)
        buf_puts(out, "; required");
}

static void print_table(const struct key_table *table, struct str prefix, struct buf *out)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct key *key = &table->keys[i];
        struct buf path = {0};
        buf_putstr(&path, prefix);
        buf_puts(&path, key->name);
        buf_putf(out, "%s: %s (", path.bytes, key->doc);
        key_put_wanted(key, out);
        put_default(key, out);
        buf_puts(out, ")\n");
        if (key->table) {
            buf_puts(&path, key->type == KEY_LIST ? "[]." : ".");
            print_table(key->table, buf_str(&path), out);
        }
        buf_done(&path);
    }
}

void config_print_keys(struct buf *out)
{
    print_table(&config_table, STR(""), out);
}
