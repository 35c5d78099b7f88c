#include "gateway/faces/faces.h"

#include <stdlib.h>

#include "gateway/faces/face_http.h"
#include "proto/faces/ai_sdk.h"

#define FACE(method_, pattern_, operation_, ops_)                                                  \
    {                                                                                              \
        .method = (method_), .pattern = (pattern_), .operation = (operation_), .of_kind = &(ops_), \
        .kind = &face_http_kind, .query = "", .made_status = 200                                   \
    }

static const struct {
    enum config_face face;
    struct route route;
} table[] = {
    {FACE_AI_SDK, FACE(POST, "/v1/ai/chat", AI_SDK_POST_CHAT, ai_sdk_http_ops)},
    {FACE_AI_SDK, FACE(GET, "/v1/ai/chat/{c}/stream", AI_SDK_GET_STREAM, ai_sdk_http_ops)},
};

void faces_init(struct front *f)
{
    struct route *routes = xcalloc(sizeof table[0].route * countof(table));
    for (size_t i = 0; i < countof(table); i++)
        if (f->config->faces[table[i].face])
            routes[f->n_routes++] = table[i].route;
    f->routes = routes;
}

void faces_done(struct front *f)
{
    free((void *)f->routes);
    f->routes = NULL;
    f->n_routes = 0;
}
