// ag_ui.test.mjs -- AG-UI's own HttpAgent, as it comes from the registry.

import assert from "node:assert/strict";
import { test } from "node:test";
import { agUi } from "./support/ag_ui.mjs";
import { holdsFor } from "./support/cases.mjs";
import { outputOf } from "./support/docs.mjs";
import { World } from "./support/world.mjs";

holdsFor(agUi);

let world;
test.before(async () => {
  world = await new World({ limits: { face_bytes: 200_000 } }).open();
});
test.after(() => world.close());

/** A client of its own. */
async function open(conversation) {
  const { token } = await world.guest();
  const { agent } = await agUi.open(world, token, conversation);
  return { token, agent };
}

test("AG-UI: the lines of docs/faces.md say what the agent says", async () => {
  const { token } = await world.guest();
  assert.equal(await outputOf("AG-UI 1.0", world, token, JSON.stringify([{ token: "1 " }, { token: "2 3" }])), "1 2 3");
});

const user = (id, content) => ({ id, role: "user", content });

test("AG-UI: the agent knows what the page brings along", async () => {
  const { agent, token } = await open("k1");
  const asks = JSON.stringify([{ answer: "history" }]);
  agent.setMessages([
    user("u1", "first"),
    { id: "a1", role: "assistant", content: "an answer of another server" },
    user("u2", asks),
  ]);
  const context = [{ description: "the page", value: "shows a chart" }];
  await agent.runAgent({ context });
  const { text } = await world.ended(token, "k1");
  assert.deepEqual(JSON.parse(text), [
    { role: "system", content: "the page: shows a chart" },
    { role: "user", content: "first" },
    { role: "assistant", content: "an answer of another server" },
  ]);
});

test("AG-UI: a page without messages has the stored ones", async () => {
  const { agent, token } = await open("k2");
  agent.setMessages([user("u1", "say this")]);
  await agent.runAgent();
  agent.setMessages([user("u2", JSON.stringify([{ answer: "history" }]))]);
  await agent.runAgent();
  const { task_id } = (await world.tasks(token, "k2")).at(-1);
  const events = await world.events(token, { conversation_id: "k2", task_id });
  const history = JSON.parse(events.at(-1).data.output);
  assert.deepEqual(
    history.map(({ role, content }) => [role, content]),
    [
      ["user", "say this"],
      ["assistant", "say this"],
    ],
  );
});

test("AG-UI: the same run id starts nothing twice", async () => {
  const { agent, token } = await open("k3");
  for (const again of [false, true]) {
    agent.setMessages([user("u1", JSON.stringify([{ token: "once" }]))]);
    await agent.runAgent({ runId: "the-run" });
    assert.equal(agent.messages.at(-1).content, "once", `again: ${again}`);
  }
  assert.equal((await world.tasks(token, "k3")).length, 1);
});

test("AG-UI: what is refused is told in the response, with its status", async () => {
  const url = `${world.base}/v1/ag-ui`;
  const { token } = await world.guest();
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const input = { threadId: "k4", runId: "r", messages: [user("u", "x")] };
  const resume = (interruptId) => ({ ...input, resume: [{ interruptId, status: "resolved", payload: "x" }] });
  const cases = [
    ["script", "{", 400, /not JSON/],
    ["script", { ...input, threadId: "a/b" }, 400, /"threadId" must be/],
    ["script", { ...input, tools: [{ name: "n", description: "" }] }, 400, /"tools" must be empty/],
    ["script", { ...input, messages: [user("u", [{ type: "image", source: {} }])] }, 400, /in base64/],
    ["script", { ...input, state: "x".repeat(200_000) }, 413, /limits.face_bytes/],
    ["nobody", input, 400, /"nobody"|agent/],
    ["script", resume("q1"), 404, /no such task/],
    ["script", resume("01ARZ3NDEKTSV4RRFFQ69G5FAV.1.q"), 404, /no such task/],
  ];
  for (const [agent, body, status, message] of cases) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(`${url}/${agent}`, { method: "POST", headers, body: text });
    assert.equal(response.status, status, text.slice(0, 200));
    assert.match((await response.json()).error.message, message);
  }
  const places = [
    [{}, 404, /no such thread/],
    [{ "last-event-id": "7" }, 400, /Last-Event-ID/],
  ];
  for (const [more, status, message] of places) {
    const response = await fetch(`${url}/script/k5`, { headers: { ...headers, ...more } });
    assert.equal(response.status, status);
    assert.match((await response.json()).error.message, message);
  }
});

test("AG-UI: a place beyond the last event, and one of another turn", async () => {
  const { agent, token } = await open("k6");
  agent.setMessages([user("u1", JSON.stringify([{ token: "hi" }]))]);
  await agent.runAgent();
  const [{ task_id, head }] = await world.tasks(token, "k6");
  const connect = (place) =>
    fetch(`${world.base}/v1/ag-ui/script/k6`, { headers: { authorization: `Bearer ${token}`, "last-event-id": place } });
  assert.equal((await connect(`${task_id}.${head + 1}`)).status, 409);
  const types = async (place) => (await (await connect(place)).text()).match(/(?<="type":")[A-Z_]+/g);
  assert.deepEqual(await types(`${task_id}.${head}`), ["RUN_STARTED", "RUN_FINISHED"]);
  const other = await types("01ARZ3NDEKTSV4RRFFQ69G5FAV.3");
  assert.equal(other[1], "MESSAGES_SNAPSHOT", "then all of it is told");
});
