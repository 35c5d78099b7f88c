// ai_sdk_transport.test.mjs -- useChat's own Chat over the client's transport: a cut is no end, and the parts are the face's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import WebSocket from "ws";
import { connect, MemoryStore } from "../../web/client/dist/index.js";
import { HoldfastChatTransport, uiMessages } from "../../web/client/dist/ai-sdk.js";
import { CUTS, until } from "./support/cases.mjs";
import { random } from "./support/random.mjs";
import { StepModel } from "./support/step_model.mjs";
import { WAIT_MS } from "./support/until.mjs";
import { World } from "./support/world.mjs";

let world;
let count = 0;
test.before(async () => {
  world = await new World().open();
});
test.after(() => world.close());

const says = (...steps) => JSON.stringify(steps);

const textOf = (message) => (message?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
const shown = (chat) => textOf(chat.messages.at(-1));

/** A page of its own: a client and its chat. */
class Page {
  constructor(where, token, id, more = {}) {
    const url = `ws://127.0.0.1:${where.network.port}/v1/ws`;
    const backoff = { baseMs: 5, capMs: 20 };
    this.client = connect(url, { token, WebSocket, store: new MemoryStore(), backoff });
    this.errors = [];
    this.finishes = [];
    const transport = new HoldfastChatTransport(this.client, more.options);
    this.chat = new Chat({
      id,
      transport,
      onError: (error) => this.errors.push(error.message),
      onFinish: (how) => this.finishes.push(how),
      ...more,
    });
  }
}

const scene = (name, run) =>
  test(name, { timeout: 4 * WAIT_MS }, async () => {
    const { token } = await world.guest();
    const id = `own-${++count}`;
    const pages = [];
    const open = (more, as = token) => {
      const page = new Page(world, as, id, more);
      pages.push(page);
      return page;
    };
    try {
      await run({ token, id, open });
    } finally {
      for (const { client } of pages) client.close();
      world.network.trickle(0);
      await world.network.restore();
    }
  });

scene("an answer is the journal's; a second page sees the same, and the face the same parts", async ({ token, id, open }) => {
  const gate = world.gate();
  const call = { call_id: "c", name: "look", arguments: { at: "sea" } };
  const steps = [
    { thinking: "hm" },
    { token: "I look. " },
    { line: { event: "tool_call", data: call } },
    { line: { event: "tool_result", data: { call_id: "c", name: "look", output: "blue", is_error: false } } },
    { line: { event: "custom", data: { event_type: "mood", payload: { good: true } } } },
    { line: { event: "progress", data: { progress: 0.5 } } },
    { token: "Bl" },
    { wait: gate.path },
    { token: "ue." },
  ];
  const { chat, finishes } = open();
  const sent = chat.sendMessage({ text: says(...steps) });
  await until(() => shown(chat) === "I look. Bl", "the first text");
  const { chat: second } = open();
  const headers = { authorization: `Bearer ${token}` };
  const face = new Chat({ id, transport: new DefaultChatTransport({ api: `${world.base}/v1/ai/chat`, headers }) });
  const others = [second.resumeStream(), face.resumeStream()];
  await until(() => shown(second) === "I look. Bl" && shown(face) === "I look. Bl", "the replays");
  await gate.open();
  await Promise.all([sent, ...others]);
  assert.equal(shown(chat), (await world.ended(token, id)).text);
  assert.equal(finishes[0].finishReason, "stop");
  for (const other of [second, face]) assert.deepEqual(chat.messages.at(-1), other.messages.at(-1));
});

scene(`cut ${CUTS} times, it is one stream`, async ({ token, id, open }) => {
  const pick = random();
  const words = Array.from({ length: 4 * CUTS }, (_, n) => `w${n} `);
  const gate = world.gate();
  const { chat, client, finishes } = open();
  const all = words.slice(0, -1).join("");
  world.network.trickle(256);
  const steps = words.map((token) => ({ token }));
  const sent = chat.sendMessage({ text: says(...steps.slice(0, -1), { wait: gate.path }, ...steps.slice(-1)) });
  await until(() => shown(chat) !== "", "the first text");
  for (let n = 0; n < CUTS; n++) {
    const isCut = world.network.cutAfter(1 + pick(1 << pick(15)));
    await until(() => isCut() || (shown(chat) === all && client.state === "live"), "a cut, or all of it");
    await world.network.cut();
    await until(() => client.state !== "live", "the loss");
    await world.network.restore();
  }
  await gate.open();
  await sent;
  assert.equal(shown(chat), words.join(""));
  assert.deepEqual(finishes.map(({ isDisconnect, isError, finishReason }) => [isDisconnect, isError, finishReason]), [[false, false, "stop"]]);
  assert.equal((await world.ended(token, id)).text, words.join(""));
  assert.equal((await world.tasks(token, id)).length, 1);
});

scene("stop ends the task, on disk; whoever only goes away does not", async ({ token, id, open }) => {
  const gate = world.gate();
  const { chat, client, finishes } = open();
  const sent = chat.sendMessage({ text: says({ token: "a" }, { wait: gate.path }) });
  await until(() => shown(chat) === "a", "the first token");
  await chat.stop();
  await sent;
  assert.equal(finishes[0].isAbort, true);
  assert.equal((await world.ended(token, id)).end.data.status, "cancelled");

  const other = world.gate();
  void chat.sendMessage({ text: says({ token: "b" }, { wait: other.path }, { token: "c" }) });
  await until(() => shown(chat) === "b", "the first token");
  client.close();
  await other.open();
  await until(async () => (await world.tasks(token, id)).at(-1).status === "completed", "the end of the other task");
});

scene("a failure is a sentence and keeps the text, or what the page makes of it", async ({ open }) => {
  const { chat, errors } = open();
  await chat.sendMessage({ text: says({ token: "so far" }, { exit: 3 }) });
  assert.deepEqual(errors, ["The assistant broke off."]);
  assert.equal(shown(chat), "so far");
  const raw = open({ options: { errorText: ({ message }) => message } });
  await raw.chat.sendMessage({ text: says({ exit: 3 }) });
  assert.match(raw.errors[0], /exit status 3/);
});

scene("an approval ends the stream, and the answer goes on with it", async ({ open }) => {
  const { chat, client, finishes } = open({ sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
  const ask = (id) => ({ question: id, kind: "approval", prompt: "Dive?", tool: "dive" });
  await chat.sendMessage({ text: says({ token: "May I?" }, ask("q"), { hear: "input" }, { token: "Splash." }) });
  assert.equal(finishes[0].finishReason, "tool-calls");
  const [part] = chat.messages.at(-1).parts.filter(({ state }) => state === "approval-requested");
  assert.equal(part.approval.id, "q");

  const { chat: second, finishes: others } = open(); // a page that comes now finds the question
  await second.resumeStream();
  assert.equal(others[0].finishReason, "tool-calls");
  await chat.addToolApprovalResponse({ id: "q", approved: true });
  await until(() => finishes.length === 2, "the end");
  assert.equal(shown(chat), "May I?Splash.");
  assert.equal(finishes[1].finishReason, "stop");
  assert.equal(client.conversation(chat.id).tasks.length, 1);
});

scene("regenerate and edit make branches, and a page that comes later has the messages", async ({ token, id, open }) => {
  const { chat } = open();
  await chat.sendMessage({ text: says({ token: "one" }) });
  const first = chat.messages.at(-1).id;
  await chat.regenerate();
  assert.equal(chat.messages.length, 2);
  assert.notEqual(chat.messages.at(-1).id, first);
  assert.equal(shown(chat), "one");
  await chat.regenerate({ messageId: chat.messages.at(-1).id });
  await chat.sendMessage({ text: says({ token: "two" }), messageId: chat.messages[0].id });
  assert.equal(shown(chat), "two");
  const tasks = await world.tasks(token, id);
  assert.equal(tasks.length, 4);

  const { client } = open();
  const messages = uiMessages(await client.conversation(id).open());
  assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant"]);
  assert.equal(textOf(messages[1]), "two");
  assert.equal(messages[1].id, tasks.at(-1).task_id);
  const { chat: later } = open({ messages });
  await later.sendMessage({ text: says({ token: "three" }), messageId: messages[0].id });
  assert.equal(shown(later), "three");
  const isOne = ({ messages }) => messages.length === 2 && messages[0].siblings?.length === 3;
  await until(() => isOne(client.conversation(id)), "three versions of one question");
});

scene("another owner's conversation is nothing", async ({ open }) => {
  const gate = world.gate();
  const { chat } = open();
  const sent = chat.sendMessage({ text: says({ token: "mine" }, { wait: gate.path }) });
  await until(() => shown(chat) === "mine", "the first token");
  const { token } = await world.guest();
  const stranger = open({}, token);
  await stranger.chat.resumeStream();
  assert.equal(stranger.chat.messages.length, 0);
  await gate.open();
  await sent;
});

test("a step that a kill -9 cut short is said once, in one stream", { timeout: 4 * WAIT_MS }, async () => {
  const model = new StepModel();
  const steps = await new World(await model.config()).open();
  const { token } = await steps.guest();
  const page = new Page(steps, token, "step");
  try {
    const sent = page.chat.sendMessage({ text: "Count." });
    await until(() => shown(page.chat).endsWith("Tw"), "the second step");
    await model.killIn(steps);
    await until(() => shown(page.chat).endsWith("Two."), "the step done anew");
    const late = new Page(steps, token, "step");
    const replay = late.chat.resumeStream();
    await until(() => shown(late.chat).endsWith("Two."), "the replay");
    model.open();
    await Promise.all([sent, replay]);
    assert.equal(shown(page.chat), "One. Two.");
    assert.equal(shown(late.chat), "One. Two.");
    late.client.close();
  } finally {
    page.client.close();
    model.close();
    await steps.close();
  }
});
