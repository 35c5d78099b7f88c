#include "gateway/agents/react_tools.h"

#include <stdlib.h>

bool react_tools_open(struct react_tools *t, struct mcp_wish *wish, void (*ready)(void *user),
                      void *user)
{
    *t = (struct react_tools){0};
    if (wish)
        t->hand = mcp_hand_open(wish, ready, user);
    return !t->hand || mcp_hand_is_ready(t->hand);
}

static void tell_missing(struct teller *teller, struct str missing)
{
    teller_begin(teller);
    js_put_field(&teller->data, "event_type", STR("mcp_unavailable"));
    js_put_raw(&teller->data, "payload", STR("{\"tools\":["));
    buf_putstr(&teller->data, missing);
    buf_puts(&teller->data, "]}");
    teller_tell(teller, EVENT_CUSTOM, STR_NULL);
}

void react_tools_take(struct react_tools *t, const struct tool *const *own, size_t n_own,
                      struct teller *teller)
{
    size_t n_mcp = 0;
    const struct tool *const *mcp = t->hand ? mcp_hand_tools(t->hand, &n_mcp) : NULL;
    t->list = xcalloc((n_own + n_mcp + 1) * sizeof *t->list);
    for (size_t i = 0; i < n_own; i++)
        t->list[t->n++] = own[i];
    for (size_t i = 0; i < n_mcp; i++)
        t->list[t->n++] = mcp[i];
    if (t->hand && mcp_hand_missing(t->hand).n)
        tell_missing(teller, mcp_hand_missing(t->hand));
}

void react_tools_put(const struct react_tools *t, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < t->n; i++) {
        const struct tool *tool = t->list[i];
        buf_puts(out, i ? ",{" : "{");
        js_put_field(out, "type", STR("function"));
        js_put_raw(out, "function", STR("{"));
        js_put_field(out, "name", str_of(tool->name));
        js_put_field(out, "description", str_of(tool->description));
        js_put_raw(out, "parameters", str_of(tool->parameters));
        buf_puts(out, "}}");
    }
    buf_putc(out, ']');
}

void react_tools_done(struct react_tools *t)
{
    mcp_hand_close(t->hand);
    free(t->list);
    *t = (struct react_tools){0};
}
