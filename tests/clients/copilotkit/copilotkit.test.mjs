// copilotkit.test.mjs -- CopilotKit's runtime with an agent of the gateway as one of its own.
//
// It brings a client of AG-UI from before 1.0, and forwards the page's Authorization.

import assert from "node:assert/strict";
import { rm, writeFile } from "node:fs/promises";
import { test } from "node:test";
import { linesOf } from "../support/docs.mjs";
import { World } from "../support/world.mjs";

process.env.COPILOTKIT_TELEMETRY_DISABLED = "true";
/** The handler of README.md's lines, with the test's gateway and its agent. */
async function handlerOf(base) {
  const lines = await linesOf("copilotkit");
  const program = lines.replace("http://127.0.0.1:8080", base).replace("/assistant", "/script");
  const file = new URL(`./lines-${process.pid}.mjs`, import.meta.url); // beside the packages that it imports
  await writeFile(file, program);
  try {
    return (await import(file)).handler;
  } finally {
    await rm(file);
  }
}

let world;
let handler;
test.before(async () => {
  world = await new World().open();
  handler = await handlerOf(world.base);
});
test.after(() => world.close());

let runs = 0;
/** Asks as a page does: what is told comes event by event. */
async function* run(token, threadId, steps, more = {}) {
  const id = `r${++runs}`;
  const messages = [{ id: `u-${id}`, role: "user", content: JSON.stringify(steps) }];
  const body = { threadId, runId: id, state: {}, messages, tools: [], context: [], forwardedProps: {}, ...more };
  const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
  const request = { method: "POST", headers, body: JSON.stringify(body) };
  const response = await handler(new Request("http://page/api/copilotkit/agent/default/run", request));
  assert.equal(response.status, 200);
  let text = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const events = (text + piece).split("\n\n");
    text = events.pop();
    for (const event of events) yield JSON.parse(event.replace(/^data: /, ""));
  }
}

async function all(events) {
  const list = [];
  for await (const event of events) list.push(event);
  return list;
}

const textOf = (events) => events.map(({ type, delta }) => (type === "TEXT_MESSAGE_CONTENT" ? delta : "")).join("");

test("CopilotKit: an answer with thoughts and a tool is the journal's", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const tool = { call_id: "c", name: "n" };
  const events = await all(
    run(token, "ck-1", [
      { thinking: "hm" },
      { token: "hello " },
      { line: { event: "tool_call", data: { ...tool, arguments: {} } } },
      { line: { event: "tool_result", data: { ...tool, output: "x" } } },
      { token: "there" },
    ]),
  );
  assert.equal(textOf(events), (await world.ended(token, "ck-1")).text);
  assert.deepEqual([events[0].type, events.at(-1).type], ["RUN_STARTED", "RUN_FINISHED"]);
  const types = new Set(events.map(({ type }) => type));
  for (const type of ["REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT"]) assert.ok(types.has(type), type);
});

test("CopilotKit: a question interrupts, and the page answers it", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const asked = await all(run(token, "ck-2", [{ question: "q", kind: "approval", prompt: "?" }, { hear: "input", say: true }]));
  const [interrupt] = asked.at(-1).outcome.interrupts;
  assert.equal(interrupt.message, "?");
  const resume = [{ interruptId: interrupt.id, status: "resolved", payload: true }];
  const events = await all(run(token, "ck-2", [], { resume }));
  assert.match(textOf(events), /"answer":true/);
  assert.equal(events.at(-1).outcome.type, "success");
});

test("CopilotKit: a failure and a cancel are errors with their code", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const failed = await all(run(token, "ck-3", [{ exit: 3 }]));
  assert.deepEqual([failed.at(-1).type, failed.at(-1).code], ["RUN_ERROR", "agent_error"]);
  let last;
  for await (const event of run(token, "ck-4", [{ token: "a" }, { hang: 1 }])) {
    last = event;
    if (event.delta !== "a") continue;
    const url = `http://127.0.0.1:${world.gateway.port}/v1/conversations/ck-4/tasks`;
    await fetch(url, { method: "DELETE", headers: { authorization: `Bearer ${token}` } });
  }
  assert.deepEqual([last.type, last.code], ["RUN_ERROR", "cancelled"]);
});
