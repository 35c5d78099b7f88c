// writer.mjs -- the write half of Durable Streams, for the suite alone: a PUT asks an agent, which says what POSTs append.
//
// The streams are tasks of a gateway that is built with HOLDFAST_DURABLE_SHIM (build/tests/holdfast_streams). GET, HEAD
// and OPTIONS go to it byte for byte, with the owner's token; so whatever is read is the gateway's own answer.

import { createServer, request } from "node:http";
import { once } from "node:events";
import { randomUUID } from "node:crypto";
import { WebSocket } from "ws";

const NOTHING = "nothing/01ARZ3NDEKTSV4RRFFQ69G5FAV";
const PIECE = 24 * 1024; // bytes of one event
const LARGEST = 4 << 20; // bytes of one append

const offsetOf = (seq) => String(seq).padStart(20, "0");
const typeOf = (headers) => headers["content-type"]?.trim();
const isSame = (a, b) => a.split(";")[0].toLowerCase() === b.split(";")[0].toLowerCase();
const isJson = (type) => type.split(";")[0].toLowerCase() === "application/json";

class Refusal extends Error {
  constructor(status, message, headers = {}) {
    super(message);
    Object.assign(this, { status, headers });
  }
}

/** An append consists of messages in JSON, else of bytes. */
function piecesOf(type, body, isNew) {
  if (!isJson(type)) {
    const pieces = [];
    for (let at = 0; at < body.length; at += PIECE) pieces.push(body.subarray(at, at + PIECE));
    return pieces;
  }
  let value;
  try {
    value = JSON.parse(body);
  } catch {
    throw new Refusal(400, "the body is not JSON");
  }
  const messages = Array.isArray(value) ? value : [value];
  if (!messages.length && !isNew) throw new Refusal(400, "the array is empty");
  return messages.map((message) => Buffer.from(JSON.stringify(message)));
}

async function bodyOf(incoming) {
  const pieces = [];
  let size = 0;
  for await (const piece of incoming) {
    size += piece.length;
    if (size <= LARGEST) pieces.push(piece);
  }
  if (size > LARGEST) throw new Refusal(413, "the body is too large");
  return Buffer.concat(pieces);
}

/** A task, and the agent's side of it. */
class Stream {
  head = 0; // seq of its newest event
  closed = false; // by a POST
  lastSeq = null; // Stream-Seq
  #waiting = [];
  #turn = Promise.resolve();
  n = 0; // pieces that the journal has

  constructor(type) {
    this.type = type;
    this.conversation = randomUUID();
  }

  get path() {
    return `${this.conversation}/${this.task}`;
  }

  /** Writes do not overlap. */
  inTurn(write) {
    const done = this.#turn.then(write);
    this.#turn = done.catch(() => {});
    return done;
  }

  seen(line) {
    this.head = line.seq;
    this.started ||= line.event === "task.started";
    this.ended ||= /^task\.(completed|failed)$/.test(line.event);
    if (line.event === "custom") this.n++;
    this.#waiting = this.#waiting.filter(({ test, resolve }) => !test() || resolve());
  }

  until(test) {
    return test() ? undefined : new Promise((resolve) => this.#waiting.push({ test, resolve }));
  }

  async append(pieces) {
    const n = this.n + pieces.length;
    for (const piece of pieces) {
      const data = { event_type: "append", payload: piece.toString("base64url") };
      this.agent.write(`data: ${JSON.stringify({ event: "custom", data })}\n\n`);
    }
    await this.until(() => this.n >= n);
  }

  async close() {
    this.closed = true;
    this.agent.end(`data: ${JSON.stringify({ event: "final_answer", data: { output: "" } })}\n\n`);
    await this.until(() => this.ended);
  }

  headers() {
    return {
      "stream-next-offset": offsetOf(this.head),
      ...(this.closed && { "stream-closed": "true" }),
    };
  }
}

export class Writer {
  #streams = new Map(); // by their names
  #tasks = new Map(); // by their tasks
  #starting = new Map(); // by their conversations
  #agent = createServer((incoming, reply) => this.#run(incoming, reply));
  #front = createServer((incoming, reply) => this.#serve(incoming, reply));

  constructor() {
    // A client that asks again right when an idle connection ends would fail.
    for (const server of [this.#agent, this.#front]) server.keepAliveTimeout = 0;
  }

  async openAgent() {
    await once(this.#agent.listen(0, "127.0.0.1"), "listening");
    return `http://127.0.0.1:${this.#agent.address().port}/`;
  }

  async open(port) {
    this.port = port;
    this.token = (await (await fetch(`http://127.0.0.1:${port}/v1/guest`, { method: "POST" })).json()).token;
    this.wire = new WebSocket(`ws://127.0.0.1:${port}/v1/ws`, ["holdfast.v1"]);
    this.wire.on("message", (message) => this.#hear(String(message)));
    await once(this.wire, "open");
    this.wire.send(JSON.stringify({ type: "hello", id: "0", token: this.token }));
    await once(this.#front.listen(0, "127.0.0.1"), "listening");
    return `http://127.0.0.1:${this.#front.address().port}`;
  }

  close() {
    this.wire?.terminate();
    for (const server of [this.#agent, this.#front]) {
      server.closeAllConnections();
      server.close();
    }
  }

  #hear(message) {
    for (const line of message.split("\n").filter(Boolean).map((text) => JSON.parse(text)))
      if (line.type === "event") this.#tasks.get(line.task_id)?.seen(line);
  }

  /** The agent's side: the answer to a run stays open. */
  async #run(incoming, reply) {
    const run = JSON.parse(await bodyOf(incoming));
    reply.writeHead(200, { "content-type": "text/event-stream" });
    reply.flushHeaders();
    const stream = this.#starting.get(run.conversation_id);
    stream.agent = reply;
    stream.running();
  }

  async #ask(method, path, body) {
    const answer = await fetch(`http://127.0.0.1:${this.port}/v1/conversations/${path}`, {
      method,
      headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" },
      body: body && JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return await answer.json();
  }

  async #start(type) {
    const stream = new Stream(type);
    const runs = new Promise((resolve) => (stream.running = resolve));
    this.#starting.set(stream.conversation, stream);
    const asked = { message: "go", metadata: { durable_type: type } };
    const { task } = await this.#ask("POST", `${stream.conversation}/tasks`, asked);
    stream.task = task.task_id;
    this.#tasks.set(stream.task, stream);
    const ids = { conversation_id: stream.conversation, task_id: stream.task };
    this.wire.send(JSON.stringify({ type: "resume", id: stream.task, ...ids, after: 0 }));
    await runs;
    await stream.until(() => stream.started);
    return stream;
  }

  async #put(name, incoming) {
    const type = typeOf(incoming.headers) ?? "application/octet-stream";
    const closes = incoming.headers["stream-closed"] === "true";
    const body = await bodyOf(incoming);
    const there = await this.#streams.get(name);
    if (there && (!isSame(there.type, type) || there.closed !== closes))
      throw new Refusal(409, "the stream is there, and another one");
    if (there) return [200, there.headers()];
    const pieces = body.length ? piecesOf(type, body, true) : [];
    const starting = this.#start(type);
    this.#streams.set(name, starting);
    const stream = await starting;
    await stream.append(pieces);
    if (closes) await stream.close();
    const location = `http://${incoming.headers.host}${incoming.url}`;
    return [201, { ...stream.headers(), location, "content-type": type }];
  }

  async #post(name, incoming) {
    const body = await bodyOf(incoming);
    const stream = await this.#streams.get(name);
    if (!stream) throw new Refusal(404, "no such stream");
    return await stream.inTurn(() => this.#append(stream, incoming.headers, body));
  }

  async #append(stream, headers, body) {
    const closes = headers["stream-closed"] === "true";
    if (closes && !body.length) {
      if (!stream.closed) await stream.close();
      return [204, stream.headers()];
    }
    if (stream.closed) throw new Refusal(409, "the stream is closed", stream.headers());
    if (!body.length) throw new Refusal(400, "the body is empty");
    if (!typeOf(headers)) throw new Refusal(400, "there is no Content-Type");
    if (!isSame(typeOf(headers), stream.type)) throw new Refusal(409, "another Content-Type");
    const seq = headers["stream-seq"];
    if (seq !== undefined && stream.lastSeq !== null && seq <= stream.lastSeq)
      throw new Refusal(409, "Stream-Seq does not grow");
    const pieces = piecesOf(stream.type, body, false);
    if (seq !== undefined) stream.lastSeq = seq;
    await stream.append(pieces);
    if (closes) await stream.close();
    return [204, stream.headers()];
  }

  async #delete(name) {
    const stream = await this.#streams.get(name);
    if (!stream) throw new Refusal(404, "no such stream");
    this.#streams.delete(name);
    if (!stream.ended) await this.#ask("DELETE", `${stream.conversation}/tasks/${stream.task}`);
    await stream.until(() => stream.ended);
    await this.#ask("DELETE", stream.conversation);
    return [204, {}];
  }

  /** To the gateway: only the path and the token are ours. */
  async #read(name, query, incoming, reply) {
    const stream = await this.#streams.get(name);
    const headers = { ...incoming.headers, authorization: `Bearer ${this.token}` };
    const path = `/v1/stream/${stream?.path ?? NOTHING}${query}`;
    const asked = request({ port: this.port, host: "127.0.0.1", method: incoming.method, path, headers });
    asked.on("response", (answer) => {
      reply.writeHead(answer.statusCode, answer.rawHeaders);
      reply.flushHeaders();
      answer.pipe(reply);
      answer.on("error", () => reply.destroy());
    });
    asked.on("error", () => reply.destroy());
    reply.on("close", () => asked.destroy());
    asked.end();
  }

  async #serve(incoming, reply) {
    const at = incoming.url.indexOf("?");
    const name = at < 0 ? incoming.url : incoming.url.slice(0, at);
    const writes = { PUT: () => this.#put(name, incoming), POST: () => this.#post(name, incoming), DELETE: () => this.#delete(name) };
    const write = writes[incoming.method];
    if (!write) return await this.#read(name, at < 0 ? "" : incoming.url.slice(at), incoming, reply);
    const own = { "x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin" };
    try {
      const [status, headers] = await write();
      reply.writeHead(status, { ...own, ...headers }).end();
    } catch (error) {
      const { status = 500, headers } = error;
      if (status === 500) console.error(error);
      incoming.resume();
      reply.writeHead(status, { ...own, ...headers }).end(error.message);
    }
  }
}
