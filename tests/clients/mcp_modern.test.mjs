// mcp_modern.test.mjs -- the client of MCP 2026-07-28, as it comes from the registry: no session, no open requests.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { until } from "./support/cases.mjs";
import { World } from "./support/world.mjs";
import { answerTo } from "../browser/support/journal.mjs";

const LONG_MS = 90_000;
const META = "io.modelcontextprotocol/";
const TASKS = `${META}tasks`;
const says = (...steps) => JSON.stringify(steps);
const script = (...steps) => ({ name: "script", arguments: { message: says(...steps) } });
const within = (conversation, call) => ({ ...call, _meta: { "holdfast/conversation": conversation } });
const textOf = (result) => result.content.map(({ text }) => text).join("");

const scene = (name, run) =>
  test(`MCP 2026-07-28: ${name}`, { timeout: LONG_MS }, async () => {
    const world = await new World({ limits: { requests_per_second: 100_000, burst: 100_000 } }).open(); // it polls
    try {
      await run({ world, token: (await world.guest()).token });
    } finally {
      await world.close();
    }
  });

/** Until the check gives something. */
async function got(check, what) {
  let value;
  await until(async () => (value = await check()), what);
  return value;
}

async function connect(world, token, capabilities = {}) {
  const client = new Client({ name: "test", version: "1" }, { capabilities, versionNegotiation: { mode: "auto" } });
  const transport = new StreamableHTTPClientTransport(new URL(`${world.base}/v1/mcp`), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  });
  await client.connect(transport);
  return client;
}

let ids = 0;

/** A request as the revision has it, for what the client does not offer: the reply, or a stream's messages. */
async function post(world, token, method, params, capabilities = {}) {
  const _meta = { [`${META}protocolVersion`]: "2026-07-28", [`${META}clientCapabilities`]: capabilities };
  const name = params.name ?? params.taskId;
  const answer = await fetch(`${world.base}/v1/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": method,
      ...(name && { "mcp-name": name }),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: ++ids, method, params: { ...params, _meta } }),
  });
  const text = await answer.text();
  const isStream = /event-stream/.test(answer.headers.get("content-type"));
  const messages = isStream ? [...text.matchAll(/^data: (.*)$/gm)].map(([, json]) => JSON.parse(json)) : [JSON.parse(text)];
  return { status: answer.status, messages, ...messages.at(-1) };
}

scene("the client finds the version, the tools, and calls one", async ({ world, token }) => {
  const client = await connect(world, token);
  assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map(({ name }) => name), ["script"]);
  let told = "";
  const onprogress = ({ message }) => (told += message);
  const result = await client.callTool(script({ token: "Hel" }, { token: "lo, wörld\n" }), { onprogress });
  assert.equal(textOf(result), "Hello, wörld\n");
  assert.equal(told, "Hello, wörld\n");
  await client.close();
});

scene("a failure is a result that is an error", async ({ world, token }) => {
  const client = await connect(world, token);
  const result = await client.callTool(script({ token: "so far" }, { exit: 3 }));
  assert.equal(result.isError, true);
  assert.match(textOf(result), /^so far.*agent_error/s);
  await assert.rejects(client.callTool({ name: "nobody", arguments: { message: "x" } }), { code: -32602 });
  await client.close();
});

scene("a question is a round more, and the agent runs once", async ({ world, token }) => {
  const client = await connect(world, token, { elicitation: { form: {} } });
  const asked = [];
  client.setRequestHandler("elicitation/create", ({ params }) => {
    asked.push(params.message);
    const content = params.requestedSchema.properties.approve ? { approve: true } : { answer: "blue" };
    return { action: "accept", content };
  });
  const steps = [{ question: "q1", kind: "question", prompt: "Which colour?" }, { hear: "input" }, { token: "so" }];
  const result = await client.callTool(script({ token: "Well, " }, ...steps));
  assert.deepEqual(asked, ["Which colour?"]);
  assert.equal(textOf(result), "Well, so");
  await client.close();
});

scene("a client that takes no questions waits until somebody else answers", async ({ world, token }) => {
  const client = await connect(world, token);
  const question = { question: "q1", kind: "approval", prompt: "Sure?", tool: "rm", arguments: {} };
  const call = client.callTool(within("c-1", script(question, { hear: "input" }, { token: "done" })));
  const { task_id } = await got(
    async () => (await world.tasks(token, "c-1")).find(({ waiting_for: asks }) => asks === "q1"),
    "the question",
  );
  const answer = { type: "respond", conversation_id: "c-1", task_id, input_id: "q1", answer: true };
  await answerTo(world.gateway.port, token, answer);
  assert.equal(textOf(await call), "done");
  await client.close();
});

const TAKES_TASKS = { elicitation: {}, extensions: { [TASKS]: {} } };

scene("a client of the extension gets a task, answers it, and polls for its result", async ({ world, token }) => {
  const ask = (method, params) => post(world, token, method, params, TAKES_TASKS);
  const gate = world.gate();
  const question = { question: "q1", kind: "question", prompt: "Which colour?" };
  const { result: made } = await ask("tools/call", script(question, { hear: "input" }, { token: "so" }, { wait: gate.path }));
  assert.equal(made.resultType, "task");
  const { taskId } = made;
  const state = async () => {
    const { result, error } = await ask("tasks/get", { taskId });
    return result ?? assert.fail(JSON.stringify(error));
  };
  const hasStatus = (status) => async () => {
    const now = await state();
    return now.status === status && now;
  };
  const asks = await got(hasStatus("input_required"), "the question");
  assert.deepEqual(Object.keys(asks.inputRequests), ["q/q1"]);
  assert.equal(asks.inputRequests["q/q1"].params.message, "Which colour?");
  const inputResponses = { "q/q1": { action: "accept", content: { answer: "blue" } }, "q/none": { action: "decline" } };
  const { result: updated } = await ask("tasks/update", { taskId, inputResponses });
  assert.deepEqual(updated, { resultType: "complete" });
  await got(hasStatus("working"), "the answer");
  await gate.open();
  const done = await got(hasStatus("completed"), "the end");
  assert.deepEqual(done.result.content, [{ type: "text", text: "so" }]);
  assert.equal((await ask("tasks/cancel", { taskId })).result.resultType, "complete");
  assert.equal((await state()).status, "completed");
});

scene("a task is cancelled on disk", async ({ world, token }) => {
  const ask = (method, params) => post(world, token, method, params, TAKES_TASKS);
  const { result } = await ask("tools/call", script({ token: "so" }, { wait: world.gate().path }));
  const { taskId } = result;
  assert.equal((await ask("tasks/cancel", { taskId })).result.resultType, "complete");
  await until(async () => (await ask("tasks/get", { taskId })).result.status === "cancelled", "the end");
});

scene("a subscription tells a task's states to its end, and one to nothing ends at once", async ({ world, token }) => {
  const ask = (method, params, capabilities = TAKES_TASKS) => post(world, token, method, params, capabilities);
  const { result } = await ask("tools/call", script({ token: "so" }));
  const { taskId } = result;
  const { messages } = await ask("subscriptions/listen", { notifications: { taskIds: [taskId, "x"] } });
  assert.deepEqual(messages[0].params.notifications, { taskIds: [taskId] });
  assert.equal(messages.at(-2).method, "notifications/tasks");
  assert.equal(messages.at(-2).params.status, "completed");
  assert.equal(messages.at(-2).params.result.content[0].text, "so");
  assert.equal(messages.at(-1).result.resultType, "complete");
  for (const notifications of [{}, { taskIds: ["x"] }, { toolsListChanged: true }]) {
    const nothing = await ask("subscriptions/listen", { notifications });
    assert.deepEqual(nothing.messages[0].params.notifications, {});
    assert.equal(nothing.messages.length, 2);
  }
  const refused = await ask("subscriptions/listen", { notifications: { taskIds: [taskId] } }, {});
  assert.equal(refused.error.code, -32021);
});

scene("another owner's task is one that is not there", async ({ world, token }) => {
  const { token: stranger } = await world.guest();
  const { result } = await post(world, token, "tools/call", script({ wait: world.gate().path }), TAKES_TASKS);
  const none = `${result.taskId.slice(0, -1)}${result.taskId.endsWith("0") ? "1" : "0"}`;
  for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
    const answers = [];
    for (const taskId of [result.taskId, none, "x"]) {
      const { status, error } = await post(world, stranger, method, { taskId }, TAKES_TASKS);
      answers.push({ status, error });
    }
    assert.equal(answers[0].error.code, -32602);
    assert.deepEqual(answers[1], answers[0]);
    assert.deepEqual(answers[2], answers[0]);
  }
});

scene("a call that is cut off runs on", async ({ world, token }) => {
  const client = await connect(world, token);
  const gate = world.gate();
  const seen = new Promise((resolve) => (client.heard = resolve));
  const call = client.callTool(within("c-1", script({ token: "so" }, { wait: gate.path })), { onprogress: client.heard });
  const rejected = assert.rejects(call);
  await seen;
  await world.network.cut();
  await gate.open();
  const { end } = await world.ended(token, "c-1");
  assert.equal(end.event, "task.completed");
  await client.close(); // it would wait for its own time-out
  await rejected;
});
