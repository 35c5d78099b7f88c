// fake.test.mjs -- the fake gateway of `@holdfast/client/testing` is no other than the built one: the same steps, the same state.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import WebSocket from "ws"; // Node 20 has none of its own
import { Gateway } from "../../../../tests/browser/support/gateway.mjs";
import { Stage } from "../../../../tests/browser/support/stage.mjs";
import { choose, edit, regenerate, versions } from "../../dist/branches.js";
import { connect, MemoryStore } from "../../dist/index.js";
import { FakeGateway } from "../../dist/testing.js";

const puppet = fileURLToPath(new URL("../../../../tests/browser/fixtures/puppet_agent.py", import.meta.url));

/** The object, as soon as the condition holds. */
async function until(observable, condition) {
  for await (const now of observable.changes()) if (condition(now)) return now;
}

/** Ids as their place in the order of first sight. */
class Names {
  #seen = new Map();
  of = (id) => {
    if (id && !this.#seen.has(id)) this.#seen.set(id, this.#seen.size + 1);
    return this.#seen.get(id) ?? null;
  };
}

/** The same steps with either gateway; returns the state after each. */
async function play(client, nextAgent) {
  const { of } = new Names();
  const conversation = client.conversation("c-1");
  await conversation.open();
  const states = [];

  const look = async (step) => {
    const { messages, branch } = await client.request("open", { conversation_id: conversation.id });
    const told = (one) => JSON.stringify([one.message_id, one.parent_id, one.siblings, one.content]);
    const all = messages.map(told).join();
    await until(conversation, (now) => now.messages.map(told).join() === all);
    states.push({
      step,
      messages: messages.map(({ message_id, parent_id, siblings, role, content, partial = false, task_id }) => {
        const ids = [of(message_id), of(parent_id), siblings?.map(of) ?? null, of(task_id)];
        return { ids, role, content, partial };
      }),
      branch: branch && [of(branch.message_id), of(branch.task_id), branch.siblings?.map(of) ?? null],
      turns: conversation.turns.map((turn) => {
        const { question, answer } = versions(conversation, turn);
        const at = [question, answer].map((its) => its && [its.ids.map(of), its.at]);
        return { input: turn.input, text: turn.text, partial: turn.partial, status: turn.task?.status, at };
      }),
    });
  };
  const answered = async (task, text, end = "complete") => {
    const agent = await nextAgent();
    agent.say(text);
    agent[end]();
    await task.result().catch(() => {});
  };
  const asked = (text, options) => conversation.ask(text, options).started;
  const turn = (at) => conversation.turns.at(at);

  await look("nothing");
  await answered(await asked("one"), "1");
  await look("one");
  await answered(await asked("two"), "2");
  await answered(await edit(conversation, turn(1), "zwei").started, "2 in German");
  await look("edited");
  await answered(await regenerate(client, conversation, turn(1)), "2 once more");
  await look("again");
  const running = await regenerate(client, conversation, turn(1));
  const late = await nextAgent();
  await look("under way");
  late.say("2 thrice");
  late.complete();
  await running.result();
  await look("thrice");
  await choose(client, conversation, conversation.messages[2].siblings[0]);
  await look("chosen");
  await answered(await asked("three"), "so far", "fail");
  await look("failed");
  await answered(await regenerate(client, conversation, turn(-1)), "3");
  await look("tried again");

  const slow = await asked("four");
  const first = await nextAgent();
  await answered(await asked("five"), "5");
  await look("asked meanwhile");
  first.say("4");
  first.complete();
  await slow.result();
  await look("both");
  const page = await conversation.history({ limit: 3 });
  states.push([page.more, page.messages.map(({ content }) => content)]);
  const before = await conversation.history({ limit: 2, before: page.messages[0].message_id });
  states.push([before.more, before.messages.map(({ content }) => content)]);
  const all = await client.request("history", { conversation_id: conversation.id, all: true, limit: 50 });
  states.push(all.messages.map(({ content }) => content));
  for (const fields of [{ reply_to: "01HZZZZZZZZZZZZZZZZZZZZZZZ" }, { edit: "01HZZZZZZZZZZZZZZZZZZZZZZZ" }]) {
    const error = await asked("nowhere", fields).catch(({ code }) => code);
    states.push(error);
  }
  await client.request("pin", { conversation_id: conversation.id, pinned: true });
  for (const wanted of [{}, { pinned: true }, { pinned: false }, { archived: false }, { archived: true }]) {
    const { conversations } = await client.request("conversations", wanted);
    states.push(conversations.map(({ conversation_id, pinned, archived }) => [conversation_id, pinned, archived]));
  }
  const { code } = await client.request("archive", { conversation_id: "c-0", archived: true }).catch((error) => error);
  states.push(code);
  states.push(await client.request("branch", { conversation_id: conversation.id, message_id: "01HZZZZZZZZZZZZZZZZZZZZZZZ" }).catch(({ code }) => code));
  return states;
}

async function real() {
  const stage = new Stage();
  await stage.open();
  const command = ["/usr/bin/python3", puppet, String(stage.port)];
  const gateway = new Gateway({ agents: [{ name: "puppet", kind: "exec", command, default: true }] });
  await gateway.start();
  const client = connect(`ws://127.0.0.1:${gateway.port}/v1/ws`, { WebSocket, store: new MemoryStore() });
  try {
    return await play(client, async () => {
      const its = await stage.puppet();
      return { say: (text) => its.say(text), complete: () => its.exit(), fail: () => its.exit(3) };
    });
  } finally {
    client.close();
    await gateway.remove();
    stage.close();
  }
}

async function fake() {
  const gateway = new FakeGateway();
  const client = connect("ws://fake", gateway.options());
  try {
    return await play(client, () => gateway.task());
  } finally {
    client.close();
  }
}

test("branches, answers side by side, pages and what is not there: as the built gateway has them", { timeout: 120_000 }, async () => {
  const [is, should] = await Promise.all([fake(), real()]);
  should.forEach((state, at) => assert.deepEqual(is[at], state, state.step));
  assert.equal(is.length, should.length);
});
