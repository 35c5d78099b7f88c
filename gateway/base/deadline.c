#include "gateway/base/deadline.h"

void deadline_set(struct lws *wsi, int seconds)
{
    lws_set_timeout(wsi, PENDING_TIMEOUT_USER_OK, seconds);
    lws_cancel_service(lws_get_context(wsi));
}

void deadline_now(struct lws *wsi)
{
    deadline_set(wsi, LWS_TO_KILL_ASYNC);
}
