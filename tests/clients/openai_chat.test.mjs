// openai_chat.test.mjs -- the `openai` package, as it comes from the registry, over Chat Completions.
//
// This protocol has no resume: a client that comes back asks again, with the same Idempotency-Key.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { APIError } from "openai";
import { holdsFor, until } from "./support/cases.mjs";
import { outputOf } from "./support/docs.mjs";
import { World } from "./support/world.mjs";

const connect = (world, token, more = {}) =>
  new OpenAI({ apiKey: token, baseURL: `${world.base}/v1`, maxRetries: 0, ...more });
const user = (content) => ({ role: "user", content });
const says = (...steps) => user(JSON.stringify(steps));

class Answer {
  #text = "";

  constructor(stream) {
    this.text = () => this.#text;
    this.ended = this.#follow(stream);
  }

  async #follow(asked) {
    let stream = null;
    let reason = null;
    try {
      stream = await asked;
      for await (const { choices } of stream) {
        this.#text += choices[0]?.delta.content ?? "";
        reason ??= choices[0]?.finish_reason ?? null;
      }
    } catch (error) {
      const of = error instanceof APIError ? error.code : null;
      if (!of) return { text: this.#text, end: "cut" };
      return { text: this.#text, end: of === "cancelled" ? of : "failed", why: error.message };
    }
    if (stream.controller.signal.aborted) return { text: this.#text, end: "cut" };
    assert.equal(reason, "stop", "a clean end has its finish_reason");
    return { text: this.#text, end: "completed" };
  }
}

const asked = new Map(); // by conversation: what a client that comes back asks again

const adapter = {
  name: "Chat Completions",
  replaysEnded: true,
  repeats: true,
  async open(world, token, conversation) {
    const client = connect(world, token);
    const streams = [];
    const post = ({ text, key }) => {
      const stream = client.chat.completions.create(
        { model: "script", stream: true, messages: [user(text)], conversation },
        { headers: { "Idempotency-Key": key } },
      );
      stream.then((it) => streams.push(it)).catch(() => {});
      return new Answer(stream);
    };
    return {
      async ask(text) {
        asked.set(conversation, { text, key: `key of ${conversation}` });
        return post(asked.get(conversation));
      },
      comeBack: async () => post(asked.get(conversation)),
      close: () => streams.forEach((it) => it.controller.abort()),
    };
  },
};

holdsFor(adapter);

const world = new World();
let guest;
test.before(async () => {
  await world.open();
  guest = await world.guest();
});
test.after(() => world.close());

const tasksOf = (token, { holdfast }) => world.tasks(token, holdfast.conversation_id);

test("a plain answer is the journal's, in a conversation that no list shows", async () => {
  const client = connect(world, guest.token);
  const answer = await client.chat.completions.create({
    model: "script",
    messages: [says({ thinking: "hm" }, { token: "Hel" }, { token: "lo\n" }, { result: { usage: { total_tokens: 3 } } })],
  });
  assert.equal(answer.object, "chat.completion");
  assert.equal(answer.model, "script");
  assert.equal(answer.choices.length, 1);
  assert.equal(answer.choices[0].message.content, "Hello\n");
  assert.equal(answer.choices[0].message.reasoning_content, "hm");
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.deepEqual(answer.usage, { total_tokens: 3 });
  const { text } = await world.ended(guest.token, answer.holdfast.conversation_id);
  assert.equal(text, "Hello\n");
  const { conversations } = await (
    await fetch(`${world.base}/v1/conversations`, { headers: { authorization: `Bearer ${guest.token}` } })
  ).json();
  assert.deepEqual(conversations, []);
});

test("turn two knows turn one, as the client tells it", async () => {
  const client = connect(world, guest.token);
  const messages = [
    { role: "developer", content: "be short" },
    { role: "user", content: [{ type: "text", text: "one" }, { type: "text", text: "more" }] },
    { role: "assistant", content: "two" },
    says({ answer: "history" }),
  ];
  const answer = await client.chat.completions.create({ model: "script", messages });
  assert.deepEqual(JSON.parse(answer.choices[0].message.content), [
    { role: "system", content: "be short" },
    { role: "user", content: "one\nmore" },
    { role: "assistant", content: "two" },
  ]);
});

test("thoughts are reasoning_content, events are chunks of their own, usage comes last", async () => {
  const client = connect(world, guest.token);
  const stream = await client.chat.completions.create({
    model: "script",
    stream: true,
    stream_options: { include_usage: true },
    messages: [
      says({ thinking: "hm" }, { progress: 0.5 }, { token: "ok" }, { result: { usage: { total_tokens: 3 } } }),
    ],
  });
  let thoughts = "";
  const events = [];
  let usage = null;
  for await (const { choices, holdfast, usage: counted } of stream) {
    assert.equal(usage, null, "nothing follows the usage");
    thoughts += choices[0]?.delta.reasoning_content ?? "";
    if (holdfast?.event) events.push([holdfast.event, holdfast.data.progress]);
    usage = counted ?? null;
  }
  assert.equal(thoughts, "hm");
  assert.deepEqual(events, [["progress", 0.5]]);
  assert.deepEqual(usage, { total_tokens: 3 });
});

test("the stream helper understands it", async () => {
  const client = connect(world, guest.token);
  const stream = client.chat.completions.stream({
    model: "script",
    messages: [says({ token: "a" }, { progress: 0.5 }, { token: "b" })],
  });
  assert.equal(await stream.finalContent(), "ab");
});

test("a final answer that was not streamed comes after what was", async () => {
  const client = connect(world, guest.token);
  for (const [steps, streamed, whole] of [
    [[{ final_answer: "42" }], "42", "42"],
    [[{ token: "The an" }, { final_answer: "The answer" }], "The answer", "The answer"],
    [[{ token: "so: " }, { token: "42" }, { final_answer: "42" }], "so: 42", "42"],
    [[{ token: "I look" }, { final_answer: "42" }], "I look\n\n42", "42"],
  ]) {
    const request = { model: "script", messages: [says(...steps)] };
    const stream = await client.chat.completions.create({ ...request, stream: true });
    assert.deepEqual(await new Answer(stream).ended, { text: streamed, end: "completed" });
    const answer = await client.chat.completions.create(request);
    assert.equal(answer.choices[0].message.content, whole);
  }
});

test("a plain answer that is cut is asked for again, and was made once", async () => {
  const gate = world.gate();
  const client = connect(world, guest.token, { maxRetries: 5 });
  const conversation = "cut-and-plain";
  const answer = client.chat.completions.create(
    { model: "script", messages: [says({ token: "a" }, { wait: gate.path }, { token: "b" })], conversation },
    { headers: { "Idempotency-Key": "once" } },
  );
  let tasks = [];
  while (tasks[0]?.status !== "running") tasks = await world.tasks(guest.token, conversation);
  await world.network.cut();
  await world.network.restore();
  await gate.open();
  assert.equal((await answer).choices[0].message.content, "ab");
  assert.equal((await world.tasks(guest.token, conversation)).length, 1);
});

test("a key that was used for something else is a conflict", async () => {
  const client = connect(world, guest.token);
  const key = { headers: { "Idempotency-Key": "twice" } };
  const ask = (text) => client.chat.completions.create({ model: "script", messages: [says({ token: text })] }, key);
  const first = await ask("a");
  assert.deepEqual(await ask("a"), first);
  assert.equal((await tasksOf(guest.token, first)).length, 1);
  await assert.rejects(ask("b"), { status: 409, code: "conflict" });
  const stranger = connect(world, (await world.guest()).token);
  const other = await stranger.chat.completions.create({ model: "script", messages: [says({ token: "a" })] }, key);
  assert.notEqual(other.id, first.id);
});

test("a failure is an HTTP error, and the client does not ask again by itself", async () => {
  const client = connect(world, guest.token, { maxRetries: 2 });
  const request = { model: "script", messages: [says({ token: "a" }, { exit: 3 })], conversation: "fails" };
  await assert.rejects(client.chat.completions.create(request), (error) => {
    assert.ok(error instanceof OpenAI.InternalServerError);
    assert.match(error.message, /exit status 3/);
    assert.equal(error.code, "agent_error");
    return true;
  });
  assert.equal((await world.tasks(guest.token, "fails")).length, 1);
});

test("the lines in docs/faces.md do what they say", async () => {
  const message = JSON.stringify([{ token: "1 2 " }, { token: "3" }]);
  assert.equal(await outputOf("OpenAI Chat Completions", world, guest.token, message), "1 2 3");
});

test("agents are the models", async () => {
  const client = connect(world, guest.token);
  const { data } = await client.models.list();
  assert.deepEqual(data.map(({ id }) => id), ["script"]);
  assert.equal((await client.models.retrieve("script")).id, "script");
  await assert.rejects(client.models.retrieve("gpt-4"), { status: 404, code: "model_not_found" });
});

test("what is not done here is told in OpenAI's form", async () => {
  const client = connect(world, guest.token);
  const good = { model: "script", messages: [user("hi")] };
  const tool = { type: "function", function: { name: "f", parameters: {} } };
  const image = { role: "user", content: [{ type: "image_url", image_url: { url: "https://elsewhere/x.png" } }] };
  const called = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
  for (const [more, status, code, param] of [
    [{ tools: [tool] }, 400, "unsupported_parameter", "tools"],
    [{ functions: [tool.function] }, 400, "unsupported_parameter", "functions"],
    [{ n: 2 }, 400, "unsupported_parameter", "n"],
    [{ modalities: ["text", "audio"], audio: { voice: "alloy", format: "wav" } }, 400, "unsupported_parameter", "modalities"],
    [{ response_format: { type: "json_object" } }, 400, "unsupported_parameter", "response_format"],
    [{ messages: [image] }, 400, "unsupported_content", "messages[0].content"],
    [{ messages: [] }, 400, "missing_required_parameter", "messages"],
    [{ messages: [user("a"), { role: "assistant", content: "b" }] }, 400, "invalid_value", "messages"],
    [{ messages: [{ role: "assistant", tool_calls: [called] }, user("x")] }, 400, "unsupported_content", "messages[0]"],
    [{ messages: [user("x".repeat(262144)), user("y")] }, 400, "context_length_exceeded", "messages"],
    [{ model: "gpt-4" }, 404, "model_not_found", "model"],
  ]) {
    await assert.rejects(client.chat.completions.create({ ...good, ...more }), (error) => {
      assert.deepEqual([error.status, error.code, error.param], [status, code, param]);
      assert.equal(error.type, "invalid_request_error");
      return true;
    });
  }
  await assert.rejects(
    connect(world, "nobody").chat.completions.create(good),
    (error) => error instanceof OpenAI.AuthenticationError && error.code === "invalid_api_key",
  );
  await assert.rejects(
    client.chat.completions.create({ model: "script", messages: [user("z".repeat(1 << 20))] }),
    { status: 413, code: "too_large" },
  );
});
