// two_faces.test.mjs -- one conversation through several protocols at a time: all see the same.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import OpenAI from "openai";
import { Acp } from "./support/acp.mjs";
import { agUi } from "./support/ag_ui.mjs";
import { until } from "./support/cases.mjs";
import { World } from "./support/world.mjs";
import { answerTo } from "../browser/support/journal.mjs";

let world;
test.before(async () => {
  world = await new World().open();
});
test.after(() => world.close());

function chatOf(token, id) {
  const headers = { authorization: `Bearer ${token}` };
  return new Chat({ id, transport: new DefaultChatTransport({ api: `${world.base}/v1/ai/chat`, headers }) });
}

const shown = (chat) => chat.messages.at(-1)?.parts.map(({ type, text }) => (type === "text" ? text : "")).join("");

test("begun by AG-UI, followed by our own wire and by the AI SDK", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const gate = world.gate();
  const page = await agUi.open(world, token, "two-1");
  const answer = await page.ask(JSON.stringify([{ token: "one " }, { wait: gate.path }, { token: "two" }]));
  await until(() => answer.text() === "one ", "the first token");

  const chat = chatOf(token, "two-1");
  const replay = chat.resumeStream();
  const own = world.ended(token, "two-1");
  await until(() => shown(chat) === "one ", "the other face");
  await gate.open();

  assert.deepEqual(await answer.ended, { text: "one two", end: "completed" });
  await replay;
  assert.equal(shown(chat), "one two");
  assert.equal((await own).text, "one two");
  const [{ task_id }] = await world.tasks(token, "two-1");
  assert.equal(chat.messages.at(-1).id, task_id);
  assert.ok(page.agent.messages.at(-1).id.startsWith(task_id));
});

test("begun by the AI SDK, followed by AG-UI", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const gate = world.gate();
  const chat = chatOf(token, "two-2");
  const sent = chat.sendMessage({ text: JSON.stringify([{ token: "one " }, { wait: gate.path }, { token: "two" }]) });
  await until(() => shown(chat) === "one ", "the first token");
  const answer = await (await agUi.open(world, token, "two-2")).comeBack();
  await until(() => answer.text() === "one ", "the other face");
  await gate.open();
  await sent;
  assert.deepEqual(await answer.ended, { text: "one two", end: "completed" });
});

test("begun by ACP, followed by the AI SDK; begun by AG-UI, loaded by ACP and answered there", { timeout: 180_000 }, async () => {
  const { token } = await world.guest();
  const gate = world.gate();
  const acp = await Acp.open(world, token, { permit: () => ({ outcome: { outcome: "selected", optionId: "allow" } }) });
  const reply = acp.prompt("two-4", JSON.stringify([{ token: "one " }, { wait: gate.path }, { token: "two" }]));
  await until(() => acp.text() === "one ", "the first token");
  const chat = chatOf(token, "two-4");
  const replay = chat.resumeStream();
  await until(() => shown(chat) === "one ", "the other face");
  await gate.open();
  assert.equal((await reply).stopReason, "end_turn");
  await replay;
  assert.deepEqual([acp.text(), shown(chat)], ["one two", "one two"]);

  const page = await agUi.open(world, token, "two-5");
  const steps = [{ question: "q", kind: "approval", prompt: "?" }, { hear: "input" }, { token: "thanks" }];
  assert.equal((await (await page.ask(JSON.stringify(steps))).ended).end, "asks");
  await acp.load("two-5");
  await until(() => acp.ends.some(({ sessionId }) => sessionId === "two-5"), "the end of the turn");
  assert.equal(acp.text(), "thanks");
  assert.equal((await world.ended(token, "two-5")).text, "thanks");
  await acp.close();
});

test("begun by Chat Completions, followed by the AI SDK and by Responses", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const gate = world.gate();
  const openai = new OpenAI({ baseURL: `${world.base}/v1`, apiKey: token, maxRetries: 0 });
  const content = JSON.stringify([{ token: "one " }, { wait: gate.path }, { token: "two" }]);
  const messages = [{ role: "user", content }];
  const chunks = await openai.chat.completions.create({ model: "script", stream: true, messages, conversation: "two-6" });
  let said = "", where;
  const whole = (async () => {
    for await (const { choices, holdfast } of chunks) {
      said += choices[0]?.delta.content ?? "";
      where ??= holdfast;
    }
  })();
  await until(() => said === "one ", "the first token");
  const chat = chatOf(token, "two-6");
  const replay = chat.resumeStream();
  const id = `resp_${Buffer.from(where.conversation_id).toString("base64url")}.${where.task_id}`;
  const response = openai.responses.stream({ response_id: id }).finalResponse();
  await until(() => shown(chat) === "one ", "the other face");
  await gate.open();
  await Promise.all([whole, replay]);
  assert.deepEqual([said, shown(chat), (await response).output_text], ["one two", "one two", "one two"]);
  assert.equal((await world.ended(token, "two-6")).text, "one two");
});

test("a question of AG-UI's page is answered on our own wire", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const page = await agUi.open(world, token, "two-3");
  const answer = await page.ask(JSON.stringify([{ question: "q", kind: "approval", prompt: "?" }, { hear: "input", say: true }]));
  assert.equal((await answer.ended).end, "asks");
  const [{ task_id }] = await world.tasks(token, "two-3");
  const ids = { conversation_id: "two-3", task_id };
  await answerTo(world.gateway.port, token, { type: "respond", ...ids, input_id: "q", answer: true });
  page.agent.pendingInterrupts = []; // the page has seen that it was answered
  const { text, end } = await (await page.comeBack()).ended;
  assert.equal(end, "completed");
  assert.match(text, /"answer":true/);
  assert.equal(text, (await world.ended(token, "two-3")).text);
});
