/**
 * @holdfast/client/sse -- the protocol over plain HTTP, for networks that block WebSockets.
 *
 * It imitates a socket: each line that is sent becomes a request, each followed task a stream of
 * Server-Sent Events.  It polls every few seconds for what a WebSocket would be told unasked
 * (`open`, `watch`).  HTTP does not give the list of agents and the limits.
 */

import { newId } from "./id.js";
import { isTerminal, type TaskEvent } from "./wire.js";

type Json = Record<string, any>;

export interface HttpOptions {
  /** How often opened or watched things are polled. */
  pollMs?: number | undefined;
}

const POLL_MS = 3_000;
const PAGE = 50;
const OK = { type: "ok" };

const queryOf = ({ limit, before, status, tree }: Json): string => {
  const given = Object.entries({ limit, before, status, tree }).filter(([, value]) => value !== undefined);
  return given.length > 0 ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
};

/** The token's subject, as it says itself; the gateway has checked it. */
function subjectOf(token: string): string {
  try {
    return String(JSON.parse(atob(token.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/"))).sub);
  } catch {
    return "";
  }
}

/** The events of a stream as they arrive: name, data. */
async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<[string, Json]> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop()!;
    for (const block of blocks) {
      const fields = new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
      const data = fields.get("data");
      if (data) yield [fields.get("event") ?? "message", JSON.parse(data)];
    }
  }
}

/** Passes only what differs from the last time. */
class Seen {
  #known = new Map<string, string>();

  fresh<T>(all: readonly T[], idOf: (each: T) => string): T[] {
    return all.filter((each) => {
      const text = JSON.stringify(each);
      if (this.#known.get(idOf(each)) === text) return false;
      this.#known.set(idOf(each), text);
      return true;
    });
  }

  /** Those that existed and are gone. */
  gone(ids: ReadonlySet<string>): string[] {
    const gone = [...this.#known.keys()].filter((id) => !ids.has(id));
    for (const id of gone) this.#known.delete(id);
    return gone;
  }
}

class HttpSocket {
  readyState = 0;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onerror: (() => void) | null = null;
  #base: string;
  #pollMs: number;
  #token = "";
  #last: Promise<unknown> = Promise.resolve(); // requests go one after another, as over a socket
  #end = new AbortController();
  #streams = new Map<string, AbortController>();
  #polls = new Map<string, () => void>(); // by conversation, " " for the list; each ends one
  #looks = new Set<() => void>(); // each polls now

  constructor(url: string, { pollMs = POLL_MS }: HttpOptions) {
    this.#base = url.replace(/^ws/, "http").replace(/\/ws$/, "");
    this.#pollMs = pollMs;
    queueMicrotask(() => {
      if (this.readyState !== 0) return;
      this.readyState = 1;
      this.onopen?.();
    });
  }

  send(text: string): void {
    for (const line of text.split("\n").filter(Boolean)) {
      this.#last = this.#last.then(() => this.#take(JSON.parse(line)));
    }
  }

  close(): void {
    this.readyState = 3;
    this.#end.abort();
    for (const end of this.#polls.values()) end();
  }

  #lose(code: number): void {
    if (this.readyState === 3) return;
    this.close();
    this.onclose?.({ code });
  }

  #tell(line: Json): void {
    if (this.readyState === 1) this.onmessage?.({ data: JSON.stringify(line) });
  }

  // ---- requests

  async #take(asked: Json): Promise<void> {
    const { id, type } = asked;
    if (this.readyState !== 1) return;
    try {
      const reply = await (type === "hello" ? this.#hello(asked) : this.#carryOut(asked));
      this.#tell({ ...reply, id });
      if (reply.code === "unauthorized") this.#lose(4401);
      else if (reply.type === "started") this.#follow(reply["task"], 0);
    } catch {
      this.#lose(1006);
    }
  }

  async #ask(method: string, path: string, body?: Json, headers: Record<string, string> = {}): Promise<Json> {
    const response = await fetch(this.#base + path, {
      method,
      headers: {
        ...(this.#token && { authorization: `Bearer ${this.#token}` }),
        ...(body && { "content-type": "application/json" }),
        ...headers,
      },
      body: body && JSON.stringify(body),
      signal: this.#end.signal,
    });
    const said: Json = await response.json();
    if (response.ok) return said;
    const wait = Number(response.headers.get("retry-after"));
    return { type: "error", ...said["error"], ...(wait > 0 && { retry_after_ms: wait * 1_000 }) };
  }

  async #hello({ token }: Json): Promise<Json> {
    this.#token = token ?? "";
    const said = token ? await this.#ask("GET", "/conversations?limit=1") : await this.#ask("POST", "/guest", {});
    if (said["type"] === "error") return said;
    this.#token ||= said["token"];
    return { type: "welcome", owner: said["owner"] ?? subjectOf(token), ...(!token && { token: said["token"] }) };
  }

  #carryOut(asked: Json): Promise<Json> | Json {
    const { type, conversation_id, task_id, id: _, ...fields } = asked;
    const tasks = `/conversations/${conversation_id}/tasks`;
    const task = `${tasks}/${task_id}`;
    switch (type) {
      case "chat": {
        const { request_key, ...body } = fields;
        const place = `/conversations/${conversation_id ?? newId()}/tasks`;
        return this.#ask("POST", place, body, request_key && { "idempotency-key": request_key });
      }
      case "resume":
        return this.#resume(task, fields["after"] ?? 0);
      case "unsubscribe":
        this.#streams.get(task_id)?.abort();
        return OK;
      case "cancel":
        return this.#ask("DELETE", task + queryOf(fields));
      case "cancel_all":
        return this.#ask("DELETE", tasks);
      case "send":
        return this.#ask("POST", `${task}/messages`, fields);
      case "respond":
        return this.#ask("POST", `${task}/responses`, fields);
      case "task":
        return this.#ask("GET", task);
      case "tasks":
        return this.#ask("GET", tasks + queryOf(fields));
      case "history":
        return this.#ask("GET", `/conversations/${conversation_id}/messages${queryOf(fields)}`);
      case "results":
        return this.#ask("GET", `/conversations/${conversation_id}/results${queryOf(fields)}`);
      case "ack":
        return this.#ask("POST", `/conversations/${conversation_id}/results/ack`, fields);
      case "conversations":
        return this.#ask("GET", `/conversations${queryOf(fields)}`);
      case "title":
        return this.#ask("PATCH", `/conversations/${conversation_id}`, fields);
      case "delete":
        return this.#ask("DELETE", `/conversations/${conversation_id}`);
      case "open":
        return this.#open(conversation_id, fields["limit"] ?? PAGE);
      case "close":
        this.#polls.get(conversation_id)?.();
        return OK;
      case "watch":
        return this.#watch();
      case "ping":
        return this.#ask("GET", "/conversations?limit=1").then((said) =>
          said["type"] === "error" ? said : { type: "pong", ts: Date.now() },
        );
      default:
        return { type: "error", code: "unsupported", message: `not over HTTP: ${type}` };
    }
  }

  // ---- a task's events

  async #resume(path: string, after: number): Promise<Json> {
    const said = await this.#ask("GET", path);
    if (said["type"] === "error") return said;
    const { task } = said;
    const head = task.head ?? 0;
    if (after > head) return { type: "error", code: "out_of_range", message: "after is beyond the head", head };
    const resumed = { type: "resumed", task, after, head };
    // If the beginning is gone the stream says so before its first event, and the reply must say it
    // too.
    const first = await new Promise<number | undefined>((resolve) => this.#follow(task, after, head, resolve));
    return first === undefined ? resumed : { ...resumed, first };
  }

  /**
   * Delivers the events after `after`; `begun` is called before the first one, or at once if none
   * must come.
   */
  #follow({ task_id, conversation_id }: Json, after: number, head = 0, begun?: (first?: number) => void): void {
    this.#streams.get(task_id)?.abort();
    const end = new AbortController();
    this.#streams.set(task_id, end);
    this.#end.signal.addEventListener("abort", () => end.abort(), { signal: end.signal });
    const isOver = () => end.signal.aborted;
    const caughtUp = () => setTimeout(() => isOver() || this.#tell({ type: "caught_up", task_id, seq: head }));
    let last = after;
    let hasEnded = false;
    const read = async () => {
      const path = `/conversations/${conversation_id}/tasks/${task_id}/events?after=${after}`;
      const headers = { authorization: `Bearer ${this.#token}`, accept: "text/event-stream" };
      const response = await fetch(this.#base + path, { headers, signal: end.signal });
      if (!response.ok || !response.body) throw new Error(`${response.status}`);
      if (response.status === 204 || after >= head) begun?.();
      if (begun && (response.status === 204 || after >= head)) caughtUp();
      if (response.status === 204) return void (hasEnded = true);
      let isBegun = after >= head;
      for await (const [name, line] of eventsOf(response.body)) {
        if (!isBegun) {
          begun?.(name === "gap" ? line["first"] : undefined);
          await new Promise((resolve) => setTimeout(resolve)); // the reply goes before its events
        }
        isBegun = true;
        if (isOver()) return;
        if (name === "gap") continue;
        this.#tell({ type: "event", ...line });
        if (begun && last < head && line["seq"] >= head) this.#tell({ type: "caught_up", task_id, seq: head });
        last = line["seq"];
        hasEnded = isTerminal(line as TaskEvent);
        if (name.startsWith("task.")) for (const look of this.#looks) look();
      }
    };
    void read().then(
      () => hasEnded || isOver() || this.#lose(1006),
      () => isOver() || this.#lose(1006),
    );
  }

  // ---- lines that a WebSocket would be told

  /** Polls again and again; a failure ends the connection, like that of a request. */
  #poll(key: string, look: () => Promise<void>): void {
    this.#polls.get(key)?.();
    let timer: ReturnType<typeof setTimeout>;
    let isWanted = true;
    const now = () => {
      clearTimeout(timer);
      if (!isWanted) return;
      timer = setTimeout(now, this.#pollMs);
      this.#last = this.#last.then(() => (isWanted ? look() : undefined)).catch(() => this.#lose(1006));
    };
    this.#looks.add(now);
    timer = setTimeout(now, this.#pollMs);
    this.#polls.set(key, () => {
      isWanted = false;
      clearTimeout(timer);
      this.#looks.delete(now);
      this.#polls.delete(key);
    });
  }

  async #open(conversation_id: string, limit: number): Promise<Json> {
    const messagesSeen = new Seen();
    const tasksSeen = new Seen();
    const look = async () => {
      const [history, tasks] = await Promise.all([
        this.#ask("GET", `/conversations/${conversation_id}/messages?limit=${limit}`),
        this.#ask("GET", `/conversations/${conversation_id}/tasks?limit=${limit}`),
      ]);
      const error = [history, tasks].find(({ type }) => type === "error");
      return {
        error,
        messages: messagesSeen.fresh<Json>(history["messages"] ?? [], (each) => each["message_id"]),
        tasks: tasksSeen.fresh<Json>(tasks["tasks"] ?? [], (each) => each["task_id"]),
      };
    };
    const { error, messages, tasks } = await look();
    if (error) return error;
    this.#poll(conversation_id, async () => {
      const news = await look();
      for (const task of news.tasks) this.#tell({ type: "task", task });
      for (const message of news.messages) this.#tell({ type: "message", conversation_id, message });
    });
    return { type: "conversation", conversation_id, messages, tasks };
  }

  async #watch(): Promise<Json> {
    const seen = new Seen();
    const look = async () => {
      const { conversations = [], more } = await this.#ask("GET", `/conversations?limit=${PAGE}`);
      const idOf = ({ conversation_id }: Json) => conversation_id as string;
      const fresh = seen.fresh<Json>(conversations, idOf);
      const gone = more ? [] : seen.gone(new Set(conversations.map(idOf)));
      return [
        ...fresh.map((conversation) => ({ conversation })),
        ...gone.map((conversation_id) => ({ conversation: { conversation_id }, deleted: true })),
      ];
    };
    await look();
    this.#poll(" ", async () => {
      for (const news of await look()) this.#tell({ type: "conversation_changed", ...news });
    });
    return OK;
  }
}

/** Everything over HTTP: `connect(url, { WebSocket: overHttp() })`. */
export function overHttp(options: HttpOptions = {}): typeof WebSocket {
  return class extends HttpSocket {
    constructor(url: string) {
      super(url, options);
    }
  } as unknown as typeof WebSocket;
}

/**
 * A WebSocket, and HTTP for the attempt after one that was never open:
 * `connect(url, { WebSocket: withFallback() })`.  After a break the WebSocket is tried first again.
 */
export function withFallback(options: HttpOptions & { WebSocket?: unknown } = {}): typeof WebSocket {
  const Plain = (options.WebSocket ?? globalThis.WebSocket) as typeof WebSocket | undefined;
  const Http = overHttp(options);
  let isBlocked = !Plain;
  return function (url: string, protocol: string) {
    if (isBlocked) {
      isBlocked = !Plain;
      return new Http(url, protocol);
    }
    const socket = new Plain!(url, protocol);
    let wasOpen = false;
    socket.addEventListener("open", () => (wasOpen = true));
    socket.addEventListener("close", () => (isBlocked = !wasOpen));
    return socket;
  } as unknown as typeof WebSocket;
}
