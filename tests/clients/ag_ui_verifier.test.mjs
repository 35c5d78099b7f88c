// ag_ui_verifier.test.mjs -- AG-UI's own verifier over the streams of all that a task can do.
//
// The stock agent enforces the schema, verifies the order and folds the events into messages.  Whatever it warns of is a
// fault here.  After each run, every reader that has a part of it comes back and must end with the same messages.

import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "./support/cases.mjs";
import { ThreadAgent, textOf } from "./support/thread_agent.mjs";
import { SCRIPT, World } from "./support/world.mjs";
import { answerTo, converse } from "../browser/support/journal.mjs";

const script = (name, more) => ({ name, kind: "exec", command: [SCRIPT], grace_s: 1, ...more });
const event = (name, data) => ({ line: { event: name, data } });
const call = (call_id, name, args) => event("tool_call", { call_id, name, arguments: args });
const result = (call_id, output, more) => event("tool_result", { call_id, name: "a", output, ...more });

let world;
const warnings = [];
test.before(async () => {
  world = await new World({ agents: [script("script", { default: true }), script("hurried", { timeout_s: 1 })] }).open();
  for (const level of ["warn", "error"]) console[level] = (...what) => warnings.push(what.join(" "));
});
test.after(() => world.close());

const headersOf = (token) => ({ authorization: `Bearer ${token}` });
let threads = 0;

/** An agent with a record of what it was told: events, and the body as it came. */
function recorded(token, threadId, name = "script", fetch = globalThis.fetch) {
  const record = { events: [], raw: "", outcome: null };
  const listen = async (url, init) => {
    const response = await fetch(url, init);
    if (!response.ok) return response;
    const [body, copy] = response.body.tee();
    record.whole = new Response(copy).text().then((text) => (record.raw = text), () => {});
    return new Response(body, response);
  };
  const url = `${world.base}/v1/ag-ui/${name}`;
  const agent = new ThreadAgent({ url, threadId, headers: headersOf(token), fetch: listen });
  agent.subscribe({
    onEvent: ({ event }) => void record.events.push(event),
    onRunFinishedEvent: ({ outcome }) => void (record.outcome = outcome),
    onRunErrorEvent: ({ event }) => void (record.outcome = event.code),
  });
  return { agent, record };
}

/** Types in order; runs of one type are one. */
const typesOf = (events) => events.map(({ type }) => type).filter((type, at, all) => type !== all[at - 1]);

/** Without the ids of questions: those of a page are not those of the journal. */
const plain = ({ messages }) => messages.map(({ id, ...message }) => (message.role === "user" ? message : { id, ...message }));

/** Comes back with each part of a stream, and must end as who has it all. */
async function comesBackFromAnywhere(token, threadId, whole, messages) {
  const blocks = whole.split("\n\n").slice(0, -1);
  assert.match(blocks[0], /RUN_STARTED/);
  for (let n = 1; n < blocks.length; n++) {
    const part = `${blocks.slice(0, n).join("\n\n")}\n\n`;
    let first = true;
    const { agent, record } = recorded(token, threadId, "script", (url, init) => {
      const told = first;
      first = false;
      return told ? new Response(part) : fetch(url, init);
    });
    await agent.connectAgent();
    await agent.connectAgent();
    assert.deepEqual(plain(agent), messages, `after ${n} of ${blocks.length}: ${blocks[n - 1]}`);
    assert.equal(record.events.filter(({ type }) => type === "RUN_STARTED").length, 2);
  }
}

async function replays(token, threadId, { outcome, text }) {
  const { agent, record } = recorded(token, threadId);
  await agent.connectAgent();
  assert.deepEqual([record.outcome, textOf(agent)], [outcome, text]);
  assert.equal(record.events[1].type, "MESSAGES_SNAPSHOT");
  await record.whole;
  await comesBackFromAnywhere(token, threadId, record.raw, plain(agent));
  assert.deepEqual(warnings, []);
}

/** @param run {name, agent, text, outcome, types}; during({agent, ids}) while it runs */
function holds(name, { agent: of = "script", steps, text = "", outcome = "success", types, during, check }) {
  test(`verifier: ${name}`, { timeout: 60_000 }, async () => {
    const { token } = await world.guest();
    const threadId = `v${++threads}`;
    const { agent, record } = recorded(token, threadId, of);
    agent.addMessage({ id: "u1", role: "user", content: JSON.stringify(steps) });
    const run = agent.runAgent({ runId: `r-${threadId}` });
    if (during) await during({ token, threadId, agent, record });
    await run;
    assert.deepEqual([record.outcome, textOf(agent)], [outcome, text]);
    assert.equal(record.events[0].runId, `r-${threadId}`);
    assert.equal(record.events[0].threadId, threadId);
    assert.deepEqual(typesOf(record.events).slice(1, -1), types);
    await check?.({ agent, record, token, threadId });
    assert.deepEqual(warnings, []);
    await replays(token, threadId, { outcome, text });
  });
}

const TEXT = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"];
const CALL = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"];
const THOUGHT = [
  "REASONING_START",
  "REASONING_MESSAGE_START",
  "REASONING_MESSAGE_CONTENT",
  "REASONING_MESSAGE_END",
  "REASONING_END",
];

holds("text", { steps: [{ token: "a\n" }, { token: "ö" }], text: "a\nö", types: TEXT });

holds("nothing at all", { steps: [{ exit: 0 }], types: [] });

holds("a final answer alone", { steps: [{ final_answer: "42" }], text: "42", types: TEXT });

holds("thoughts between text", {
  steps: [{ token: "a" }, { thinking: "h" }, { thinking: "m" }, { token: "b" }, { thinking: "end" }],
  text: "ab",
  types: [...TEXT, ...THOUGHT, ...TEXT, ...THOUGHT],
  check: ({ agent }) => assert.deepEqual(agent.messages.map(({ content }) => content).slice(1), ["a", "hm", "b", "end"]),
});

holds("tools, one after the other", {
  steps: [{ token: "I look. " }, call("c1", "clock", { zone: "UTC" }), result("c1", "noon"), { token: "Noon." }],
  text: "I look. Noon.",
  types: [...TEXT, ...CALL, "TOOL_CALL_RESULT", ...TEXT],
  check: ({ agent }) => {
    const [, first, tool] = agent.messages;
    assert.deepEqual(first.toolCalls[0].function, { name: "clock", arguments: '{"zone":"UTC"}' });
    assert.deepEqual([tool.role, tool.content, tool.toolCallId], ["tool", "noon", first.toolCalls[0].id]);
  },
});

holds("tools side by side, one that fails", {
  steps: [
    call("c1", "a", {}),
    call("c2", "b", { x: [1] }),
    result("c2", '{"y":1}'),
    result("c1", "no", { is_error: true }),
    call("c1x", "a", {}),
    result("c1x", "yes"),
  ],
  types: [...CALL, ...CALL, "TOOL_CALL_RESULT", ...CALL, "TOOL_CALL_RESULT"],
  check: ({ agent }) => {
    const roles = agent.messages.map(({ role, toolCalls }) => (toolCalls ? toolCalls.length : role));
    assert.deepEqual(roles, ["user", 2, "tool", "tool", 1, "tool"]);
    assert.equal(agent.messages[2].content, '{"y":1}');
    assert.deepEqual(agent.messages[3].metadata, { is_error: true });
  },
});

holds("progress and custom events within text", {
  steps: [{ token: "a" }, { progress: 0.5, note: "half" }, { custom: "chart", payload: [1] }, { progress: 1 }, { token: "b" }],
  text: "ab",
  types: [
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "ACTIVITY_SNAPSHOT",
    "CUSTOM",
    "ACTIVITY_SNAPSHOT",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
  ],
  check: ({ agent }) => assert.equal(agent.messages.find(({ role }) => role === "activity").content.progress, 1),
});

holds("a child", {
  steps: [{ call: "spawn", input: [{ token: "x" }], name: "helper" }, { token: "ok" }],
  text: "ok",
  types: ["CUSTOM", ...TEXT],
  check: ({ record }) => assert.equal(record.events.find(({ type }) => type === "CUSTOM").name, "holdfast.child"),
});

holds("a message to it", {
  steps: [{ token: "go" }, { hear: "message" }, { token: "on" }],
  text: "goon",
  types: ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "CUSTOM", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"],
  async during({ token, threadId, agent }) {
    await until(() => textOf(agent) === "go", "the first token");
    const [task] = await world.tasks(token, threadId);
    const ids = { conversation_id: threadId, task_id: task.task_id };
    await answerTo(world.gateway.port, token, { type: "send", ...ids, content: "hello" });
  },
});

holds("a final answer that is another one", {
  steps: [{ token: "draft" }, call("c1", "a", {}), result("c1", "x"), { token: "more" }, { final_answer: "final" }],
  text: "final",
  types: [...TEXT, ...CALL, "TOOL_CALL_RESULT", ...TEXT, "MESSAGES_SNAPSHOT"],
  check: ({ agent }) => {
    assert.equal(agent.messages[0].id, "u1", "the page's own question stays");
    assert.deepEqual(
      agent.messages.map(({ role, content, toolCalls }) => [role, toolCalls?.[0].function.name ?? content]).slice(1),
      [
        ["assistant", "a"],
        ["tool", "x"],
        ["assistant", "final"],
      ],
    );
  },
});

holds("a failure", {
  steps: [{ token: "so far" }, { exit: 3 }],
  text: "so far",
  outcome: "agent_error",
  types: TEXT,
});

holds("a time-out", {
  agent: "hurried",
  steps: [{ thinking: "so long" }, { hang: 1 }],
  outcome: "timeout",
  types: THOUGHT,
});

holds("a cancel", {
  steps: [{ token: "a" }, { hang: 1 }],
  text: "a",
  outcome: "cancelled",
  types: TEXT,
  async during({ token, threadId, agent }) {
    await until(() => textOf(agent) === "a", "the first token");
    await converse(
      world.gateway.port,
      token,
      { type: "cancel_all", conversation_id: threadId },
      ({ type }) => type === "ok",
    );
  },
});

/** Both ways to ask, and what is said meanwhile. */
for (const [kind, payload, answer] of [
  ["approval", true, true],
  ["approval", { approved: false }, false],
  ["approval", undefined, true],
  ["question", "blue", "blue"],
  ["question", { answer: "red" }, "red"],
]) {
  const asks = { question: "q.1", kind, prompt: "which?", tool: "paint", arguments: { x: 1 }, timeout_s: 600 };
  test(`verifier: ${kind}, answered with ${JSON.stringify(payload)}`, { timeout: 60_000 }, async () => {
    const { token } = await world.guest();
    const threadId = `v${++threads}`;
    const { agent, record } = recorded(token, threadId);
    const gate = world.gate();
    const steps = [{ token: "a" }, asks, { wait: gate.path }, { token: "b" }, { hear: "input", say: true }];
    agent.addMessage({ id: "u1", role: "user", content: JSON.stringify(steps) });
    await agent.runAgent({ runId: "r1" });
    assert.equal(record.outcome, "interrupt");
    const [interrupt] = agent.pendingInterrupts;
    assert.equal(interrupt.message, "which?");
    assert.equal(interrupt.reason, kind === "approval" ? "confirmation" : "input_required");
    assert.equal(interrupt.responseSchema.type, kind === "approval" ? "boolean" : "string");
    assert.ok(Math.abs(new Date(interrupt.expiresAt) - Date.now() - 600_000) < 30_000);

    const other = recorded(token, threadId);
    await other.agent.connectAgent();
    assert.deepEqual([other.record.outcome, textOf(other.agent)], ["interrupt", "a"], "a replay asks as well");
    assert.deepEqual(other.agent.pendingInterrupts, agent.pendingInterrupts);

    await gate.open(); // it goes on before the answer comes
    await agent.runAgent({
      runId: "r2",
      resume: [{ interruptId: interrupt.id, status: "resolved", ...(payload !== undefined && { payload }) }],
    });
    assert.equal(record.outcome, "success");
    const { text } = await world.ended(token, threadId);
    assert.equal(textOf(agent), text);
    assert.deepEqual(JSON.parse(text.slice(2)), { type: "input", input_id: "q.1", answer });
    assert.deepEqual(record.events.filter(({ type }) => type === "RUN_STARTED").map(({ runId }) => runId), ["r1", "r2"]);
    assert.deepEqual(warnings, []);
    await replays(token, threadId, { outcome: "success", text });
  });
}

test("verifier: two questions at once, one dismissed", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const threadId = `v${++threads}`;
  const { agent, record } = recorded(token, threadId);
  const steps = [
    { question: "q1", kind: "question", prompt: "a?" },
    { question: "q2", kind: "question", prompt: "b?" },
    { hear: "input", say: true },
    { hear: "input", say: true },
  ];
  agent.addMessage({ id: "u1", role: "user", content: JSON.stringify(steps) });
  await agent.runAgent();
  while (agent.pendingInterrupts.length < 2) {
    agent.pendingInterrupts = []; // the second one had not come yet
    await agent.connectAgent();
  }
  const [one, two] = agent.pendingInterrupts;
  const resume = [
    { interruptId: one.id, status: "resolved", payload: "yes" },
    { interruptId: two.id, status: "cancelled" },
  ];
  await agent.runAgent({ resume });
  assert.equal(record.outcome, "success");
  const answers = textOf(agent).match(/"answer":"[^"]*"/g);
  assert.deepEqual(answers.sort(), ['"answer":""', '"answer":"yes"']);
  assert.deepEqual(warnings, []);
});

test("verifier: an unfinished run is replayed, and goes on", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const threadId = `v${++threads}`;
  const gate = world.gate();
  const first = recorded(token, threadId);
  const steps = [{ thinking: "h" }, { token: "one " }, { wait: gate.path }, { token: "two" }];
  first.agent.addMessage({ id: "u1", role: "user", content: JSON.stringify(steps) });
  const run = first.agent.runAgent();
  await until(() => textOf(first.agent) === "one ", "the first token");
  const { agent, record } = recorded(token, threadId);
  const replay = agent.connectAgent();
  await until(() => textOf(agent) === "one ", "the replay");
  assert.equal(record.outcome, null);
  await gate.open();
  await Promise.all([run, replay]);
  assert.deepEqual([record.outcome, textOf(agent), textOf(first.agent)], ["success", "one two", "one two"]);
  assert.deepEqual(warnings, []);
});

test("verifier: a second turn keeps the first one's messages", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const threadId = `v${++threads}`;
  const { agent, record } = recorded(token, threadId);
  for (const answer of ["one", "two"]) {
    agent.addMessage({ id: answer, role: "user", content: JSON.stringify([call("c1", "a", {}), result("c1", answer), { token: answer }]) });
    await agent.runAgent();
    assert.equal(record.outcome, "success");
  }
  const tools = agent.messages.filter(({ role }) => role === "tool");
  assert.deepEqual(tools.map(({ content }) => content), ["one", "two"], "a call's id that comes again is another call");
  const calls = agent.messages.flatMap(({ toolCalls = [] }) => toolCalls.map((it) => it.function.arguments));
  assert.deepEqual(calls, ["{}", "{}"]);
  assert.deepEqual(warnings, []);
  await replays(token, threadId, { outcome: "success", text: "two" });
});

test("verifier: after kill -9 the run has failed, with what was said", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const threadId = `v${++threads}`;
  const { agent } = recorded(token, threadId);
  agent.addMessage({ id: "u1", role: "user", content: JSON.stringify([{ thinking: "h" }, { token: "said" }, { hang: 1 }]) });
  const run = agent.runAgent({}, { onRunFailed: () => ({ stopPropagation: true }) });
  await until(() => textOf(agent) === "said", "the first token");
  await world.gateway.stop("SIGKILL");
  await run;
  await world.gateway.start();
  await replays(token, threadId, { outcome: "orphaned", text: "said" });
});
