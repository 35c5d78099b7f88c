// protocol.test.mjs -- every verb of the protocol, through the built package, against the built gateway.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import WebSocket from "ws"; // Node 20 has none of its own
import { Gateway } from "../../../../tests/browser/support/gateway.mjs";
import { Stage } from "../../../../tests/browser/support/stage.mjs";
import { connect, MemoryStore } from "../../dist/index.js";
import { overHttp } from "../../dist/sse.js";

const agent = fileURLToPath(
  new URL("../../../../tests/browser/fixtures/puppet_agent.py", import.meta.url),
);
const stage = new Stage();
const store = new MemoryStore(); // all clients here are its guest
let gateway;
let client;
let count = 0;

before(async () => {
  await stage.open();
  const command = ["/usr/bin/python3", agent, String(stage.port)];
  gateway = new Gateway({ agents: [{ name: "puppet", kind: "exec", command, default: true }] });
  await gateway.start();
  client = another();
});
after(async () => {
  client.close();
  await gateway.remove();
  stage.close();
});

/** http.test.mjs runs all of this once more, over plain HTTP. */
const Socket = process.env.HOLDFAST_OVER_HTTP ? overHttp({ pollMs: 100 }) : WebSocket;
const another = () => connect(`ws://127.0.0.1:${gateway.port}/v1/ws`, { WebSocket: Socket, store });

/** The object, as soon as the condition holds. */
async function until(observable, condition) {
  for await (const now of observable.changes()) if (condition(now)) return now;
}

async function asked(text = "hi", options = {}) {
  const conversation = client.conversation(`c-${++count}`);
  const task = await conversation.ask(text, options).started;
  return { conversation, task, puppet: await stage.puppet() };
}

test("chat, events, result, transcript", async () => {
  const { task, puppet } = await asked("What is 6 × 7?");
  puppet.emit("thinking", { text: "hm" });
  puppet.emit("tool_call", { call_id: "t", name: "sum", arguments: { a: 6 } });
  puppet.emit("tool_result", { call_id: "t", name: "sum", output: "42", is_error: false });
  puppet.emit("progress", { progress: 0.5, note: "half" });
  puppet.emit("custom", { event_type: "mood", payload: { good: true } });
  puppet.say("It is ", "42.");
  puppet.emit("result", { answer: 42 });
  puppet.exit();
  const events = [];
  for await (const event of task.events()) events.push(event);
  let last = 0;
  for (const { seq, from } of events) {
    assert.equal(from ?? seq, last + 1);
    last = seq;
  }
  assert.deepEqual(events.find(({ event }) => event === "custom").data.payload, { good: true });
  assert.deepEqual(await task.result(), {
    status: "completed",
    output: "It is 42.",
    result: { answer: 42 },
  });
  const { text, thinking, tools, progress, note } = task.transcript;
  assert.deepEqual([text, thinking, progress, note], ["It is 42.", "hm", 0.5, "half"]);
  assert.equal(tools[0].output, "42");
  assert.equal((await task.record()).output, "It is 42.");
});

test("respond: a question and an approval", async () => {
  const { task, puppet } = await asked();
  puppet.emit("input_required", { input_id: "q", kind: "question", prompt: "Which?" });
  await until(task, ({ transcript }) => transcript.questions.length === 1);
  await task.respond("q", "the red one");
  assert.equal((await puppet.heard.take()).answer, "the red one");
  await assert.rejects(task.respond("q", "the blue one"), { code: "conflict" });
  puppet.emit("input_required", { input_id: "a", kind: "approval", prompt: "Dive?" });
  await until(task, ({ transcript }) => transcript.questions[1]?.open);
  await task.respond("a", true);
  await until(task, ({ transcript }) => transcript.questions.every(({ open }) => !open));
  assert.deepEqual(
    task.transcript.questions.map(({ answer }) => answer),
    ["the red one", true],
  );
  puppet.exit();
  await task.result();
});

test("send: the inbox", async () => {
  const { task, puppet } = await asked();
  await task.send("hurry");
  assert.equal((await puppet.heard.take()).content, "hurry");
  await until(task, ({ transcript }) => transcript.inbox.length === 1);
  puppet.exit();
  await task.result();
  await assert.rejects(task.send("too late"), { name: "HoldfastError", code: "task_terminated" });
});

test("children are found, followed and cancelled with their parent", async () => {
  const { conversation, task, puppet } = await asked();
  await conversation.open();
  puppet.tell({ call: "spawn", call_id: "c", agent: "puppet", input: "help", name: "friend" });
  const other = await stage.puppet();
  other.say("Here");
  await until(task, ({ transcript }) => transcript.children.length === 1);
  const child = client.task(conversation.id, task.transcript.children[0].task_id);
  await until(child, ({ text, summary }) => text === "Here" && summary.type === "child");
  assert.equal(child.summary.parent.task_id, task.id);
  const { cancelled } = await task.cancel({ tree: true });
  assert.equal(cancelled, 2);
  assert.ok(task.cancelling || !task.live); // its end may have come before the reply
  const failures = await Promise.allSettled([task.result(), child.result()]);
  assert.deepEqual(
    failures.map(({ reason }) => [reason.name, reason.status]),
    [
      ["TaskFailed", "cancelled"],
      ["TaskFailed", "cancelled"],
    ],
  );
  assert.equal(failures[1].reason.output, "Here");
  assert.equal((await task.cancel()).cancelled, 0);
});

test("background, results, ack", async () => {
  const { conversation, task, puppet } = await asked("sums", { background: true, name: "sums" });
  await assert.rejects(conversation.ask("again", { background: true, name: "sums" }).started, {
    code: "conflict",
  });
  puppet.say("4");
  puppet.exit();
  await task.result();
  const { results } = await conversation.results();
  assert.deepEqual(
    results.map(({ task_id, answer }) => [task_id, answer]),
    [[task.id, "4"]],
  );
  assert.equal(await conversation.acknowledge([task.id]), 1);
  assert.deepEqual((await conversation.results()).results, []);
});

test("open: another client sees what is asked here, from the first word", async () => {
  const watcher = another();
  const theirs = watcher.conversation(`c-${count + 1}`);
  await theirs.open();
  const { conversation, task, puppet } = await asked("Who is there?");
  puppet.say("Me");
  await until(theirs, ({ turns }) => turns[0]?.text === "Me");
  puppet.exit();
  await until(
    theirs,
    ({ turns, messages }) => turns[0].task.status === "completed" && messages.length === 2,
  );
  assert.deepEqual(
    theirs.messages.map(({ role, content }) => [role, content]),
    [
      ["user", "Who is there?"],
      ["assistant", "Me"],
    ],
  );
  const late = another();
  const again = await late.conversation(conversation.id).open();
  assert.deepEqual(
    again.turns.map(({ input, text }) => [input, text]),
    [["Who is there?", "Me"]],
  );
  assert.equal((await task.result()).output, "Me");
  watcher.close();
  late.close();
});

test("history and tasks come in pages; earlier() joins them", async () => {
  const { conversation, task, puppet } = await asked("one");
  puppet.exit();
  await task.result();
  for (const text of ["two", "three"]) {
    const next = await conversation.ask(text).started;
    (await stage.puppet()).exit();
    await next.result();
  }
  const newest = await conversation.history({ limit: 1 });
  assert.equal(newest.more, true);
  while (await conversation.earlier(2));
  const asks = conversation.messages.filter(({ role }) => role === "user");
  assert.deepEqual(
    asks.map(({ content }) => content),
    ["one", "two", "three"],
  );
  const { tasks, more } = await conversation.listTasks({ limit: 2, status: "completed" });
  assert.deepEqual([tasks.length, more], [2, true]);
});

test("when_busy and cancel_all", async () => {
  const { conversation, task } = await asked();
  await assert.rejects(conversation.ask("now", { when_busy: "reject" }).started, {
    code: "conflict",
  });
  const queued = await conversation.ask("then", { when_busy: "enqueue" }).started;
  assert.equal(queued.status, "pending");
  assert.equal((await conversation.cancelAll()).cancelled, 2);
  await assert.rejects(task.result(), { code: "cancelled" });
  await assert.rejects(queued.result(), { code: "cancelled" });
});

test("the list of conversations, titles, and deleting", async () => {
  const list = client.conversations.open();
  const { conversation, task, puppet } = await asked("A question about the sea");
  const entry = () => list.items.find(({ conversation_id }) => conversation_id === conversation.id);
  await until(list, () => entry()?.title === "A question about the sea" && entry().running === 1);
  await conversation.rename("The sea");
  await until(list, () => entry().title === "The sea");
  const ended = assert.rejects(task.result());
  await conversation.delete();
  await until(list, () => list.loaded && !entry());
  await ended; // cancelled, or gone before it could say so
  await assert.rejects(task.record(), { code: "not_found" });
  list.close();
  puppet.exit();
});

test("a request key makes one task", async () => {
  const { conversation, task, puppet } = await asked("once", { request_key: "the-key" });
  const again = await conversation.ask("once", { request_key: "the-key" }).started;
  assert.equal(again, task);
  await assert.rejects(conversation.ask("twice", { request_key: "the-key" }).started, {
    code: "conflict",
  });
  puppet.exit();
  await task.result();
});

test("what does not exist, and what is not ours", async () => {
  const task = client.task("c-1", "01HZZZZZZZZZZZZZZZZZZZZZZZ");
  await assert.rejects(task.result(), { code: "not_found" });
  await assert.rejects(task.cancel(), { code: "not_found" });
  await assert.rejects(client.request("chat", { message: "" }), { code: "bad_request" });
  assert.equal((await client.request("ping", {})).type, "pong");
});
