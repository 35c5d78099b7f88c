// withdrawn.test.mjs -- what the protocols do with a step that a kill of the gateway cut short. That no stock client
// keeps its text is one of the shared cases.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { agUi } from "./support/ag_ui.mjs";
import { until } from "./support/cases.mjs";
import { StepModel } from "./support/step_model.mjs";
import { World } from "./support/world.mjs";

const LONG_MS = 120_000;

const scene = (name, run) =>
  test(`a withdrawn step: ${name}`, { timeout: LONG_MS }, async () => {
    const model = new StepModel();
    const world = await new World(await model.config()).open();
    try {
      await run({ world, model, token: (await world.guest()).token });
    } finally {
      model.close();
      await world.close();
    }
  });

scene("Responses goes on with its numbers, and its output has what remains", async ({ world, model, token }) => {
  const openai = new OpenAI({ baseURL: `${world.base}/v1`, apiKey: token, maxRetries: 0 });
  const numbers = [];
  const ends = []; // of items
  let id, shown = "";
  const follow = async (stream) => {
    for await (const event of stream) {
      numbers.push(event.sequence_number);
      if (event.type === "response.created") id = event.response.id;
      if (event.type === "response.output_text.delta") shown += event.delta;
      if (event.type === "response.output_item.done") ends.push([event.item.type, event.item.status]);
      if (event.type === "response.completed") return event.response;
    }
  };
  const first = follow(await openai.responses.create({ model: "script", input: "Count.", background: true, stream: true }));
  const broken = assert.rejects(first);
  await until(() => shown.endsWith("Tw"), "the second step");
  await model.killIn(world);
  await broken;
  const rest = follow(await openai.responses.retrieve(id, { stream: true, starting_after: numbers.at(-1) }));
  await until(() => shown.endsWith("Two."), "the step done anew");
  model.open();
  const response = await rest;
  assert.deepEqual(numbers, numbers.map((_, n) => n));
  assert.equal(response.output_text ?? response.output.flatMap(({ content }) => content ?? []).map(({ text }) => text).join(""), "One. Two.");
  assert.deepEqual(ends, [["message", "completed"], ["mcp_call", "completed"], ["message", "incomplete"], ["message", "completed"]]);
  const replayed = [];
  for await (const event of await openai.responses.retrieve(id, { stream: true })) replayed.push(event.sequence_number);
  assert.deepEqual(replayed, numbers);
});

scene("an AG-UI page that goes on after it gets a snapshot of all messages", async ({ world, model, token }) => {
  const { agent, ask, comeBack } = await agUi.open(world, token, "t-1");
  const first = await ask("Count.");
  await until(() => first.text().endsWith("Tw"), "the second step");
  await model.killIn(world);
  assert.equal((await first.ended).end, "cut");
  const snapshots = [];
  agent.subscribe({ onMessagesSnapshotEvent: ({ event }) => void snapshots.push(event.messages.length) });
  const again = await comeBack();
  await until(() => again.text().endsWith("Two."), "the step done anew");
  model.open();
  assert.deepEqual(await again.ended, { text: "One. Two.", end: "completed" });
  assert.equal(snapshots.length, 1);
  assert.deepEqual(agent.messages.map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);
});
