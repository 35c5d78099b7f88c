// ag_ui_edits.test.mjs -- a page of AG-UI's own HttpAgent that changes a question, or asks it again: a branch each.
//
// The protocol has no word for it: the page puts its messages as they are to be, and runs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { agUi } from "./support/ag_ui.mjs";
import { World } from "./support/world.mjs";

let world;
test.before(async () => {
  world = await new World().open();
});
test.after(() => world.close());

const says = (text) => JSON.stringify([{ token: text }]);
const user = (id, content) => ({ id, role: "user", content });

/** The current branch, as the gateway has it. */
async function branch(token, id) {
  const headers = { authorization: `Bearer ${token}` };
  return (await (await fetch(`${world.base}/v1/conversations/${id}/messages`, { headers })).json()).messages;
}

async function thread(id, token) {
  token ??= (await world.guest()).token;
  const { agent } = await agUi.open(world, token, id);
  return {
    token,
    agent,
    messages: () => branch(token, id),
    contents: async () => (await branch(token, id)).map(({ content }) => content),
    /** The page asks: its messages up to one of them, then the question. */
    run: async (upTo, question) => {
      const at = agent.messages.findIndex((message) => message.id === upTo);
      agent.setMessages([...agent.messages.slice(0, at < 0 ? agent.messages.length : at), question]);
      await agent.runAgent();
    },
  };
}

test("AG-UI edits: of the last question, then of the first, in a page that asked them", { timeout: 60_000 }, async () => {
  const { token, agent, run, contents, messages } = await thread("ed1");
  await run(null, user("u1", says("one")));
  await run(null, user("u2", says("two")));
  assert.deepEqual(await contents(), [says("one"), "one", says("two"), "two"], "what is new goes to the end");

  await run("u2", user("u2", says("three")));
  assert.deepEqual(agent.messages.map(({ content }) => content), [says("one"), "one", says("three"), "three"]);
  assert.deepEqual(await contents(), [says("one"), "one", says("three"), "three"]);
  assert.equal((await messages())[2].siblings.length, 2);

  await run("u1", user("u1", says("four")));
  assert.deepEqual(await contents(), [says("four"), "four"]);
  assert.equal((await messages())[0].siblings.length, 2);
  await run("u1", user("u1", says("four"))); // asked again
  assert.deepEqual(await contents(), [says("four"), "four"]);
  assert.equal((await messages())[0].siblings.length, 3);
  assert.equal((await world.tasks(token, "ed1")).length, 5);
});

test("AG-UI edits: in a page that has connected, whose messages have the gateway's ids", { timeout: 60_000 }, async () => {
  const before = await thread("ed2");
  await before.run(null, user("u1", says("one")));
  await before.run(null, user("u2", says("two")));
  const { agent, run, contents, messages } = await thread("ed2", before.token);
  await agent.connectAgent();
  const [first, , second] = agent.messages;
  await run(second.id, { ...second, content: says("three") });
  assert.deepEqual(await contents(), [says("one"), "one", says("three"), "three"]);
  await run(first.id, { ...first, content: says("four") });
  assert.deepEqual(await contents(), [says("four"), "four"]);
  assert.equal((await messages())[0].siblings.length, 2);
  await run(null, user("u3", says("five")));
  assert.deepEqual(await contents(), [says("four"), "four", says("five"), "five"]);
});

test("AG-UI edits: ids that only look like the gateway's are the page's own", { timeout: 60_000 }, async () => {
  const { run, contents } = await thread("ed3");
  await run(null, user("01ARZ3NDEKTSV4RRFFQ69G5FAV", says("one")));
  await run(null, user("01ARZ3NDEKTSV4RRFFQ69G5FAW", says("two")));
  assert.deepEqual(await contents(), [says("one"), "one", says("two"), "two"]);
  const other = await thread("ed4");
  other.agent.setMessages([user("a", "x"), { id: "01ARZ3NDEKTSV4RRFFQ69G5FAV-1", role: "assistant", content: "y" }]);
  await other.run(null, user("b", says("z")));
  assert.deepEqual(await other.contents(), [says("z"), "z"]);
});
