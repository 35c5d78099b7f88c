#include "gateway/front/tenants.h"

#include "gateway/front/http_api.h"
#include "gateway/front/ws.h"

struct tenant_table {
    struct tenant_use *rows;
    size_t n;
};

static struct str tenant_of(const char *owner)
{
    const char *slash = strchr(owner, '/');
    return (struct str){owner, slash ? (size_t)(slash - owner) : 0};
}

static struct tenant_use *find_row(struct tenant_table *t, struct str name)
{
    for (size_t i = 0; i < t->n; i++)
        if (str_eq(t->rows[i].name, name))
            return &t->rows[i];
    if (t->n == TENANTS_SHOWN + 1)
        return &t->rows[TENANTS_SHOWN];
    t->rows[t->n] = (struct tenant_use){t->n == TENANTS_SHOWN ? STR(TENANTS_OTHERS) : name, 0, 0};
    return &t->rows[t->n++];
}

static void add_owner(struct map_node *node, void *arg)
{
    const struct owner *owner = container_of(node, const struct owner, node);
    find_row(arg, tenant_of(owner->name))->tasks += owner->n_live;
}

size_t tenants_count(struct front *f, struct tenant_use ret[TENANTS_SHOWN + 1])
{
    struct tenant_table t = {.rows = ret};
    if (!f->config->auth.tenant_claim) {
        ret[0] = (struct tenant_use){STR(""), f->n_conns + f->n_streams, f->hub->n_live};
        return 1;
    }
    map_each(&f->hub->owners, add_owner, &t);
    list_each (it, &f->conns) {
        const struct session *s = &list_item(it, struct conn, all)->session;
        if (s->owner)
            find_row(&t, tenant_of(s->owner->name))->connections++;
    }
    list_each (it, &f->streams)
        find_row(&t, tenant_of(list_item(it, struct exchange, all)->owner->name))->connections++;
    return t.n;
}
