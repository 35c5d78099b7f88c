// ai_sdk_parts.test.mjs -- what the AI SDK's own Chat shows beside text: thoughts, tools, approvals, questions, errors.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, WebSocketChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import WebSocket from "ws";
import { until } from "./support/until.mjs";
import { World } from "./support/world.mjs";

let world;
test.before(async () => {
  world = await new World().open();
});
test.after(() => world.close());

const transports = {
  SSE: (headers, body) => new DefaultChatTransport({ api: `${world.base}/v1/ai/chat`, headers, body }),
  WebSocket: (headers, body) =>
    new WebSocketChatTransport({ url: `${world.base.replace("http", "ws")}/v1/ai`, headers, body, webSocket: WebSocket }),
};
const says = (...steps) => JSON.stringify(steps);
const partsOf = (chat, ...types) => chat.messages.at(-1).parts.filter(({ type }) => types.includes(type));

for (const [name, make] of Object.entries(transports)) {
  let chats = 0;
  const scene = (what, run, body = {}) =>
    test(`AI SDK over ${name}: ${what}`, { timeout: 60_000 }, async () => {
      const { token } = await world.guest();
      const transport = make({ authorization: `Bearer ${token}` }, body);
      const errors = [];
      const chat = new Chat({
        id: `parts-${name}-${++chats}`,
        transport,
        onError: ({ message }) => errors.push(message),
        sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      });
      await run(chat, errors, token);
      await transport.close?.();
    });

  scene("thoughts, calls with their results, and what is the application's own", async (chat, errors) => {
    const call = (call_id) => ({ event: "tool_call", data: { call_id, name: "weather", arguments: { at: call_id } } });
    const result = (call_id, is_error) => ({ event: "tool_result", data: { call_id, name: "weather", output: `of ${call_id}`, is_error } });
    const lines = [call("c1"), result("c1", false), call("c2"), result("c2", true)].map((line) => ({ line }));
    await chat.sendMessage({ text: says({ thinking: "let me " }, { thinking: "see" }, ...lines, { progress: 0.5 }, { token: "done" }) });
    assert.deepEqual(errors, []);
    assert.deepEqual(partsOf(chat, "reasoning").map(({ text }) => text), ["let me see"]);
    const tools = partsOf(chat, "dynamic-tool");
    assert.deepEqual(
      tools.map(({ toolName, state, input, output, errorText }) => [toolName, state, input, output ?? errorText]),
      [
        ["weather", "output-available", { at: "c1" }, "of c1"],
        ["weather", "output-error", { at: "c2" }, "of c2"],
      ],
    );
    assert.deepEqual(partsOf(chat, "data-progress").map(({ data }) => data.progress), [0.5]);
    assert.deepEqual(partsOf(chat, "text").map(({ text }) => text), ["done"]);
  });

  for (const approved of [true, false])
    scene(`an approval is ${approved ? "given" : "refused"}, and the answer goes on`, async (chat, errors, token) => {
      const asks = { question: "q", kind: "approval", prompt: "sure?", tool: "rm", arguments: { f: 1 } };
      await chat.sendMessage({ text: says({ token: "may I? " }, asks, { hear: "input", say: true }) });
      const [tool] = partsOf(chat, "dynamic-tool");
      assert.deepEqual([tool.toolName, tool.state, tool.input], ["rm", "approval-requested", { f: 1 }]);
      await chat.addToolApprovalResponse({ id: tool.approval.id, approved });
      await until(() => chat.status === "ready" && partsOf(chat, "text").length > 1, "the rest");
      const { text } = await world.ended(token, chat.id);
      assert.match(text, new RegExp(`"answer":${approved}`));
      assert.equal(partsOf(chat, "text").map(({ text }) => text).join(""), text);
      assert.deepEqual(errors, []);
    });

  scene("a question is answered by a part of the application's", async (chat, errors, token) => {
    const asks = { question: "q", kind: "question", prompt: "who?" };
    const sent = chat.sendMessage({ text: says(asks, { hear: "input", say: true }) });
    await until(() => chat.messages.at(-1)?.parts.some(({ type }) => type === "data-question"), "the question");
    const { data } = partsOf(chat, "data-question")[0];
    assert.deepEqual([data.input_id, data.prompt], ["q", "who?"]);
    const other = new Chat({ id: chat.id, transport: make({ authorization: `Bearer ${token}` }), messages: chat.messages });
    const last = other.messages.at(-1);
    other.messages = [...other.messages.slice(0, -1), { ...last, parts: [...last.parts, { type: "data-answer", data: { input_id: "q", answer: "me" } }] }];
    await other.sendMessage();
    await sent;
    const { text } = await world.ended(token, chat.id);
    assert.match(text, /"answer":"me"/);
    assert.equal(partsOf(chat, "text").map(({ text }) => text).join(""), text);
    assert.deepEqual(errors, []);
  });

  scene("an agent that is not there is told", async (chat, errors) => {
    await chat.sendMessage({ text: "hi" });
    assert.equal(errors.length, 1);
    assert.match(errors[0], /names no configured agent/);
    assert.equal(chat.status, "error");
  }, { model: "nobody" });

  scene("a message without text is told", async (chat, errors, token) => {
    await chat.sendMessage({ parts: [{ type: "data-mine", data: {} }] });
    assert.equal(errors.length, 1);
    assert.match(errors[0], /the last message has no text/);
    assert.deepEqual(await world.tasks(token, chat.id), []);
  });
}
