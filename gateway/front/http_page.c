#include "gateway/front/http_page.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/js.h"
#include "proto/str.h"

/* Without an identity, because the reader may have none yet. */
void http_page_put_facts(const struct config *c, struct buf *out)
{
    buf_putc(out, '{');
    js_put_field(out, "name", str_of(c->page.name));
    if (*c->page.sign_in_url)
        js_put_field(out, "sign_in_url", str_of(c->page.sign_in_url));
    if (*c->page.sign_out_url)
        js_put_field(out, "sign_out_url", str_of(c->page.sign_out_url));
    if (*c->page.accent)
        js_put_field(out, "accent", str_of(c->page.accent));
    if (c->page.mark_type)
        js_put_field(out, "mark", STR("mark"));
    buf_putc(out, '}');
}

/* FNV-1a: it only has to differ when the picture does. */
static uint64_t hash_of(struct str bytes)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes.n; i++)
        hash = (hash ^ (unsigned char)bytes.p[i]) * 0x100000001b3;
    return hash;
}

bool http_page_mark(const struct config *c, char hash[static HTTP_PAGE_HASH], struct web_file *ret)
{
    struct str bytes = buf_str(&c->page.mark_bytes);
    if (!c->page.mark_type)
        return false;
    snprintf(hash, HTTP_PAGE_HASH, "%016" PRIx64, hash_of(bytes));
    *ret = (struct web_file){.path = "/mark",
                             .mime = c->page.mark_type,
                             .plain = {(const unsigned char *)bytes.p, bytes.n},
                             .hash = hash};
    return true;
}
