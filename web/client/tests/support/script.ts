/** script.ts -- a gateway that says what the test tells it, over a socket that is none. */

import { vi } from "vitest";
import { connect, MemoryStore, type Client, type Options } from "../../src/index.js";

type Json = Record<string, any>;

/** Fields that most tests do not look at. */
export const WELCOME = {
  type: "welcome",
  id: "hello",
  owner: "ada",
  limits: { message_bytes: 1_000 },
};

export class ScriptedSocket {
  readyState = 0;
  sent: Json[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onerror: (() => void) | null = null;
  hungUp = false;

  constructor(
    readonly url: string,
    readonly protocol: string,
  ) {}

  send(text: string): void {
    this.sent.push(
      ...text
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
    );
  }

  close(): void {
    this.hungUp = true;
  }

  // ---- what the gateway does

  open(): this {
    this.readyState = 1;
    this.onopen?.();
    return this;
  }

  say(...lines: Json[]): void {
    this.onmessage?.({ data: lines.map((line) => JSON.stringify(line)).join("\n") });
  }

  break(code = 1006): void {
    this.readyState = 3;
    this.onclose?.({ code });
  }

  welcome(more: Json = {}): this {
    this.open().say({ ...WELCOME, ...more });
    return this;
  }

  /** The newest request of this type. */
  asked(type: string): Json {
    const request = this.sent.findLast((line) => line["type"] === type);
    if (!request) throw new Error(`no ${type} among ${JSON.stringify(this.sent)}`);
    return request;
  }

  all(type: string): Json[] {
    return this.sent.filter((line) => line["type"] === type);
  }

  /** Answers the newest request of this type. */
  answer(type: string, line: Json): void {
    this.say({ ...line, id: this.asked(type)["id"] });
  }
}

export class Script {
  sockets: ScriptedSocket[] = [];
  readonly WebSocket: typeof WebSocket;

  constructor() {
    const { sockets } = this;
    this.WebSocket = class extends ScriptedSocket {
      constructor(url: string, protocol: string) {
        super(url, protocol);
        sockets.push(this);
      }
    } as unknown as typeof WebSocket;
  }

  get socket(): ScriptedSocket {
    return this.sockets.at(-1)!;
  }
}

/** Lets everything happen that waits for no clock. */
export const settle = () => vi.advanceTimersByTimeAsync(0);

export interface Scene {
  script: Script;
  client: Client;
  socket: ScriptedSocket;
}

/** A client on a scripted gateway, its first socket opened but not welcomed. */
export async function scene(options: Options = {}): Promise<Scene> {
  const script = new Script();
  const client = connect("ws://gateway/v1/ws", {
    store: new MemoryStore(),
    WebSocket: script.WebSocket,
    token: "token-1",
    ...options,
  });
  await settle();
  return { script, client, socket: script.socket };
}

export async function liveScene(options: Options = {}): Promise<Scene> {
  const its = await scene(options);
  its.socket.welcome();
  await settle();
  return its;
}

/** Until the next attempt is made; a wait of less than a millisecond may be over already. */
export async function nextAttempt({ client }: Scene): Promise<void> {
  await vi.advanceTimersByTimeAsync(Math.max(0, client.retryAt - Date.now()));
}

/** Breaks the connection and comes back; returns the new socket. */
export async function comeBack(its: Scene, welcome: Json = {}): Promise<ScriptedSocket> {
  const { script } = its;
  script.socket.break();
  await nextAttempt(its);
  script.socket.welcome(welcome);
  await settle();
  return script.socket;
}

// ---- lines

export const summary = (more: Json = {}): Json => ({
  task_id: "t1",
  conversation_id: "c1",
  agent: "assistant",
  type: "chat",
  status: "running",
  head: 1,
  created_at: 1,
  ...more,
});

export const event = (seq: number, name: string, data: Json = {}, more: Json = {}): Json => ({
  type: "event",
  task_id: "t1",
  seq,
  ts: seq,
  event: name,
  data,
  ...more,
});

export const token = (seq: number, text = `${seq} `, more: Json = {}) =>
  event(seq, "token", { text }, more);

export const completed = (seq: number, output = "done") => event(seq, "task.completed", { output });

/** Takes all that an iterator gives, until it ends. */
export async function gather<T>(iterable: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of iterable) all.push(each);
  return all;
}
