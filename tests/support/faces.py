"""How each face is asked for a turn that runs: conversation c, its task, and both as one id."""

import base64
import json


def acp(method, id, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


# path, the frames that ask for a conversation's last turn, the text in a frame
SOCKETS = {
    "AI SDK": ("/v1/ai?", [{"type": "resume", "requestId": "r", "id": "c", "headers": {}, "body": {}}],
               lambda frame: frame.get("chunk", {}).get("delta", "")),
    "Responses": ("/v1/responses?response_id=resp_{id}&", [],
                  lambda frame: frame["delta"] if frame["type"] == "response.output_text.delta" else ""),
    "ACP": ("/v1/acp?", [acp("initialize", 0, protocolVersion=1), acp("session/load", 1, sessionId="c", cwd="/", mcpServers=[])],
            lambda frame: frame["params"]["update"]["content"]["text"]
            if frame.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk" else ""),
}


RESULT = {"jsonrpc": "2.0", "id": 1, "method": "tasks/result", "params": {"taskId": "{id}", "_meta": {"progressToken": 1}}}
COMPLETION = {"model": "script", "stream": True, "conversation": "c", "messages": [{"role": "user", "content": "{message}"}]}


def delta(said):
    return said["choices"][0]["delta"].get("content") or "" if said.get("choices") else ""


def a2a_text(said):  # all of it is one artifact in one task, and what follows comes in pieces
    artifacts = said.get("task", {}).get("artifacts", []) or [said.get("artifactUpdate", {}).get("artifact", {})]
    return "".join(part["text"] for artifact in artifacts for part in artifact.get("parts", []))


# method, path, body, the text in a message
STREAMS = {
    "AI SDK": ("GET", "/v1/ai/chat/c/stream", "", lambda said: said.get("delta", "")),
    "Responses": ("GET", "/v1/responses/resp_{id}?stream=true", "",
                  lambda said: said["delta"] if said["type"] == "response.output_text.delta" else ""),
    "AG-UI": ("GET", "/v1/ag-ui/script/c", "", lambda said: said.get("delta", "")),
    "Chat Completions": ("POST", "/v1/chat/completions", json.dumps(COMPLETION), delta),
    "A2A": ("POST", "/v1/a2a/script/tasks/{id}:subscribe", "", a2a_text),
    "Durable Streams": ("GET", "/v1/stream/c/{task}?offset=-1&live=sse", "", lambda said: "".join(
        event["data"]["text"] for event in said if event["event"] == "token") if isinstance(said, list) else ""),
    "MCP": ("POST", "/v1/mcp", json.dumps(RESULT), lambda said: said.get("params", {}).get("message", "")),
}


def filled(text, task, said):
    """A path or a body for that task, whose message was `said`; its request key is `flood`."""
    one_id = base64.urlsafe_b64encode(task["conversation_id"].encode()).decode().rstrip("=") + "." + task["task_id"]
    return text.replace("{id}", one_id).replace("{task}", task["task_id"]).replace('"{message}"', json.dumps(said))


def head_of(client):
    return {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json", "Idempotency-Key": "flood",
            "Accept": "application/json, text/event-stream"}
