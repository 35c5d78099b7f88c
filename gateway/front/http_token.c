/* Tokens that are given without one: a guest's, and that of a code. */
#include "core/handover.h"
#include "gateway/front/http_api.h"

void http_api_make_guest(struct exchange *x)
{
    struct front *f = x->front;
    struct identity who = {0};
    if (!auth_serves_guests(f->auth)) {
        http_api_fail(x, ERR_NOT_FOUND, "guests are not served");
        return;
    }
    if (!auth_check(f->auth, STR_NULL, STR_NULL, STR_NULL, f->hub->clock.wall_ms, &who)) {
        http_api_fail(x, ERR_INTERNAL, who.error);
        return;
    }
    buf_putc(&x->answer, '{');
    js_put_field(&x->answer, "owner", (struct str){who.owner, who.owner_len});
    js_put_field(&x->answer, "token", buf_str(&who.token));
    buf_putc(&x->answer, '}');
    buf_done(&who.token);
    http_api_ready(x, x->route->made_status);
}

static void on_code(void *arg, enum error e, struct str token)
{
    struct exchange *x = arg;
    x->redeeming = NULL;
    if (e == ERR_OVERLOADED) {
        http_api_fail(x, e, "the node that gave the code cannot be reached now");
    } else if (e) {
        http_api_fail(x, e, "the code is not valid");
    } else {
        buf_putc(&x->answer, '{');
        js_put_field(&x->answer, "type", STR("token"));
        js_put_field(&x->answer, "token", token);
        buf_putc(&x->answer, '}');
        http_api_ready(x, 200);
    }
}

/* The token that a code is good for, once: without another identity, and in one answer for every
 * code that is good for none. */
void http_api_take_handover(struct exchange *x)
{
    struct hub *h = x->front->hub;
    struct buf code = {0};
    struct str body = buf_str(&x->body);
    uint32_t node =
        js_parse(&h->doc, body.p, body.n, JS_ANY_NUMBER) ? js_get(&h->doc, 0, "code") : 0;
    if (node && js_type(&h->doc, node) == JS_STRING) {
        js_value(&h->doc, node, &code);
        x->redeeming = handover_redeem(h, buf_str(&code), on_code, x);
    } else {
        http_api_fail(x, ERR_BAD_REQUEST, "\"code\" must be a string");
    }
    buf_done(&code);
}
