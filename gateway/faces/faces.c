#include "gateway/faces/faces.h"

#include "gateway/faces/face_http.h"
#include "gateway/faces/face_ws.h"
#include "gateway/front/http_files.h"
#include "proto/faces/a2a.h"
#include "proto/faces/acp_server.h"
#include "proto/faces/ag_ui.h"
#include "proto/faces/ai_sdk.h"
#include "proto/faces/durable.h"
#include "proto/faces/mcp.h"
#include "proto/faces/openai.h"
#include "proto/faces/responses.h"

/* A method that the face does not serve at this path. */
#define NOT_SERVED(method_, pattern_, allow_, ops_)                                              \
    {                                                                                            \
        .method = (method_), .pattern = (pattern_), .of_kind = &(ops_), .kind = &face_http_kind, \
        .query = "", .allow = (allow_)                                                           \
    }

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
    {FACE_OPENAI, FACE(POST, "/v1/chat/completions", OPENAI_CHAT, openai_http_ops)},
    {FACE_OPENAI, FACE(GET, "/v1/models", OPENAI_MODELS, openai_http_ops)},
    {FACE_OPENAI, FACE(GET, "/v1/models/{c}", OPENAI_MODEL, openai_http_ops)},
    {FACE_OPENAI, FACE(POST, "/v1/responses", RESPONSES_CREATE, responses_http_ops)},
    {FACE_OPENAI, FACE(GET, "/v1/responses/{c}", RESPONSES_GET, responses_http_ops)},
    {FACE_OPENAI, FACE(POST, "/v1/responses/{c}/cancel", RESPONSES_CANCEL, responses_http_ops)},
    {FACE_OPENAI, FACE(DELETE, "/v1/responses/{c}", RESPONSES_DELETE, responses_http_ops)},
    {FACE_OPENAI, /* where OpenAI's clients read what a response cites */
     {.method = GET,
      .pattern = "/v1/containers/{c}/files/{t}/content",
      .query = "",
      .kind = &download_kind}},
    {FACE_AG_UI, FACE(POST, "/v1/ag-ui/{a}", AG_UI_RUN, ag_ui_http_ops)},
    {FACE_AG_UI, FACE(GET, "/v1/ag-ui/{a}/{c}", AG_UI_CONNECT, ag_ui_http_ops)},
    {FACE_A2A, FACE(GET, "/.well-known/agent-card.json", A2A_CARD, a2a_rest_ops)},
    {FACE_A2A, FACE(GET, "/v1/a2a/{a}/.well-known/agent-card.json", A2A_CARD, a2a_rest_ops)},
    {FACE_A2A, FACE(POST, "/v1/a2a/{a}", A2A_RPC, a2a_rpc_ops)},
    {FACE_A2A, FACE(POST, "/v1/a2a/{a}/message:send", A2A_SEND, a2a_rest_ops)},
    {FACE_A2A, FACE(POST, "/v1/a2a/{a}/message:stream", A2A_STREAM, a2a_rest_ops)},
    {FACE_A2A, FACE(GET, "/v1/a2a/{a}/extendedAgentCard", A2A_EXTENDED_CARD, a2a_rest_ops)},
    {FACE_A2A, FACE(GET, "/v1/a2a/{a}/tasks", A2A_LIST, a2a_rest_ops)},
    {FACE_A2A, FACE(GET, "/v1/a2a/{a}/tasks/{t}:subscribe", A2A_SUBSCRIBE, a2a_rest_ops)},
    {FACE_A2A, FACE(POST, "/v1/a2a/{a}/tasks/{t}:subscribe", A2A_SUBSCRIBE, a2a_rest_ops)},
    {FACE_A2A, FACE(POST, "/v1/a2a/{a}/tasks/{t}:cancel", A2A_CANCEL, a2a_rest_ops)},
    {FACE_A2A, FACE(GET, "/v1/a2a/{a}/tasks/{t}", A2A_GET, a2a_rest_ops)},
#define PUSH_CONFIGS "/v1/a2a/{a}/tasks/{t}/pushNotificationConfigs"
    {FACE_A2A, FACE(POST, PUSH_CONFIGS, A2A_PUSH_SET, a2a_rest_ops)},
    {FACE_A2A, FACE(GET, PUSH_CONFIGS, A2A_PUSH_LIST, a2a_rest_ops)},
    {FACE_A2A, FACE(GET, PUSH_CONFIGS "/{c}", A2A_PUSH_GET, a2a_rest_ops)},
    {FACE_A2A, FACE(DELETE, PUSH_CONFIGS "/{c}", A2A_PUSH_DELETE, a2a_rest_ops)},
    {FACE_MCP, FACE(POST, "/v1/mcp", MCP_POST, mcp_post_ops)},
    {FACE_MCP, FACE(GET, "/v1/mcp", MCP_RESUME, mcp_get_ops)},
    {FACE_MCP, FACE(DELETE, "/v1/mcp", MCP_DELETE, mcp_post_ops)},
#define STREAM "/v1/stream/{c}/{t}"
#define STREAM_METHODS "GET, HEAD, OPTIONS"
    {FACE_DURABLE_STREAMS, FACE(GET, STREAM, DURABLE_READ, durable_http_ops)},
    {FACE_DURABLE_STREAMS, FACE(HEAD, STREAM, DURABLE_HEAD, durable_http_ops)},
    {FACE_DURABLE_STREAMS, NOT_SERVED(PUT, STREAM, STREAM_METHODS, durable_http_ops)},
    {FACE_DURABLE_STREAMS, NOT_SERVED(POST, STREAM, STREAM_METHODS, durable_http_ops)},
    {FACE_DURABLE_STREAMS, NOT_SERVED(PATCH, STREAM, STREAM_METHODS, durable_http_ops)},
    {FACE_DURABLE_STREAMS, NOT_SERVED(DELETE, STREAM, STREAM_METHODS, durable_http_ops)},
};

#define SOCKET(path_, subprotocol_, ops_)                                           \
    {                                                                               \
        .path = (path_), .subprotocol = (subprotocol_), .of_kind = &(ops_),         \
        .opened = face_ws_opened, .receive = face_ws_receive, .fill = face_ws_fill, \
        .has_output = face_ws_has_output, .closed = face_ws_closed,                 \
        .is_served_here = face_ws_is_served_here                                    \
    }

static const struct {
    enum config_face face;
    struct ws_kind kind;
} sockets[] = {
    {FACE_AI_SDK, SOCKET("/v1/ai", NULL, ai_sdk_ws_ops)},
    {FACE_OPENAI, SOCKET("/v1/responses", NULL, responses_ws_ops)},
    {FACE_ACP, SOCKET("/v1/acp", WS_NO_SUBPROTOCOL, acp_server_ws_ops)},
};

void faces_init(struct front *f)
{
    for (size_t i = 0; i < countof(table); i++)
        if (f->config->faces[table[i].face])
            front_add_route(f, &table[i].route);
    for (size_t i = 0; i < countof(sockets); i++)
        if (f->config->faces[sockets[i].face])
            front_add_ws_kind(f, &sockets[i].kind);
}
