// openai_responses.test.mjs -- OpenAI's own client, as it comes from the registry: the Responses API over HTTP, and its
// WebSocket mode with reconnect.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { accumulateResponse } from "openai/lib/responses/ResponseAccumulator";
import { ResponsesWS } from "openai/resources/responses/ws";
import { holdsFor } from "./support/cases.mjs";
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
