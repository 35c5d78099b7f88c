// ai_sdk_edits.test.mjs -- sendMessage({messageId}) and regenerate() of the AI SDK's own Chat: each makes a branch.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, WebSocketChatTransport } from "ai";
import WebSocket from "ws";
import { World } from "./support/world.mjs";

let world;
test.before(async () => {
  world = await new World().open();
});
test.after(() => world.close());

const says = (text) => JSON.stringify([{ token: text }]);
const textOf = ({ parts }) => parts.map(({ type, text }) => (type === "text" ? text : "")).join("");

const transports = {
  SSE: (headers) => new DefaultChatTransport({ api: `${world.base}/v1/ai/chat`, headers }),
  WebSocket: (headers) =>
    new WebSocketChatTransport({ url: `${world.base.replace("http", "ws")}/v1/ai`, headers, webSocket: WebSocket }),
};

/** The current branch, as the gateway has it. */
async function branch(token, id) {
  const answer = await fetch(`${world.base}/v1/conversations/${id}/messages`, {
    headers: { authorization: `Bearer ${token}` },
  });
  return (await answer.json()).messages;
}

for (const [name, make] of Object.entries(transports)) {
  test(`edits over ${name}: of the last question, then of the first`, { timeout: 60_000 }, async () => {
    const { token } = await world.guest();
    const id = `edits-${name}`;
    const transport = make({ authorization: `Bearer ${token}` });
    const errors = [];
    const chat = new Chat({ id, transport, onError: ({ message }) => errors.push(message) });
    const contents = async () => (await branch(token, id)).map(({ content }) => content);

    await chat.sendMessage({ text: says("one") });
    await chat.sendMessage({ text: says("two") });
    const [first, , second] = chat.messages;
    await chat.sendMessage({ text: says("three"), messageId: second.id });
    assert.deepEqual(chat.messages.map(textOf), [says("one"), "one", says("three"), "three"]);
    assert.deepEqual(await contents(), [says("one"), "one", says("three"), "three"]);
    assert.equal((await branch(token, id))[2].siblings.length, 2);

    await chat.sendMessage({ text: says("one"), messageId: first.id }); // the same words, and yet a new question
    assert.deepEqual(chat.messages.map(textOf), [says("one"), "one"]);
    assert.deepEqual(await contents(), [says("one"), "one"]);
    const [asked, answer] = await branch(token, id);
    assert.equal(asked.siblings.length, 2);
    assert.equal(chat.messages[1].id, answer.task_id);
    assert.equal((await world.tasks(token, id)).length, 4);

    await chat.regenerate();
    assert.equal((await branch(token, id))[1].siblings.length, 2);
    assert.deepEqual(errors, []);
    await transport.close?.();
  });
}
