/** shared.ts -- a tab's end of the connection that all tabs share. */

import { Connection, type ConnectionOptions, type Link, type LinkEvents } from "./connection.js";
import { HoldfastError } from "./errors.js";
import { errorOf, lead, plainOf, type ToHub, type ToTab } from "./hub.js";
import type { TokenSource } from "./token.js";
import { diagnose } from "./trouble.js";

type Said = ToHub extends infer Each ? (Each extends ToHub ? Omit<Each, "tab"> : never) : never;

const BLANK = { retryAt: 0, error: null, trouble: null };
const SILENT_MS = 5_000; // a worker that is silent this long does not run
const SAYING = 2; // version of tab-hub messages: other versions share nothing with us

export class SharedLink implements Link {
  #tab: string;
  #tokens: TokenSource;
  #events: LinkEvents;
  #ups: BroadcastChannel;
  #inbox: BroadcastChannel;
  #hub: BroadcastChannel;
  #stopLeading = () => {};
  #standIn = () => {};
  #closed = false;
  #own: Connection | undefined; // for locks that exist but refuse, as in frames without storage
  #leave!: () => void;

  /**
   * @param tab a name that no other tab has; the ids of its requests begin with it
   * @param client what tabs that share have in common
   */
  constructor(
    tab: string,
    client: string,
    options: ConnectionOptions,
    tokens: TokenSource,
    events: LinkEvents,
  ) {
    const place = `${SAYING} ${client}`;
    this.#tab = tab;
    this.#tokens = tokens;
    this.#events = events;
    this.#ups = new BroadcastChannel(place);
    this.#inbox = new BroadcastChannel(`${place} ${tab}`);
    this.#hub = new BroadcastChannel(`${place} hub`);
    const left = new Promise<void>((resolve) => (this.#leave = resolve));
    const join = () => {
      events.onStatus({ ...BLANK, state: "connecting" });
      this.#say({ kind: "join", options });
    };
    this.#inbox.onmessage = ({ data }) => this.#take(data);
    const granted = navigator.locks.request(`${place} ${tab}`, () => {
      this.#ups.onmessage = join;
      join();
      this.#host(place);
      return left;
    });
    granted.catch(() => {
      if (!this.#closed) this.#own = new Connection(options, tokens, events, diagnose);
    });
  }

  send(text: string): void {
    if (this.#own) this.#own.send(text);
    else this.#say({ kind: "send", text });
  }

  wake(): void {
    if (this.#own) this.#own.wake();
    else this.#say({ kind: "wake" });
  }

  retry(): void {
    if (this.#own) this.#own.retry();
    else this.#say({ kind: "retry" });
  }

  close(): void {
    this.#own?.close();
    this.#say({ kind: "leave" });
    this.#leave();
    this.#stopLeading();
    for (const channel of [this.#ups, this.#inbox, this.#hub]) channel.close();
    this.#closed = true;
    this.#events.onStatus({ ...BLANK, state: "closed" });
  }

  /**
   * Gives the hub a place to run: a worker that all tabs keep alive, or one of the tabs.  When the
   * worker has it, the tabs queue after it, because a worker that dies tells nobody.
   */
  #host(place: string): void {
    const here = () => {
      clearTimeout(silent);
      this.#standIn = () => {};
      if (!this.#closed) this.#stopLeading = lead(place);
    };
    const silent = setTimeout(here, SILENT_MS);
    if (typeof SharedWorker === "undefined") return here();
    this.#standIn = here;
    try {
      const worker = new SharedWorker(new URL("./worker.js", import.meta.url), { type: "module" });
      worker.onerror = () => this.#standIn();
      worker.port.postMessage(place);
    } catch {
      here();
    }
  }

  #say(what: Said): void {
    if (!this.#closed) this.#hub.postMessage({ ...what, tab: this.#tab });
  }

  #take(told: ToTab): void {
    this.#standIn();
    if (told.kind === "lines") return this.#events.onLines(told.lines);
    if (told.kind === "welcome") {
      this.#events.onStatus({ ...BLANK, state: "live" });
      return this.#events.onWelcome(told.line);
    }
    if (told.kind === "token") return void this.#answer(told);
    const { kind: _, error, ...status } = told;
    this.#events.onStatus({ ...BLANK, ...status, error: error && errorOf(error) });
  }

  async #answer({ question, method, stale, reason }: ToTab & { kind: "token" }): Promise<void> {
    try {
      const token = await (method === "get"
        ? this.#tokens.get(stale, reason)
        : this.#tokens.keep(stale!));
      this.#say({ kind: "token", question, token });
    } catch (error) {
      this.#say({ kind: "token", question, error: plainOf((error ?? {}) as HoldfastError) });
    }
  }
}
