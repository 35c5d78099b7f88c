/**
 * hub.ts -- the connection that the tabs of a browser share.  It runs in a SharedWorker, or in one
 * of the tabs; a lock decides where.  When that context ends, the next one gets the lock and sends
 * "up".
 *
 * Three kinds of BroadcastChannel, by name: PLACE hears "up"; `PLACE hub` takes messages from tabs
 * to the hub; `PLACE TAB` takes messages from the hub to a tab.  A tab holds the lock `PLACE TAB`
 * as long as it lives.
 */

import { Connection, type ConnectionOptions, type LinkEvents, type Status } from "./connection.js";
import { HoldfastError } from "./errors.js";
import type { TokenSource } from "./token.js";
import { diagnose } from "./trouble.js";
import { isTerminal, type Line, type Welcome } from "./wire.js";

const TOKEN_MS = 5_000; // for a tab to provide a token, before another one is asked

export type ToHub = { tab: string } & (
  | { kind: "join"; options: ConnectionOptions }
  | { kind: "send"; text: string }
  | { kind: "wake" | "retry" | "leave" }
  | { kind: "token"; question: number; token?: string; error?: Plain }
);

export type ToTab =
  | ({ kind: "status"; error: Plain | null } & Omit<Status, "error">)
  | { kind: "welcome"; line: Welcome } // it is live: one message, so that no tab is live as nobody
  | { kind: "lines"; lines: Line[] }
  | { kind: "token"; question: number; method: "get" | "keep"; stale?: string; reason?: string };

/** An error in a form that contexts can exchange. */
export interface Plain {
  code: string;
  message: string;
}

export const plainOf = ({ code = "", message }: HoldfastError): Plain => ({ code, message });
export const errorOf = ({ code, message }: Plain) => new HoldfastError(code, message);

/** Runs the hub here when no other context does (any more); returns a function that stops it. */
export function lead(place: string): () => void {
  let stop = () => {};
  let wanted = true;
  const stopped = new Promise<void>((resolve) => (stop = resolve));
  void stopped.then(() => (wanted = false));
  void navigator.locks.request(`${place} hub`, async () => {
    if (!wanted) return;
    const hub = new Hub(place);
    await stopped;
    hub.close();
  });
  return stop;
}

const keyOf = (task_id: string | undefined, conversation_id: string) =>
  task_id ?? ` ${conversation_id}`;

/** A tab's subscriptions, and the request that undoes it. */
type Wants = Map<
  string,
  { type: "close" | "unsubscribe"; task_id?: string; conversation_id: string }
>;

class Hub {
  #place: string;
  #inbox: BroadcastChannel;
  #tabs = new Map<string, { channel: BroadcastChannel; wants: Wants }>();
  #silent = new Set<string>(); // tabs that owe an answer: browsers freeze hidden ones
  #connection: Connection | undefined;
  #status: ToTab | undefined;
  #welcome: Welcome | undefined;
  #questions = new Map<number, (answer: { token?: string; error?: Plain }) => void>();
  #asked = 0;

  constructor(place: string) {
    this.#place = place;
    this.#inbox = new BroadcastChannel(`${place} hub`);
    this.#inbox.onmessage = ({ data }) => this.#take(data);
    const up = new BroadcastChannel(place);
    up.postMessage("up");
    up.close();
  }

  close(): void {
    this.#inbox.close();
    this.#connection?.close();
  }

  // ---- from tabs

  #take(said: ToHub): void {
    if (said.kind === "join") return this.#join(said.tab, said.options);
    if (!this.#tabs.has(said.tab)) return;
    this.#silent.delete(said.tab);
    if (said.kind === "send") this.#send(said.tab, said.text);
    else if (said.kind === "token") this.#questions.get(said.question)?.(said);
    else if (said.kind === "leave") this.#leave(said.tab);
    else this.#connection?.[said.kind]();
  }

  #join(tab: string, options: ConnectionOptions): void {
    if (!this.#tabs.has(tab)) {
      const channel = new BroadcastChannel(`${this.#place} ${tab}`);
      this.#tabs.set(tab, { channel, wants: new Map() });
      void navigator.locks.request(`${this.#place} ${tab}`, () => this.#leave(tab));
    }
    if (this.#connection) {
      return this.#tell(tab, this.#welcome ? { kind: "welcome", line: this.#welcome } : this.#status!);
    }
    const events: LinkEvents = {
      onStatus: ({ error, ...status }) => {
        const { state } = status;
        this.#status = { kind: "status", ...status, error: error && plainOf(error) };
        this.#welcome = undefined;
        if (state !== "live") this.#tellAll(this.#status); // otherwise the welcome tells it
      },
      onWelcome: (line) => {
        this.#welcome = line;
        for (const { wants } of this.#tabs.values()) wants.clear(); // they ask anew
        this.#tellAll({ kind: "welcome", line });
      },
      onLines: (lines) => this.#route(lines),
    };
    this.#connection = new Connection(options, this.#tokens, events, diagnose);
  }

  #leave(tab: string): void {
    const gone = this.#tabs.get(tab);
    if (!gone) return;
    this.#tabs.delete(tab);
    this.#silent.delete(tab);
    gone.channel.close();
    for (const [key, undo] of gone.wants) {
      if (!this.#isWanted(key)) this.#connection?.send(JSON.stringify(undo));
    }
    if (this.#tabs.size > 0) return;
    this.#connection?.close();
    this.#connection = this.#welcome = undefined;
  }

  /** Sends a request, unless it would end something that another tab still wants. */
  #send(tab: string, text: string): void {
    const { wants } = this.#tabs.get(tab)!;
    const { id, type, task_id, conversation_id, events } = JSON.parse(text);
    if (type === "watch" && events) return this.#refuse(tab, id);
    const key = keyOf(task_id, conversation_id);
    if (type === "open") wants.set(key, { type: "close", conversation_id });
    if (type === "resume") wants.set(key, { type: "unsubscribe", task_id, conversation_id });
    if (type === "close" || type === "unsubscribe") {
      wants.delete(key);
      if (this.#isWanted(key))
        return this.#tell(tab, { kind: "lines", lines: [{ type: "ok", id }] });
    }
    this.#connection?.send(text);
  }

  /** All tabs would get those events, and the next tab to ask would end them for this one. */
  #refuse(tab: string, id: string): void {
    const message = "a watch needs a connection of its own: connect(url, { share: false })";
    this.#tell(tab, { kind: "lines", lines: [{ type: "error", id, code: "unsupported", message }] });
  }

  #isWanted(key: string): boolean {
    return [...this.#tabs.values()].some(({ wants }) => wants.has(key));
  }

  // ---- to tabs

  /** Answers go to the tab that asked, everything else to all. */
  #route(lines: Line[]): void {
    for (const [tab, { wants }] of this.#tabs) {
      const its = lines.filter(({ id }) => id === undefined || id.startsWith(tab));
      if (its.length > 0) this.#tell(tab, { kind: "lines", lines: its });
      for (const line of its) {
        if (line.type === "event" && isTerminal(line)) wants.delete(line.task_id);
        if (line.type !== "started") continue;
        const { task_id, conversation_id } = line.task;
        wants.set(task_id, { type: "unsubscribe", task_id, conversation_id });
      }
    }
  }

  #tell(tab: string, what: ToTab): void {
    this.#tabs.get(tab)?.channel.postMessage(what);
  }

  #tellAll(what: ToTab): void {
    for (const tab of this.#tabs.keys()) this.#tell(tab, what);
  }

  /** Tokens come from a tab, because the application's code runs there. */
  #tokens: TokenSource = {
    get: (stale, reason) => this.#ask({ method: "get", stale, reason }),
    keep: async (token) => (await this.#ask({ method: "keep", stale: token })) ?? token,
  };

  async #ask(what: { method: "get" | "keep"; stale?: string; reason?: string }) {
    const isSilent = (tab: string) => Number(this.#silent.has(tab));
    const tabs = [...this.#tabs.keys()].reverse().sort((a, b) => isSilent(a) - isSilent(b));
    for (const tab of tabs) {
      const question = ++this.#asked;
      this.#silent.add(tab);
      const answer = await new Promise<{ token?: string; error?: Plain } | undefined>(
        (resolve) => {
          this.#questions.set(question, resolve);
          setTimeout(() => resolve(undefined), TOKEN_MS);
          this.#tell(tab, { kind: "token", question, ...what });
        },
      );
      this.#questions.delete(question);
      if (answer?.error) throw errorOf(answer.error);
      if (answer) return answer.token;
    }
    throw new Error("no tab has answered");
  }
}
