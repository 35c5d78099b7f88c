// mcp.test.mjs -- the MCP SDK's own client, as it comes from the registry, over streamable HTTP.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { holdsFor, until } from "./support/cases.mjs";
import { outputOf } from "./support/docs.mjs";
import { World } from "./support/world.mjs";

const LONG_MS = 60_000;
const textsOf = (result) => result.content.map(({ text }) => text);

/** A client of a session, or of a new one. */
async function connect(world, token, { sessionId, retries = 0, capabilities = {}, onerror = () => {} } = {}) {
  const client = new Client({ name: "test", version: "1" }, { capabilities });
  client.onerror = onerror;
  const transport = new StreamableHTTPClientTransport(new URL(`${world.base}/v1/mcp`), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
    reconnectionOptions: { initialReconnectionDelay: 10, maxReconnectionDelay: 10, reconnectionDelayGrowFactor: 1, maxRetries: retries },
    sessionId,
  });
  await client.connect(transport);
  return { client, transport };
}

/** The end that a result tells: the last text of an error says why. */
function endOf(result) {
  const texts = textsOf(result);
  if (!result.isError) return { text: texts.join(""), end: "completed" };
  const why = texts.pop();
  return { text: texts.join(""), ...(/^cancelled/.test(why) ? { end: "cancelled" } : { end: "failed", why }) };
}

class Answer {
  #text = "";

  /** @param ask (options) => the promise of a result; cut is resolved when the connection breaks */
  constructor(ask, cut) {
    this.text = () => this.#text;
    const options = { timeout: LONG_MS, onprogress: ({ message }) => (this.#text += message) };
    const result = ask(options).then(endOf, (error) => {
      if (/abort/i.test(error.message)) return { text: this.#text, end: "cancelled" };
      if (/terminated|fetch failed|other side closed|Connection closed/i.test(error.message)) return this.#broken();
      throw error;
    });
    this.ended = Promise.race([result, cut.then(() => this.#broken())]);
  }

  #broken = () => ({ text: this.#text, end: "cut" });
}

const script = (message) => ({ name: "script", arguments: { message } });

holdsFor({
  name: "MCP",
  stops: true,
  replaysEnded: true,
  endsInOutput: true,
  async open(world, token, sessionId) {
    let client, taskId, stop;
    const fresh = async () => {
      await client?.close();
      let broke;
      const cut = new Promise((resolve) => (broke = resolve));
      const onerror = ({ message }) => /disconnected/.test(message) && broke();
      ({ client } = await connect(world, token, { sessionId, onerror }));
      return { cut };
    };
    return {
      async ask(text) {
        const { cut } = await fresh();
        stop = new AbortController();
        return new Answer(
          (options) => client.callTool(script(text), undefined, { ...options, signal: stop.signal }),
          cut,
        );
      },
      async comeBack() {
        const { cut } = await fresh();
        taskId ??= (await client.experimental.tasks.listTasks()).tasks.at(-1)?.taskId;
        if (!taskId) return null;
        return new Answer(
          (options) => client.request({ method: "tasks/result", params: { taskId } }, CallToolResultSchema, options),
          cut,
        );
      },
      stop: () => stop.abort("aborted"),
      close: () => client?.close(),
    };
  },
});

// --- what MCP has beyond that

const says = (...steps) => JSON.stringify(steps);
const scene = (name, run) =>
  test(`MCP: ${name}`, { timeout: LONG_MS }, async () => {
    const world = await new World().open();
    try {
      await run({ world, token: (await world.guest()).token });
    } finally {
      await world.close();
    }
  });

scene("the lines of docs/faces.md say what the agent says", async ({ world, token }) => {
  assert.equal(await outputOf("MCP 2025-11-25", world, token, says({ token: "1 " }, { token: "2 3" })), "1 2 3");
});

scene("agents are tools, and a session is a conversation", async ({ world, token }) => {
  const { client, transport } = await connect(world, token);
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map(({ name, execution }) => [name, execution.taskSupport]), [["script", "optional"]]);
  const result = await client.callTool(script(says({ token: "one" }, { result: { n: 1 } })));
  assert.deepEqual(textsOf(result), ["one"]);
  assert.equal(result.isError, false);
  assert.deepEqual(result.structuredContent, { n: 1 });
  assert.equal((await world.tasks(token, transport.sessionId)).length, 1);
  await assert.rejects(client.callTool({ name: "nobody", arguments: { message: "x" } }), { code: -32602 });
  await assert.rejects(client.callTool({ name: "script", arguments: {} }), { code: -32602 });
  await client.ping();
  await client.close();
});

scene("after a cut the client comes back by itself, and misses nothing", async ({ world, token }) => {
  const { client, transport } = await connect(world, token, { retries: 5 });
  const gates = [world.gate(), world.gate(), world.gate()];
  const steps = gates.flatMap((gate, n) => [{ token: `${n} ` }, { wait: gate.path }]);
  let text = "";
  const seen = [];
  const onprogress = ({ progress, message }) => {
    text += message;
    seen.push(progress);
  };
  const result = client.callTool(script(says(...steps, { token: "end" })), undefined, { onprogress, timeout: LONG_MS });
  for (const [n, gate] of gates.entries()) {
    await until(() => text.endsWith(`${n} `), `piece ${n}`);
    await world.network.cut();
    await gate.open();
    await world.network.restore();
  }
  assert.deepEqual(textsOf(await result), ["0 1 2 end"]);
  assert.equal(text, "0 1 2 end");
  assert.ok(seen.every((progress, at) => at === 0 || progress > seen[at - 1]), "progress only grows");
  assert.equal((await world.tasks(token, transport.sessionId)).length, 1);
  await client.close();
});

scene("a long run is a task: got, listed, its result taken, and cancelled", async ({ world, token }) => {
  const { client } = await connect(world, token);
  const { tasks } = client.experimental;
  const gate = world.gate();
  const call = (message) => ({ method: "tools/call", params: script(message) });
  const started = [];
  for await (const told of tasks.requestStream(call(says({ wait: gate.path }, { token: "done" })), CallToolResultSchema, {
    task: {},
  })) {
    if (told.type === "taskCreated") {
      started.push(told.task.taskId);
      assert.equal(told.task.status, "working");
      await gate.open();
    }
    if (told.type === "result") started.push(textsOf(told.result)[0]);
    assert.notEqual(told.type, "error");
  }
  const [taskId, text] = started;
  assert.equal(text, "done");
  assert.equal((await tasks.getTask(taskId)).status, "completed");
  assert.deepEqual(textsOf(await tasks.getTaskResult(taskId, CallToolResultSchema)), ["done"]);
  await assert.rejects(tasks.cancelTask(taskId), { code: -32602 });

  const { value } = await tasks.requestStream(call(says({ wait: world.gate().path })), CallToolResultSchema, { task: {} }).next();
  assert.deepEqual((await tasks.listTasks()).tasks.map((task) => task.taskId), [taskId, value.task.taskId]);
  assert.equal((await tasks.cancelTask(value.task.taskId)).status, "cancelled");
  assert.equal((await tasks.getTask(value.task.taskId)).status, "cancelled");

  const { client: stranger } = await connect(world, (await world.guest()).token);
  for (const id of [taskId, "x", `${taskId}x`])
    await assert.rejects(stranger.experimental.tasks.getTask(id), { code: -32602, message: /no such task/ });
  await client.close();
  await stranger.close();
});

scene("a task that A2A has begun is followed and ends here", async ({ world, token }) => {
  const gate = world.gate();
  const parts = [{ text: says({ token: "one " }, { wait: gate.path }, { token: "two" }) }];
  const a2a = async (method, params) => {
    const answer = await fetch(`${world.base}/v1/a2a/script`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    });
    return (await answer.json()).result;
  };
  const configuration = { returnImmediately: true };
  const { task } = await a2a("SendMessage", { message: { messageId: "m", role: "ROLE_USER", parts }, configuration });
  const { client } = await connect(world, token, { sessionId: task.contextId });
  assert.deepEqual((await client.experimental.tasks.listTasks()).tasks.map(({ taskId }) => taskId), [task.id]);
  let text = "";
  const result = client.request({ method: "tasks/result", params: { taskId: task.id } }, CallToolResultSchema, {
    onprogress: ({ message }) => (text += message),
  });
  await until(() => text === "one ", "the first token");
  await gate.open();
  assert.deepEqual(textsOf(await result), ["one two"]);
  assert.equal((await a2a("GetTask", { id: task.id })).artifacts[0].parts[0].text, "one two");
  await client.close();
});

scene("questions are elicitation where the client takes it", async ({ world, token }) => {
  const { client } = await connect(world, token, { capabilities: { elicitation: {} } });
  const asked = [];
  const answers = [{ approve: true }, { answer: "me" }];
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    asked.push([params.message, Object.keys(params.requestedSchema.properties)]);
    return { action: "accept", content: answers[asked.length - 1] };
  });
  const steps = [
    { question: "a", kind: "approval", prompt: "sure?", tool: "rm", arguments: {} },
    { hear: "input" },
    { question: "q", kind: "question", prompt: "who?" },
    { hear: "input" },
    { token: "thanks" },
  ];
  assert.deepEqual(textsOf(await client.callTool(script(says(...steps)))), ["thanks"]);
  assert.deepEqual(asked, [["sure?", ["approve"]], ["who?", ["answer"]]]);
  await client.close();
});

scene("a question of a task is asked by whoever takes its result, and declined", async ({ world, token }) => {
  const { client, transport } = await connect(world, token, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: "decline" }));
  const steps = [{ question: "a", kind: "approval", prompt: "sure?", tool: "rm", arguments: {} }, { hear: "input" }, { token: "no then" }];
  const call = { method: "tools/call", params: script(says(...steps)) };
  const told = [];
  for await (const message of client.experimental.tasks.requestStream(call, CallToolResultSchema, { task: {} })) told.push(message);
  assert.deepEqual(textsOf(told.at(-1).result), ["no then"]);
  const [task] = await world.tasks(token, transport.sessionId);
  const events = await world.events(token, { conversation_id: transport.sessionId, task_id: task.task_id });
  assert.deepEqual(
    events.filter(({ event }) => event === "input_received").map(({ data }) => data.answer),
    [false],
  );
  await client.close();
});
