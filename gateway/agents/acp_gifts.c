#include "gateway/agents/acp_gifts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/models/model_parts.h"
#include "proto/parts.h"

#define IMAGE_BYTES (15 << 18) /* of an image that goes along; a larger one is a link */

struct acp_gift {
    struct list node;
    struct gift gift;
};

/* --- from the agent --------------------------------------------------------------------------- */

void acp_gifts_init(struct acp_gifts *g)
{
    list_init(&g->list);
}

static void drop_first(struct acp_gifts *g)
{
    struct acp_gift *first = list_item(g->list.next, struct acp_gift, node);
    if (g->save)
        g->lender->drop(g->save);
    g->save = NULL;
    list_remove(&first->node);
    gift_done(&first->gift);
    free(first);
}

static void save_first(struct acp_gifts *g);

static void on_gift_stored(void *arg, const char *why, struct str file)
{
    struct acp_gifts *g = arg;
    const struct acp_gift *first = list_item(g->list.next, struct acp_gift, node);
    struct buf data = {0};
    buf_putc(&data, '{');
    if (first->gift.call.len) {
        js_put_field(&data, "call_id", buf_str(&first->gift.call));
        buf_putc(&data, ',');
    }
    if (why)
        log_event_limited(LEVEL_WARN, "agent", "file_not_kept", LOG_STR("task", g->task_id),
                          LOG_TEXT("why", why));
    else
        buf_put(&data, file.p + 1, file.n - 1);
    drop_first(g);
    if (!why)
        g->told(g->arg, buf_str(&data));
    buf_done(&data);
    if (acp_gifts_are_open(g))
        save_first(g);
    else
        g->done(g->arg);
}

static void save_first(struct acp_gifts *g)
{
    const struct gift *gift = &list_item(g->list.next, struct acp_gift, node)->gift;
    char key[128];
    int n = snprintf(key, sizeof key, "acp/%.*s/%u", (int)g->task_id.n, g->task_id.p, ++g->number);
    g->save = g->lender->save(g->lender->arg,
                              &(struct file_plan){.owner = g->owner,
                                                  .conversation_id = g->conversation_id,
                                                  .key = {key, (size_t)n},
                                                  .name = buf_str(&gift->name),
                                                  .media_type = buf_str(&gift->type),
                                                  .bytes = buf_str(&gift->bytes)},
                              on_gift_stored, g);
}

void acp_gifts_take(struct acp_gifts *g, struct acp *acp)
{
    bool begins = !acp_gifts_are_open(g) && g->lender && acp->n_gifts;
    for (size_t i = 0; i < acp->n_gifts; i++) {
        if (!g->lender) {
            gift_done(&acp->gifts[i]);
            continue;
        }
        struct acp_gift *one = xcalloc(sizeof *one);
        one->gift = acp->gifts[i];
        list_push(&g->list, &one->node);
    }
    acp->n_gifts = 0;
    if (begins)
        save_first(g);
}

void acp_gifts_clear(struct acp_gifts *g)
{
    while (acp_gifts_are_open(g))
        drop_first(g);
    g->number = 0;
}

/* --- from the message ------------------------------------------------------------------------- */

static void put_base64(const char *path, int64_t size, struct buf *out)
{
    struct buf bytes = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buf_reserve(&bytes, (size_t)size), (size_t)size) : -1;
    if (n == size && size > 0) {
        size_t written = BASE64_SIZE((size_t)n);
        buf_puts(out, ",\"data\":\"");
        base64_write(bytes.bytes, (size_t)n, buf_reserve(out, written));
        out->len += written;
        buf_putc(out, '"');
    }
    if (fd >= 0)
        close(fd);
    buf_done(&bytes);
}

static void put_lent(const struct js_doc *doc, uint32_t part, struct buf *files, struct buf *paths)
{
    static const char *const members[] = {"name", "media_type", "size", "path"};
    struct buf path = {0}, type = {0};
    uint32_t size = js_get(doc, part, "size"), data = js_get(doc, part, "data");
    int64_t n = 0;
    size_t before = files->len;
    for (size_t i = 0; i < countof(members); i++) {
        uint32_t node = js_get(doc, part, members[i]);
        if (!node)
            continue;
        buf_putc(files, files->len == before ? '{' : ',');
        buf_putf(files, "\"%s\":", members[i]);
        js_copy(doc, node, files);
    }
    (void)say_text(doc, js_get(doc, part, "media_type"), &type);
    (void)say_text(doc, js_get(doc, part, "path"), &path);
    buf_putc(&path, 0);
    buf_put(paths, path.bytes, path.len);
    bool is_image = model_part_is_image(buf_str(&type));
    if (is_image && data) {
        js_put_key(files, "data");
        js_copy(doc, data, files);
    } else if (is_image && size && js_int(doc, size, &n) && n <= IMAGE_BYTES) {
        put_base64(path.bytes, n, files);
    }
    buf_putc(files, '}');
    buf_done(&path);
    buf_done(&type);
}

void acp_gifts_put_lent(struct str parts, struct buf *files, struct buf *paths)
{
    struct js_doc doc = {0};
    if (parts.n > 0 && js_parse(&doc, parts.p, parts.n, JS_OURS)) {
        buf_putc(files, '[');
        for (uint32_t i = js_first(&doc, 0); i < js_end(&doc, 0); i = js_next(&doc, i)) {
            if (!js_get(&doc, i, "path"))
                continue;
            buf_puts(files, files->len > 1 ? "," : "");
            put_lent(&doc, i, files, paths);
        }
        buf_putc(files, ']');
    }
    js_done(&doc);
}
