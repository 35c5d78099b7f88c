// openai_responses.test.mjs -- OpenAI's own client, as it comes from the registry: the Responses API over HTTP, and its
// WebSocket mode with reconnect.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { accumulateResponse } from "openai/lib/responses/ResponseAccumulator";
import { ResponsesWS } from "openai/resources/responses/ws";
import { holdsFor } from "./support/cases.mjs";
import { outputOf } from "./support/docs.mjs";
import { World } from "./support/world.mjs";

const ENDS = ["response.completed", "response.failed", "response.incomplete"];
const says = (...steps) => JSON.stringify(steps);
const clientOf = (world, token, more = {}) =>
  new OpenAI({ baseURL: `${world.base}/v1`, apiKey: token, maxRetries: 0, ...more });

/** One response as an application follows it over cuts: the client's own accumulator, and the last number. */
class Run {
  id = null;
  last = -1;
  snapshot = undefined;
  isOver = false;
  take(event) {
    assert.equal(event.sequence_number, this.last + 1, "numbers are contiguous");
    this.last = event.sequence_number;
    this.snapshot = accumulateResponse(event, this.snapshot);
    this.id = this.snapshot.id;
    this.isOver = ENDS.includes(event.type);
    return this.isOver;
  }
  get text() {
    return this.snapshot?.output_text ?? "";
  }
  get ended() {
    const { status, error } = this.snapshot;
    return { text: this.text, end: status, ...(error ? { why: error.message } : {}) };
  }
}

const wasCut = (error) => /terminated|fetch failed|Connection error|other side closed/i.test(error.message);

class Answer {
  constructor(run, ended) {
    this.text = () => run.text;
    this.ended = ended;
  }
}

/** conversation → the id that an application would have kept. */
const kept = new Map();
const learn = (conversation, task) => kept.set(conversation, `resp_${Buffer.from(conversation).toString("base64url")}.${task}`);

// ---------------------------------------------------------------- over HTTP

async function follow(run, stream, conversation, signal) {
  try {
    for await (const event of stream) {
      const isEnd = run.take(event);
      kept.set(conversation, run.id);
      if (isEnd) return run.ended;
    }
  } catch (error) {
    if (wasCut(error)) return { text: run.text, end: "cut" };
    throw error;
  }
  if (!signal.aborted) throw new Error("the stream ended cleanly without its last event");
}

holdsFor({
  name: "openai.responses over SSE",
  learn,
  stops: true,
  replaysEnded: true,
  async open(world, token, conversation) {
    const openai = clientOf(world, token);
    const running = new AbortController();
    let run = new Run();
    let ask;
    const answer = (stream) => new Answer(run, follow(run, stream, conversation, running.signal));
    return {
      async ask(input) {
        const headers = { "Idempotency-Key": `${conversation}-1` };
        const body = { model: "script", input, conversation, background: true, stream: true };
        ask = () => openai.responses.create(body, { headers, signal: running.signal });
        return answer(await ask());
      },
      async comeBack() {
        const id = run.id ?? (ask ? null : kept.get(conversation));
        if (!id) return answer(await ask()); // cut before the first event: the same key finds the same response
        const query = { stream: true, ...(run.last >= 0 ? { starting_after: run.last } : {}) };
        try {
          return answer(await openai.responses.retrieve(id, query, { signal: running.signal }));
        } catch (error) {
          if (error instanceof OpenAI.NotFoundError) return null;
          throw error;
        }
      },
      stop: () => openai.responses.cancel(run.id),
      close: () => running.abort(),
    };
  },
});

// ---------------------------------------------------------------- over a WebSocket

/** The client's socket, which comes back by itself, and what an application hears of it. */
class Socket {
  #waiting = [];
  constructor(openai, run) {
    this.run = run;
    const parameters = () => (run.id ? { response_id: run.id, starting_after: run.last } : {});
    this.ws = new ResponsesWS(openai, {
      reconnect: { initialDelay: 5, maxDelay: 20, maxRetries: 10_000, onReconnecting: () => ({ parameters: parameters() }) },
    });
    this.isUp = true;
    this.ws.on("event", (event) => this.#hear(event));
    this.ws.on("error", (error) => error.error?.type === "error" && this.#settle(() => error.error));
    this.ws.on("reconnecting", () => this.#down());
    this.ws.on("reconnected", () => this.#up());
    this.ws.on("close", () => this.#settle(() => ({ text: run.text, end: "closed" })));
  }
  #hear(event) {
    if (event.type === "error") return;
    const isEnd = this.run.take(event);
    this.heard?.();
    if (isEnd) this.#settle(() => this.run.ended);
  }
  #down() {
    if (this.isUp) this.#settle(() => ({ text: this.run.text, end: "cut" }));
    this.isUp = false;
  }
  #up() {
    this.isUp = true;
    this.back?.();
  }
  #settle(value) {
    for (const resolve of this.#waiting.splice(0)) resolve(value());
  }
  next() {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
  first() {
    return new Promise((resolve) => (this.heard = resolve));
  }
  async up() {
    if (!this.isUp) await new Promise((resolve) => (this.back = resolve));
  }
}

holdsFor({
  name: "openai.responses over a WebSocket",
  learn,
  stops: true,
  replaysEnded: true,
  async open(world, token, conversation) {
    let socket = null;
    const run = new Run();
    const isRefused = (ended) => ended.type === "error" && ended.status === 404;
    return {
      async ask(input) {
        socket = new Socket(clientOf(world, token), run);
        const answer = new Answer(run, socket.next());
        socket.ws.send({ type: "response.create", model: "script", input, conversation });
        await Promise.race([socket.first(), answer.ended]);
        kept.set(conversation, run.id);
        return answer;
      },
      async comeBack() {
        if (socket) {
          await socket.up();
          return new Answer(run, run.isOver ? Promise.resolve(run.ended) : socket.next());
        }
        socket = new Socket(clientOf(world, token, { defaultQuery: { response_id: kept.get(conversation) } }), run);
        const answer = new Answer(run, socket.next());
        const first = await Promise.race([socket.first(), answer.ended]);
        return first && isRefused(first) ? null : answer;
      },
      stop: () => clientOf(world, token).responses.cancel(run.id),
      close: () => socket?.ws.close(),
    };
  },
});

// ---------------------------------------------------------------- what this protocol alone has

let world;
test.before(async () => {
  world = await new World().open();
});
test.after(() => world.close());

const scene = (name, run) =>
  test(`openai.responses: ${name}`, { timeout: 60_000 }, async () => {
    const { token } = await world.guest();
    await run(clientOf(world, token), token);
  });

/** Waits as an application does that asks again and again: there is no other way. */
async function polled(openai, id, isIt = ({ status }) => status !== "queued" && status !== "in_progress") {
  for (;;) {
    const response = await openai.responses.retrieve(id);
    if (isIt(response)) return response;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function eventsOf(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

scene("the lines in docs/faces.md do what they say", async (_, token) => {
  const message = says({ token: "1 2 " }, { token: "3" });
  assert.equal(await outputOf("OpenAI Responses", world, token, message), "1 2 3");
});

scene("a response in the background is retrieved when it is there", async (openai) => {
  const gate = world.gate();
  const input = says({ token: "a" }, { wait: gate.path }, { token: "b" });
  const made = await openai.responses.create({ model: "script", input, background: true, metadata: { kind: "test" } });
  assert.match(made.id, /^resp_[A-Za-z0-9_-]+\.[0-9A-Z]{26}$/);
  assert.ok(["queued", "in_progress"].includes(made.status), made.status);
  assert.deepEqual(made.output, []);
  await gate.open();
  const response = await polled(openai, made.id);
  assert.deepEqual([response.status, response.output_text], ["completed", "ab"]);
  assert.deepEqual(response.metadata, { kind: "test" });
  assert.equal(response.id, made.id);
});

scene("a create without stream is the whole response, as its events end and as it is retrieved", async (openai) => {
  const call = { line: { event: "tool_call", data: { call_id: "c1", name: "clock", arguments: {} } } };
  const result = { line: { event: "tool_result", data: { call_id: "c1", name: "clock", output: "noon" } } };
  const input = says({ thinking: "hm" }, { token: "wait" }, call, result, { token: "Noon." }, { result: { n: 1 } });
  const response = await openai.responses.create({ model: "script", input });
  assert.deepEqual([response.status, response.output_text], ["completed", "waitNoon."]);
  assert.deepEqual(response.output.map(({ type }) => type), ["reasoning", "message", "mcp_call", "message"]);
  assert.deepEqual(await openai.responses.retrieve(response.id), response);
  const events = await eventsOf(await openai.responses.retrieve(response.id, { stream: true }));
  assert.deepEqual({ output_text: response.output_text, ...events.at(-1).response }, response);
  const failed = await openai.responses.create({ model: "script", input: says({ token: "a" }, { exit: 3 }) });
  assert.deepEqual([failed.status, failed.output_text], ["failed", "a"]);
  assert.match(failed.error.message, /exit status 3/);
});

scene("a create without stream is answered when the client must approve", async (openai) => {
  const asked = { event: "input_required", data: { input_id: "q1", kind: "approval", prompt: "sure?", tool: "rm", arguments: {} } };
  const input = says({ line: asked }, { hear: "input", say: true });
  const first = await openai.responses.create({ model: "script", input });
  assert.equal(first.status, "in_progress");
  assert.equal(first.output.at(-1).type, "mcp_approval_request");
  const answer = { type: "mcp_approval_response", approval_request_id: first.output.at(-1).id, approve: false };
  const request = { model: "script", input: [...first.output, answer], previous_response_id: first.id };
  const response = await openai.responses.create(request);
  assert.deepEqual([response.id, response.status, JSON.parse(response.output_text).answer], [first.id, "completed", false]);
  await assert.rejects(openai.responses.create({ ...request, input: [{ ...answer, approve: true }] }), OpenAI.ConflictError);
});

scene("a task that our own wire has started is a response", async (openai, token) => {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ message: says({ token: "a" }) });
  const made = await (await fetch(`${world.base}/v1/conversations/own/tasks`, { method: "POST", headers, body })).json();
  const id = `resp_${Buffer.from("own").toString("base64url")}.${made.task.task_id}`;
  const response = await openai.responses.stream({ response_id: id }).finalResponse();
  assert.deepEqual([response.id, response.status, response.output_text], [id, "completed", "a"]);
});

scene("every replay has the same events with the same numbers", async (openai) => {
  const input = says({ thinking: "hm" }, { token: "a" }, { token: "b" }, { final_answer: "c" });
  const first = await eventsOf(await openai.responses.create({ model: "script", input, stream: true }));
  const { id } = first[0].response;
  const again = async (query) => await eventsOf(await openai.responses.retrieve(id, { stream: true, ...query }));
  assert.deepEqual(await again(), first);
  for (const n of [0, 7, first.length - 2]) assert.deepEqual(await again({ starting_after: n }), first.slice(n + 1));
  const types = first.map(({ type }) => type);
  assert.deepEqual(types.slice(0, 3), ["response.created", "response.queued", "response.in_progress"]);
  const done = first.filter(({ type }) => type === "response.output_item.done").map(({ item }) => [item.type, item.status]);
  assert.deepEqual(done, [["reasoning", "completed"], ["message", "incomplete"], ["message", "completed"]]);
  assert.equal(first.at(-1).response.output.findLast(({ type }) => type === "message").content[0].text, "c");
});

scene("the strict helper takes thoughts, tools and a second answer", async (openai) => {
  const call = (n) => ({ line: { event: "tool_call", data: { call_id: `c${n}`, name: "clock", arguments: { n } } } });
  const result = (n, is_error) => ({
    line: { event: "tool_result", data: { call_id: `c${n}`, name: "clock", output: `at ${n}`, is_error } },
  });
  const input = says(
    { thinking: "hm" }, { token: "draft" }, call(1), call(2), result(2, true), { token: "more" }, result(1, false),
    result(3, false), { token: "end" }, { final_answer: "so" },
  );
  const helper = openai.responses.stream({ model: "script", input });
  const deltas = [];
  helper.on("response.output_text.delta", ({ delta }) => deltas.push(delta));
  const response = await helper.finalResponse();
  assert.equal(response.status, "completed");
  assert.deepEqual(deltas, ["draft", "more", "end", "so"]);
  const tools = response.output.filter(({ type }) => type === "mcp_call");
  assert.deepEqual(tools.map(({ status, output }) => [status, output]), [
    ["failed", null],
    ["completed", "at 1"],
    ["completed", "at 3"],
  ]);
  assert.equal(tools[1].arguments, '{"n":1}');
  const replay = await openai.responses.stream({ response_id: response.id, starting_after: 3 }).finalResponse();
  assert.deepEqual(replay.output, response.output);
});

scene("a cancelled response ends as cancelled in the helper too", async (openai) => {
  const gate = world.gate();
  const helper = openai.responses.stream({ model: "script", input: says({ token: "a" }, { wait: gate.path }) });
  let cancelled = null;
  let id = null;
  helper.on("response.created", ({ response }) => (id = response.id));
  helper.on("response.output_text.delta", () => (cancelled = openai.responses.cancel(id)));
  const response = await helper.finalResponse();
  assert.deepEqual([response.status, response.output_text], ["cancelled", "a"]);
  assert.equal((await cancelled).status, "cancelled");
  assert.equal((await openai.responses.cancel(response.id)).status, "cancelled", "a second cancel changes nothing");
});

scene("an approval is asked for as an item, and answered by a create", async (openai) => {
  const asked = { event: "input_required", data: { input_id: "q1", kind: "approval", prompt: "sure?", tool: "rm", arguments: { f: 1 } } };
  const input = says({ token: "may I? " }, { line: asked }, { hear: "input" }, { token: "thanks" });
  const helper = openai.responses.stream({ model: "script", input });
  let id = null;
  let going = null;
  helper.on("response.created", ({ response }) => (id = response.id));
  helper.on("response.output_item.done", ({ item }) => {
    if (item.type !== "mcp_approval_request") return;
    assert.deepEqual([item.name, item.arguments], ["rm", '{"f":1}']);
    const answer = { type: "mcp_approval_response", approval_request_id: item.id, approve: true };
    going = openai.responses.stream({ model: "script", input: [answer], previous_response_id: id }).finalResponse();
  });
  const response = await helper.finalResponse();
  assert.deepEqual([response.status, response.output_text], ["completed", "may I? thanks"]);
  assert.deepEqual((await going).output, response.output, "the same response, to its end");
});

scene("who polls sees the approval, and no question makes him wait", async (openai) => {
  const asked = (kind) => ({ event: "input_required", data: { input_id: "q1", kind, prompt: "?", tool: "rm", arguments: {} } });
  for (const kind of ["approval", "question"]) {
    const input = says({ token: "a" }, { line: asked(kind) }, { hear: "input" });
    const { id } = await openai.responses.create({ model: "script", input, background: true });
    const seen = await polled(openai, id, ({ output }) => output.length > 0);
    assert.equal(seen.status, "in_progress");
    const types = ["message", ...(kind === "approval" ? ["mcp_approval_request"] : [])];
    assert.deepEqual(seen.output.map(({ type }) => type), types);
    await openai.responses.cancel(id);
  }
});

scene("the next question goes on with what was said", async (openai) => {
  const first = await openai.responses.create({ model: "script", input: says({ token: "one" }), background: true });
  await polled(openai, first.id);
  const next = await openai.responses.create({
    model: "script", input: says({ answer: "history" }), background: true, previous_response_id: first.id,
  });
  const { output_text } = await polled(openai, next.id);
  assert.deepEqual(JSON.parse(output_text).map(({ role }) => role), ["user", "assistant"]);
  assert.equal(JSON.parse(output_text)[1].content, "one");
  assert.equal(next.conversation.id, first.conversation.id);
});

scene("a request without a conversation brings its history along, and is not listed", async (openai, token) => {
  const input = [
    { role: "user", content: "1" },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "2" }] },
    { role: "user", content: says({ answer: "history" }) },
  ];
  const made = await openai.responses.create({ model: "script", instructions: "be brief", input, background: true });
  const { output_text } = await polled(openai, made.id);
  assert.deepEqual(JSON.parse(output_text), [
    { role: "system", content: "be brief" },
    { role: "user", content: "1" },
    { role: "assistant", content: "2" },
  ]);
  const headers = { authorization: `Bearer ${token}` };
  const listed = await (await fetch(`${world.base}/v1/conversations`, { headers })).json();
  assert.deepEqual(listed.conversations, []);
});

scene("a key makes a create safe to repeat", async (openai) => {
  const headers = { "Idempotency-Key": "k-1" };
  const create = (input) => openai.responses.create({ model: "script", input, background: true }, { headers });
  const first = await create("x");
  assert.equal((await create("x")).id, first.id);
  await assert.rejects(create("y"), OpenAI.ConflictError);
});

scene("a response is deleted with its conversation, or not at all", async (openai) => {
  const create = (more) => openai.responses.create({ model: "script", input: says({ token: "x" }), background: true, ...more });
  const alone = await create();
  assert.deepEqual(await openai.responses.delete(alone.id), { id: alone.id, object: "response", deleted: true });
  await assert.rejects(openai.responses.retrieve(alone.id), OpenAI.NotFoundError);
  await assert.rejects(openai.responses.delete(alone.id), OpenAI.NotFoundError);
  const first = await create();
  const second = await create({ previous_response_id: first.id });
  await assert.rejects(openai.responses.delete(first.id), /part of a conversation/);
  await assert.rejects(openai.responses.delete(second.id), OpenAI.ConflictError);
  assert.equal((await openai.responses.retrieve(first.id)).id, first.id);
});

scene("what is wrong is told in the protocol's own form", async (openai) => {
  const tools = [{ type: "function", name: "f", parameters: {}, strict: true }];
  const refused = (body) => openai.responses.create({ model: "script", input: "x", ...body });
  await assert.rejects(refused({ tools }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.deepEqual([error.type, error.code, error.param], ["invalid_request_error", "bad_request", null]);
    assert.match(error.message, /"tools" are not accepted/);
    return true;
  });
  await assert.rejects(refused({ input: "x".repeat(1 << 20) }), { status: 413, code: "too_large" });
  await assert.rejects(refused({ model: "nobody" }), OpenAI.BadRequestError);
  await assert.rejects(refused({ conversation: "no such id!" }), /conversation_id/);
  await assert.rejects(refused({ previous_response_id: "resp_nothing" }), OpenAI.NotFoundError);
  const made = await refused({ background: true });
  await assert.rejects(openai.responses.retrieve(made.id, { stream: true, starting_after: -1 }), /starting_after/);
  await assert.rejects(clientOf(world, "no token").responses.retrieve(made.id), OpenAI.AuthenticationError);
});

scene("foreign, unknown and malformed ids get one answer", async (openai, token) => {
  const other = (await world.guest()).token;
  const { id } = await openai.responses.create({ model: "script", input: "x", background: true });
  await polled(openai, id);
  const unknown = "resp_YzE.01ARZ3NDEKTSV4RRFFQ69G5FAV";
  const ids = [id, unknown, "resp_YzE", "resp_.", "x", id.toLowerCase(), `${id}0`, "a%2Fb", "a/b", "a&b", "a;b"];
  const said = async (method, tail, of, as = other) => {
    const headers = { authorization: `Bearer ${as}`, "content-type": "application/json" };
    const answer = await fetch(`${world.base}/v1/responses/${of}${tail}`, { method, headers });
    return [answer.status, await answer.text()];
  };
  const asks = [["GET", ""], ["GET", "?stream=true"], ["GET", "?stream=true&starting_after=3"], ["POST", "/cancel"], ["DELETE", ""]];
  for (const [method, tail] of asks) {
    const expected = await said(method, tail, unknown);
    assert.equal(expected[0], 404);
    for (const of of ids) assert.deepEqual(await said(method, tail, of), expected, `${method} ${of}${tail}`);
    for (const of of ids.slice(1)) assert.deepEqual(await said(method, tail, of, token), expected, `${method} ${of}${tail}`);
  }
});

scene("one socket carries many responses at a time, each in its stream", async (openai) => {
  const gate = world.gate();
  const socket = new ResponsesWS(openai);
  const runs = new Map([["a", new Run()], ["b", new Run()]]);
  const errors = [];
  const all = new Promise((resolve) => {
    socket.on("event", ({ stream_id, ...event }) => {
      if (event.type === "error") errors.push([stream_id, event.status, event.error.code]);
      else runs.get(stream_id).take(event);
      if (errors.length === 2) gate.open();
      if ([...runs.values()].every(({ isOver }) => isOver)) resolve();
    });
  });
  socket.on("error", () => {});
  const ask = (stream_id, input) => socket.send({ type: "response.create", model: "script", input, stream_id });
  ask("a", says({ token: "one" }, { wait: gate.path }));
  ask("b", says({ token: "two" }, { wait: gate.path }));
  ask("a", "again");
  socket.send({ type: "response.steer" });
  await all;
  socket.close();
  assert.deepEqual([runs.get("a").text, runs.get("b").text], ["one", "two"]);
  assert.deepEqual(errors, [["a", 409, "conflict"], [undefined, 400, "bad_request"]]);
});
