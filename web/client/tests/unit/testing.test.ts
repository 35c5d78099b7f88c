// The fake gateway: its use in a page's tests, through the real client.

import { afterEach, expect, it, vi } from "vitest";
import { connect, type Client, type Task } from "../../src/index.js";
import { FakeGateway, type FakeTask } from "../../src/testing.js";

let client: Client | undefined;
afterEach(() => client?.close());

const connected = (gateway: FakeGateway) => (client = connect("ws://fake/v1/ws", gateway.options()));

/** Waits until a condition holds for a changing object. */
async function until<T extends { changes(): AsyncIterable<T> }>(its: T, holds: (its: T) => boolean): Promise<void> {
  for await (const now of its.changes()) if (holds(now)) return;
}

it("an agent of one line answers, and all that a page shows follows", async () => {
  const gateway = new FakeGateway({
    answer: (task) => {
      task.think("hm");
      task.call("look", { at: task.input }, "seen");
      task.say("Deep");
      task.complete(undefined, { usage: { total_tokens: 3 } });
    },
  });
  const conversation = connected(gateway).conversation("c1");
  await conversation.open();
  client!.conversations.open();
  const task = await conversation.ask("How deep?").started;
  expect(await task.result()).toMatchObject({ output: "Deep", result: { usage: { total_tokens: 3 } } });
  expect(task.transcript.parts.map(({ type }) => type)).toEqual(["thinking", "tool", "text"]);
  await until(conversation, ({ messages }) => messages.length === 2);
  expect(conversation.turns).toMatchObject([{ input: "How deep?", text: "Deep", partial: false }]);
  await until(client!.conversations, ({ items }) => items[0]?.running === 0);
  expect(client!.conversations.items).toMatchObject([{ conversation_id: "c1", title: "How deep?" }]);
});

it("the test says what the agent says, over a cut", async () => {
  const gateway = new FakeGateway();
  const asked = connected(gateway).conversation("c1").ask("Count");
  const agent = await gateway.task();
  agent.say("1 ");
  const task = (await asked.started).follow();
  await until(task, ({ text }) => text === "1 ");
  gateway.isDown = true;
  gateway.drop();
  agent.say("2 ");
  await until(client!, ({ state }) => state === "waiting");
  expect(task.text).toBe("1 ");
  gateway.isDown = false;
  await until(task, ({ text }) => text === "1 2 ");
  agent.fail({ message: "no more numbers" });
  await until(task, ({ live }) => !live);
  expect(task.transcript.ending).toMatchObject({ status: "failed", output: "1 2 ", error: { message: "no more numbers" } });
  expect(gateway.requests.filter(({ type }) => type === "chat")).toHaveLength(1);
});

it("questions wait for their answer, and a stop is heard", async () => {
  const answers: unknown[] = [];
  const gateway = new FakeGateway({
    answer: async (task) => {
      answers.push(await task.ask("May I?", { kind: "approval", input_id: "q" }));
      answers.push(await task.ask("Sure?"));
      answers.push(task.signal.aborted);
    },
  });
  const task = (await connected(gateway).conversation("c1").ask("Do it").started).follow();
  await until(task, ({ transcript }) => transcript.questions.some(({ open }) => open));
  await task.respond("q", true);
  await until(task, ({ transcript }) => transcript.questions.length === 2);
  expect(transcriptAnswer(task)).toBe(true);
  expect(await task.cancel()).toMatchObject({ cancelled: 1 });
  await until(task, ({ status }) => status === "cancelled");
  expect(answers).toEqual([true, null, true]);
  expect(await task.cancel()).toMatchObject({ cancelled: 0 });
  await expect(task.respond("q2", "x")).rejects.toMatchObject({ code: "not_found" });
});

const transcriptAnswer = ({ transcript }: Task) => transcript.questions[0]!.answer;

it("what the protocol refuses is refused", async () => {
  const gateway = new FakeGateway();
  connected(gateway);
  const missing = { task_id: "t", conversation_id: "c" };
  await expect(client!.request("resume", missing)).rejects.toMatchObject({ code: "not_found" });
  await expect(client!.request("title", { conversation_id: "c", title: "x" })).rejects.toMatchObject({ code: "not_found" });
  await expect(client!.request("dance" as "ping", {})).rejects.toMatchObject({ code: "unsupported" });
  const { task } = await client!.request("chat", { message: "hi", request_key: "k" });
  const again = await client!.request("chat", { message: "hi", request_key: "k" });
  expect(again).toMatchObject({ repeated: true, task: { task_id: task.task_id } });
  const taken: FakeTask = await gateway.task();
  expect(taken.events.map(({ seq, event }) => [seq, event])).toEqual([[1, "task.created"], [2, "task.started"]]);
  await expect(client!.request("resume", { task_id: taken.id, conversation_id: taken.conversationId, after: 9 })).rejects.toMatchObject({ code: "out_of_range" });
  await client!.request("delete", { conversation_id: taken.conversationId });
  expect((await client!.request("conversations", {})).conversations).toEqual([]);
});

it("a restart withdraws text, for those who were there and those who come later", async () => {
  const gateway = new FakeGateway();
  const asked = connected(gateway).conversation("c1").ask("Count");
  const agent = await gateway.task();
  const task = (await asked.started).follow();
  agent.say("One. "); // event 3
  agent.think("hm");
  agent.say("Tw");
  await until(task, ({ text }) => text === "One. Tw");
  agent.restart(3);
  agent.say("Two.");
  await until(task, ({ text }) => text === "One. Two.");
  const late = connect("ws://fake/v1/ws", gateway.options());
  const replayed = late.task("c1", task.id).follow();
  await until(replayed, ({ text }) => text === "One. Two.");
  expect(replayed.transcript).toMatchObject({ resumed: 1, thinking: "" });
  expect(replayed.summary.retracted).toEqual([[3, 6]]);
  late.close();
  agent.complete();
  expect((await task.result()).output).toBe("One. Two.");
});

it("what the test refuses is refused once: a message for want of room, a sign-in", async () => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  const gateway = new FakeGateway({ answer: (task) => task.complete("hi") });
  const conversation = connected(gateway).conversation("c1");
  gateway.refuse("chat", { code: "overloaded", retry_after_ms: 1 });
  gateway.refuse("chat", { code: "too_large" });
  const first = conversation.ask("hello");
  await expect(first.started).rejects.toMatchObject({ code: "too_large" });
  expect(await (await first.retry().started).result()).toMatchObject({ output: "hi" });
  expect(gateway.requests.filter(({ type }) => type === "chat")).toHaveLength(3);

  gateway.refuse("hello", { code: "unauthorized", message: "no token" });
  const other = connect("ws://fake/v1/ws", gateway.options());
  await until(other, ({ state }) => state === "closed");
  expect(other.error).toMatchObject({ code: "unauthorized" });
  other.retry();
  await until(other, ({ state }) => state === "live");
  other.close();
});

it("a question may have files", async () => {
  const gateway = new FakeGateway();
  const parts = [{ type: "text", text: "look" }, { type: "file", file_id: "01F" }] as const;
  const { task } = await connected(gateway).request("chat", { conversation_id: "c1", message: parts });
  const agent = await gateway.task();
  expect(agent).toMatchObject({ input: "look", parts });
  expect((await client!.conversation("c1").history()).messages).toMatchObject([{ content: "look", parts }]);
  expect(agent.id).toBe(task.task_id);
});
