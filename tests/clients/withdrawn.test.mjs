// withdrawn.test.mjs -- a step that a kill of the gateway cuts short is done anew, and no stock client keeps its text.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import OpenAI from "openai";
import { until } from "./support/cases.mjs";
import { World } from "./support/world.mjs";

const LONG_MS = 120_000;

/** A model that calls a tool, breaks off in its second step, and says that step whole when it is asked again. */
class Model {
  asked = 0;
  #server = createServer((_, reply) => this.#answer(reply));

  async open() {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    return `http://127.0.0.1:${this.#server.address().port}/v1`;
  }

  close() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #answer(reply) {
    const say = (delta, finish_reason = null) =>
      reply.write(`data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
    this.asked += 1;
    reply.writeHead(200, { "content-type": "text/event-stream" });
    if (this.asked === 1) {
      say({ role: "assistant", content: "One. " });
      const call = { index: 0, id: "call-1", type: "function", function: { name: "clock", arguments: "{}" } };
      say({ tool_calls: [call] }, "tool_calls");
    } else {
      say({ role: "assistant", content: this.asked === 2 ? "Tw" : "Two." });
      if (this.asked === 2) return; // the gateway is killed here
      await this.gate;
      say({}, "stop");
    }
    reply.end("data: [DONE]\n\n");
  }
}

const scene = (name, run) =>
  test(`a withdrawn step: ${name}`, { timeout: LONG_MS }, async () => {
    const model = new Model();
    const models = [{ name: "m", base_url: await model.open(), model: "m" }];
    const agents = [{ name: "assistant", kind: "react", model: "m", tools: ["clock"] }];
    const world = await new World({ models, agents }).open();
    try {
      await run({ world, model, token: (await world.guest()).token });
    } finally {
      model.close();
      await world.close();
    }
  });

/** In the middle of the second step, and back, with the third answer held until the gate opens. */
async function killed(world, model) {
  let open;
  model.gate = new Promise((resolve) => (open = resolve));
  await world.gateway.stop("SIGKILL");
  await world.gateway.start();
  await until(() => model.asked === 3, "the step done anew");
  return open;
}

scene("Responses goes on with its numbers, and its output has what remains", async ({ world, model, token }) => {
  const openai = new OpenAI({ baseURL: `${world.base}/v1`, apiKey: token, maxRetries: 0 });
  const numbers = [];
  let id, shown = "";
  const follow = async (stream) => {
    for await (const event of stream) {
      numbers.push(event.sequence_number);
      if (event.type === "response.created") id = event.response.id;
      if (event.type === "response.output_text.delta") shown += event.delta;
      if (event.type === "response.completed") return event.response;
    }
  };
  const first = follow(await openai.responses.create({ model: "assistant", input: "Count.", background: true, stream: true }));
  const broken = assert.rejects(first);
  await until(() => shown.endsWith("Tw"), "the second step");
  const open = await killed(world, model);
  await broken;
  const rest = follow(await openai.responses.retrieve(id, { stream: true, starting_after: numbers.at(-1) }));
  await until(() => shown.endsWith("Two."), "the step done anew");
  open();
  const response = await rest;
  assert.deepEqual(numbers, numbers.map((_, n) => n));
  assert.equal(response.output_text ?? response.output.flatMap(({ content }) => content ?? []).map(({ text }) => text).join(""), "One. Two.");
  const replayed = [];
  for await (const event of await openai.responses.retrieve(id, { stream: true })) replayed.push(event.sequence_number);
  assert.deepEqual(replayed, numbers);
});

scene("useChat's message has the step once", async ({ world, model, token }) => {
  const headers = { authorization: `Bearer ${token}` };
  const open = () => new Chat({ id: "c-1", transport: new DefaultChatTransport({ api: `${world.base}/v1/ai/chat`, headers }), onError: () => {} });
  const textOf = (chat) => (chat.lastMessage?.parts ?? []).filter(({ type }) => type === "text").map(({ text }) => text).join("");
  const chat = open();
  const sent = chat.sendMessage({ text: "Count." });
  await until(() => textOf(chat).endsWith("Tw"), "the second step");
  const release = await killed(world, model);
  await sent;
  const resumed = chat.resumeStream();
  await until(() => textOf(chat).endsWith("Two."), "the step done anew");
  release();
  await resumed;
  assert.equal(chat.status, "ready");
  assert.equal(textOf(chat), "One. Two.");
  assert.equal(chat.messages.filter(({ role }) => role === "assistant").length, 1);
});

scene("Chat Completions, asked again with its key, says the step once", async ({ world, model, token }) => {
  const openai = new OpenAI({ baseURL: `${world.base}/v1`, apiKey: token, maxRetries: 0 });
  const ask = () =>
    openai.chat.completions.create(
      { model: "assistant", messages: [{ role: "user", content: "Count." }], stream: true },
      { headers: { "idempotency-key": "k-1" } },
    );
  let shown = "";
  const follow = async (stream) => {
    for await (const { choices } of stream) shown += choices[0]?.delta.content ?? "";
  };
  const broken = assert.rejects(follow(await ask()));
  await until(() => shown.endsWith("Tw"), "the second step");
  const open = await killed(world, model);
  await broken;
  shown = "";
  const rest = follow(await ask());
  await until(() => shown.endsWith("Two."), "the step done anew");
  open();
  await rest;
  assert.equal(shown, "One. Two.");
});
