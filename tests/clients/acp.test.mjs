// acp.test.mjs -- the client of ACP's own SDK, as it comes from the registry, over its WebSocket.

import assert from "node:assert/strict";
import { test } from "node:test";
import WebSocket from "ws";
import { Acp } from "./support/acp.mjs";
import { holdsFor, until } from "./support/cases.mjs";
import { outputOf } from "./support/docs.mjs";
import { SCRIPT, World } from "./support/world.mjs";

const SCENE_MS = 120_000;
const script = { name: "script", kind: "exec", command: [SCRIPT], grace_s: 1 };
const says = (...steps) => JSON.stringify(steps);

/** A prompt's reply, or that of a turn which another connection has begun. */
function endOf({ stopReason, error }) {
  if (stopReason === "cancelled") return { end: "cancelled" };
  return stopReason ? { end: "completed" } : { end: "failed", why: error.message };
}

class Answer {
  constructor(acp, end) {
    this.text = () => acp.text();
    const cut = acp.closed.then(() => ({ end: "cut" }));
    this.ended = Promise.race([end.then(endOf), cut]).then((end) => ({ text: acp.text(), ...end }));
  }
}

holdsFor({
  name: "ACP",
  stops: true,
  replaysEnded: true,
  async open(world, token, sessionId) {
    let acp;
    const fresh = async () => {
      await acp?.close();
      acp = await Acp.open(world, token);
      return acp;
    };
    return {
      async ask(text) {
        const { closed, heard } = await fresh();
        const reply = acp.prompt(sessionId, text).catch(async (error) => {
          if (error.code === undefined) return new Promise(() => closed);
          return { error };
        });
        await Promise.race([heard, reply]); // before that, a cut may come before the prompt
        return new Answer(acp, reply);
      },
      async comeBack() {
        const own = await fresh();
        try {
          await own.load(sessionId);
        } catch (error) {
          assert.equal(error.code, -32002);
          return null;
        }
        return new Answer(own, own.firstEnd);
      },
      stop: () => acp.cancel(sessionId),
      close: () => acp?.close(),
    };
  },
});

// --- what ACP has beyond that

const scene = (name, run, config) =>
  test(`ACP: ${name}`, { timeout: SCENE_MS }, async () => {
    const world = await new World(config).open();
    const opened = [];
    try {
      const { token } = await world.guest();
      const open = async (options = {}) => {
        opened.push(await Acp.open(world, options.token ?? token, options));
        return opened.at(-1);
      };
      await run({ world, token, open });
    } finally {
      for (const acp of opened) await acp.close();
      await world.close();
    }
  });

const kinds = (updates) => updates.map(({ sessionUpdate }) => sessionUpdate.replace(/_chunk$/, ""));

scene("the lines of docs/faces.md say what the agent says", async ({ world, token }) => {
  assert.equal(await outputOf("ACP 1", world, token, says({ token: "1 " }, { token: "2 3" })), "1 2 3");
});

scene("a load tells every turn as it was, with the same ids each time", async ({ open }) => {
  const acp = await open();
  assert.equal(acp.agent.agentCapabilities.loadSession, true);
  const session = await acp.begin();
  const tool = [
    { line: { event: "tool_call", data: { call_id: "1", name: "look", arguments: { at: "x" } } } },
    { line: { event: "tool_result", data: { call_id: "1", name: "look", output: "seen", is_error: false } } },
  ];
  const first = says({ thinking: "hm" }, { token: "one " }, ...tool, { token: "two" });
  assert.deepEqual(await acp.prompt(session, first), { stopReason: "end_turn" });
  const live = [...acp.updates];
  assert.deepEqual(kinds(live), ["agent_thought", "agent_message", "tool_call", "tool_call_update", "agent_message"]);
  assert.equal(new Set(live.filter(({ messageId }) => messageId).map(({ messageId }) => messageId)).size, 3);
  assert.deepEqual([live[2].title, live[2].rawInput, live[3].status], ["look", { at: "x" }, "completed"]);
  assert.equal(live[3].content[0].content.text, "seen");
  await assert.rejects(acp.prompt(session, says({ token: "part" }, { exit: 3 })), { code: -32603, message: /exit status 3/ });

  const again = await open();
  await again.load(session);
  const [user, ...rest] = again.updates;
  assert.equal(user.content.text, first);
  assert.deepEqual(rest.slice(0, live.length), live);
  assert.deepEqual(kinds(rest.slice(live.length)), ["user_message", "agent_message"]);
  assert.deepEqual(again.ends.map(({ stopReason, error }) => stopReason ?? error.code), ["end_turn", "agent_error"]);
  const third = await open();
  await third.load(session);
  assert.deepEqual(third.updates, again.updates);
});

scene("a cancelled prompt is answered as cancelled, also by a cancel that comes at once", async ({ world, open, token }) => {
  const acp = await open();
  const session = await acp.begin();
  const reply = acp.prompt(session, says({ wait: world.gate().path }));
  await acp.cancel(session);
  assert.equal((await reply).stopReason, "cancelled");
  assert.equal((await world.ended(token, session)).end.data.status, "cancelled");
});

scene("a permission is given by the first client, and taken back from the other", async ({ open }) => {
  const asked = [];
  let takenBack;
  const back = new Promise((resolve) => (takenBack = resolve));
  const waits = await open({
    permit: (params, signal) => {
      asked.push(params);
      return new Promise((_, reject) =>
        signal.addEventListener("abort", () => {
          takenBack();
          reject(new Error("taken back"));
        }),
      );
    },
  });
  const session = await waits.begin();
  const question = { question: "a", kind: "approval", prompt: "sure?", tool: "rm", arguments: { path: "/" } };
  const reply = waits.prompt(session, says(question, { hear: "input", say: true }));
  await until(() => asked.length, "the permission");
  assert.deepEqual(
    [asked[0].toolCall.title, asked[0].toolCall.rawInput, asked[0].options.map(({ kind }) => kind)],
    ["sure?", { path: "/" }, ["allow_once", "reject_once"]],
  );
  const gives = await open({ permit: () => ({ outcome: { outcome: "selected", optionId: "allow" } }) });
  await gives.load(session);
  assert.equal((await reply).stopReason, "end_turn");
  await back;
  assert.equal(JSON.parse(waits.text()).answer, true);
});

scene("options of a question are those of the permission", async ({ open }) => {
  const options = [
    { id: "o", name: "This once", kind: "allow_once" },
    { id: "n", name: "Never", kind: "reject_always" },
  ];
  let shown;
  const acp = await open({
    permit: (params) => {
      shown = params.options;
      return { outcome: { outcome: "selected", optionId: "n" } };
    },
  });
  const question = { question: "a", kind: "approval", prompt: "sure?", tool: "rm", arguments: {}, options };
  await acp.prompt(await acp.begin(), says(question, { hear: "input", say: true }));
  assert.deepEqual(shown, options.map(({ id, ...option }) => ({ optionId: id, ...option })));
  assert.equal(JSON.parse(acp.text()).answer, "n");
});

scene("a resume tells nothing of what was, and then what is said", async ({ world, open }) => {
  const acp = await open();
  const session = await acp.begin();
  const gate = world.gate();
  const question = { question: "a", kind: "approval", prompt: "sure?", tool: "rm", arguments: {} };
  const reply = acp.prompt(session, says({ token: "one" }, { wait: gate.path }, { token: " two" }, question, { hear: "input" }));
  await until(() => acp.text() === "one", "the first word");
  const again = await open({ permit: () => ({ outcome: { outcome: "selected", optionId: "allow" } }) });
  assert.deepEqual(again.agent.agentCapabilities.sessionCapabilities, { list: {}, resume: {}, close: {}, delete: {} });
  assert.deepEqual(await again.resume(session), {});
  assert.deepEqual(again.updates, []);
  await gate.open();
  assert.equal((await again.firstEnd).stopReason, "end_turn");
  assert.deepEqual(again.updates.map(({ content, messageId }) => [content.text, messageId]), [[" two", acp.updates[0].messageId]]);
  assert.equal((await reply).stopReason, "end_turn");
  const later = await open();
  assert.deepEqual(await later.resume(session), {});
  assert.deepEqual([later.updates, later.ends], [[], []], "an idle session has nothing to tell");
  const strange = await open({ token: (await world.guest()).token });
  for (const id of [session, "acp-none", "no/id"])
    await assert.rejects(strange.resume(id), { code: -32002, message: "Resource not found", data: { sessionId: id } });
});

scene("sessions are listed newest first, page by page", async ({ world, open }) => {
  const acp = await open();
  const sessions = [];
  for (let n = 0; n < 52; n++) {
    sessions.unshift(await acp.begin());
    await acp.prompt(sessions[0], `title ${n}`);
  }
  const first = await acp.list({ cwd: "/project" });
  assert.equal(first.sessions.length, 50);
  const second = await acp.list({ cursor: first.nextCursor });
  assert.equal(second.nextCursor, undefined);
  const all = [...first.sessions, ...second.sessions];
  assert.deepEqual(all.map(({ sessionId }) => sessionId), sessions);
  assert.deepEqual([all[0].title, all[0].cwd, all[51].cwd], ["title 51", "/project", "/"]);
  assert.ok(Math.abs(Date.parse(all[0].updatedAt) - Date.now()) < 600_000);
  await assert.rejects(acp.list({ cursor: "no/id" }), { code: -32602 });
  const { sessions: none } = await (await open({ token: (await world.guest()).token })).list();
  assert.deepEqual(none, []);
});

scene("a close ends the turn, a delete all of it, and of another's nothing", async ({ world, token, open }) => {
  const acp = await open();
  const session = await acp.begin();
  const reply = acp.prompt(session, says({ token: "one" }, { wait: world.gate().path }));
  await acp.heard;
  const strange = await open({ token: (await world.guest()).token });
  for (const id of [session, "acp-none", "no/id"])
    assert.deepEqual([await strange.end(id), await strange.remove(id)], [{}, {}]);
  assert.equal((await world.tasks(token, session))[0].status, "running");
  assert.deepEqual(await acp.end(session), {});
  assert.equal((await reply).stopReason, "cancelled");
  assert.equal((await world.tasks(token, session))[0].status, "cancelled");
  await acp.load(session);
  assert.deepEqual(await acp.remove(session), {});
  await assert.rejects(acp.load(session), { code: -32002 });
});

const WHO = [{ question: "q", kind: "question", prompt: "who?" }, { hear: "input", say: true }, { token: "!" }];

scene("a question is a form where the client takes it", async ({ open }) => {
  const acp = await open({ elicit: ({ message }) => ({ action: "accept", content: { answer: `${message} me` } }) });
  await acp.prompt(await acp.begin(), says(...WHO));
  assert.equal(JSON.parse(acp.text().slice(0, -1)).answer, "who? me");
});

scene("else it is text, and the next prompt is the answer", async ({ world, token, open }) => {
  const acp = await open();
  const session = await acp.begin();
  assert.equal((await acp.prompt(session, says(...WHO))).stopReason, "end_turn");
  assert.equal(acp.text(), "who?");
  const again = await open();
  await again.load(session);
  await until(() => again.text() === "who?", "the question");
  const before = again.updates.length;
  assert.equal((await again.prompt(session, "me")).stopReason, "end_turn");
  const said = again.updates.slice(before).map(({ content }) => content.text).join("");
  assert.equal(JSON.parse(said.slice(0, -1)).answer, "me");
  assert.equal((await world.tasks(token, session)).length, 1);
});

scene("a session has one turn at a time", async ({ world, open }) => {
  const acp = await open();
  const session = await acp.begin();
  const gate = world.gate();
  const reply = acp.prompt(session, says({ wait: gate.path }, { token: "a" }));
  await assert.rejects(acp.prompt(session, "more"), { code: -32600, message: /in progress/ });
  await gate.open();
  assert.equal((await reply).stopReason, "end_turn");
});

scene("sessions that are unknown, another's, empty or malformed have one answer", async ({ world, open }) => {
  const mine = await open();
  const session = await mine.begin();
  await mine.prompt(session, says({ token: "mine" }));
  const other = await open({ token: (await world.guest()).token });
  const empty = await other.begin();
  const answers = [];
  for (const id of [session, "unknown", empty, "../etc", "", "x".repeat(200)]) {
    const { code, message, data } = await other.load(id).then(assert.fail, (error) => error);
    assert.deepEqual(data, { sessionId: id });
    answers.push(`${code} ${message}`);
  }
  assert.deepEqual([...new Set(answers)], ["-32002 Resource not found"]);
  await other.cancel(session); // nothing of the owner's
  const again = await open();
  await again.load(session);
  assert.equal(again.text(), "mine");
});

scene("bad input gets the protocol's error, and the connection stays", async ({ open }) => {
  const acp = await open();
  const sessionId = await acp.begin();
  const wrong = [
    ["session/new", { cwd: "/" }, -32602, /mcpServers/],
    ["session/new", { cwd: "/", mcpServers: [{ name: "x", command: "x", args: [], env: [] }] }, -32602, /mcpServers/],
    ["session/prompt", { sessionId }, -32602, /prompt/],
    ["session/prompt", { sessionId, prompt: [] }, -32602, /no text/],
    ["session/prompt", { sessionId, prompt: [{ type: "image", data: "?", mimeType: "image/png" }] }, -32602, /in base64/],
    ["session/prompt", { sessionId, prompt: [{ type: "hologram" }] }, -32602, /must be text/],
    ["session/prompt", { prompt: [{ type: "text", text: "x" }] }, -32602, /sessionId/],
    ["session/prompt", { sessionId: "../etc", prompt: [{ type: "text", text: "x" }] }, -32002, /not found/],
    ["session/fork", { sessionId }, -32601, /no such method/],
    ["initialize", { protocolVersion: 1 }, -32600, /is initialized/],
  ];
  for (const [method, params, code, message] of wrong)
    await assert.rejects(acp.request(method, params), { code, message }, `${method} ${JSON.stringify(params)}`);
  assert.equal((await acp.prompt(sessionId, says({ token: "still here" }))).stopReason, "end_turn");
});

/** Sends texts on a bare WebSocket; as many frames as are expected, or why it closed. */
async function frames(world, query, texts, n) {
  const socket = new WebSocket(`${world.base.replace("http", "ws")}/v1/acp${query}`);
  const heard = [];
  const end = await new Promise((resolve) => {
    socket.on("close", resolve);
    socket.on("error", () => {});
    socket.on("message", (text) => heard.push(JSON.parse(text)) === n && resolve(heard));
    socket.on("open", () => texts.forEach((text) => socket.send(text)));
  });
  socket.terminate();
  return end;
}

scene("frames that are no request get an error without a request", async ({ world, token }) => {
  const query = `?token=${token}`;
  const ask = (id, method, params = {}) => JSON.stringify({ jsonrpc: "2.0", id, method, params });
  const [parse, batch, early, version, good] = await frames(
    world,
    query,
    ["{", "[]", ask(7, "session/new"), ask(8, "initialize", { protocolVersion: "1" }), ask(9, "initialize", { protocolVersion: 99 })],
    5,
  );
  assert.deepEqual([parse.id, parse.error.code, batch.id, batch.error.code], [null, -32700, null, -32600]);
  assert.deepEqual([early.id, version.id, version.error.code], [7, 8, -32602]);
  assert.deepEqual([good.id, good.result.protocolVersion], [9, 1]);
  const [refused] = await frames(world, "", [ask(1, "initialize", { protocolVersion: 1 })], 1);
  assert.deepEqual([refused.id, refused.error.code], [1, -32000]);
  const closed = await frames(world, query, [ask(1, "initialize", { protocolVersion: 1, _meta: { x: "x".repeat(70_000) } })], 2);
  assert.equal(closed, 1009);
}, { limits: { face_bytes: 65536 } });

scene("a page's client offers the subprotocol undefined, and has it back; others are refused", async ({ world }) => {
  const offer = (names) =>
    new Promise((resolve) => {
      const socket = new WebSocket(`${world.base.replace("http", "ws")}/v1/acp`, names);
      socket.on("open", () => resolve(socket.protocol));
      socket.on("unexpected-response", (_, { statusCode }) => resolve(statusCode));
      socket.on("error", () => {});
    });
  assert.deepEqual([await offer(["undefined"]), await offer([]), await offer(["holdfast.v1"]), await offer(["mcp"])], ["undefined", "", 400, 400]);
});

scene("a token in the address or in _meta is as good, and `agent` chooses", async ({ world, token, open }) => {
  const inAddress = await open({ headers: {}, query: `?token=${token}&agent=other` });
  const session = await inAddress.begin();
  await inAddress.prompt(session, says({ token: "a" }));
  assert.equal((await world.tasks(token, session))[0].agent, "other");
  const inMeta = await open({ headers: {}, meta: { "holdfast/token": token } });
  await inMeta.load(session);
  assert.equal(inMeta.text(), "a");
}, { agents: [script, { ...script, name: "other" }] });

scene("a turn that another wire began is loaded, followed and stopped", async ({ world, token, open }) => {
  const gate = world.gate();
  const url = `${world.base}/v1/conversations/c/tasks`;
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const message = says({ token: "one " }, { wait: gate.path }, { token: "two" }, { wait: world.gate().path });
  await fetch(url, { method: "POST", headers, body: JSON.stringify({ message }) });
  const acp = await open();
  await until(() => acp.load("c").then(() => true, () => false), "the turn");
  await until(() => acp.text().endsWith("one "), "the first token");
  await gate.open();
  await until(() => acp.text().endsWith("two"), "the second");
  await acp.cancel("c");
  await until(() => acp.ends.length, "its end");
  assert.equal(acp.ends[0].stopReason, "cancelled");
});

scene("what has no place is told as a message of our own", async ({ open }) => {
  const acp = await open();
  const plan = { sessionUpdate: "plan", entries: [{ content: "x", priority: "high", status: "pending" }] };
  await acp.prompt(
    await acp.begin(),
    says(
      { progress: 0.5, note: "half" },
      { custom: "plan", payload: plan },
      { custom: "mine", payload: { n: 1 } },
    ),
  );
  assert.deepEqual(acp.updates, [plan]);
  assert.deepEqual(acp.events.map(({ event, data }) => [event, data.note ?? data.payload.n]), [["progress", "half"], ["custom", 1]]);
});
