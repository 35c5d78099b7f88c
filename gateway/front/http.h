/* http -- the page, the operator's endpoints, and the checks before an upgrade.
 *
 * Shape:    one request at a time on a connection; each answer is written whole.
 * Thread:   loop.
 * Errors:   answers are {"error":{"code","message"}} with the status of PROTOCOL.md section 7.
 */
#ifndef GATEWAY_FRONT_HTTP_H
#define GATEWAY_FRONT_HTTP_H

#include "core/session.h"
#include "gateway/base/origin.h"
#include "gateway/front/front.h"

/* libwebsockets' callbacks that do not concern an open WebSocket. */
int http_callback(struct front *f, struct lws *wsi, enum lws_callback_reasons why, void *user,
                  void *in, size_t len);
/* Answers a head that libwebsockets cannot read. */
void http_refuse_head(struct lws *wsi);
/* Answers a refused upgrade; returns 1, which the callback returns. */
int http_refuse(struct lws *wsi, int status, enum error e, const char *message);
enum origin_verdict http_check_origin(struct front *f, struct lws *wsi);

/* For the API (http_api.c). */
enum origin_verdict http_check_origin_of(struct front *f, struct lws *wsi, bool from_cookie);
bool http_identity_is_cookie(struct front *f, struct lws *wsi); /* no other token came */
bool http_is_1_0(struct lws *wsi);
bool http_is_head(struct lws *wsi);
char *http_listed_origin(struct front *f, struct lws *wsi);   /* for CORS, or NULL; caller frees */
void http_set_quota(const char *group, struct identity *who); /* of addresses: one for its guests */
void http_put_error(struct buf *out, enum error e, const char *message);
/* {"type":"error","code":…} becomes {"error":{"code":…}}. */
void http_put_error_line(struct buf *out, struct str line);
struct http_json {
    int status;
    const char *origin;       /* NULL for none */
    const char *name, *value; /* of an extra header, or NULL */
    struct str lines;         /* further ones, `name: value\n` each; they may replace our own */
    bool is_head;             /* the head alone; its length is the body's nevertheless */
    struct str body;          /* read only when it is sent */
};
int http_answer_json(struct lws *wsi, const struct http_json *json);
int http_answer_preflight(struct front *f, struct lws *wsi);
/* With one more header, unless its name is NULL, and further lines as in http_json. */
int http_begin_events(struct lws *wsi, const char *origin, bool plain, const char *name,
                      const char *value, struct str lines);
/* Parameters of the query as received, `a=1&b=2`; the caller frees. */
char *http_query(struct lws *wsi);
/* The value of a parameter in the request's query; NULL when absent; the caller frees. */
char *http_query_value(struct lws *wsi, const char *name);
/* The tokens of the request, NULL for none; the caller frees. */
char *http_bearer(struct lws *wsi);
char *http_cookie(struct front *f, struct lws *wsi);

#endif
