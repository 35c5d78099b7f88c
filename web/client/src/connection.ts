/**
 * connection.ts -- one connection to the gateway, kept alive: hello and tokens, reconnecting after
 * every close that allows it, detecting sockets that died silently.
 *
 *            ┌──────────────── wake, or the wait is over ───────────────┐
 *            ▼                                                          │
 *       connecting ──welcome──▶ live ──close, no answer to a ping──▶ waiting (offline: no network)
 *            │                    │
 *            └── never come back ─┴──▶ closed ──retry──▶ connecting
 */

import { Backoff, type BackoffOptions } from "./backoff.js";
import { now } from "./clock.js";
import { HoldfastError } from "./errors.js";
import type { TokenSource } from "./token.js";
import type { diagnose, Trouble } from "./trouble.js";
import { SUBPROTOCOL, type Line, type Welcome } from "./wire.js";

const STEADY_MS = 10_000; // after a connection this long, the next wait is a first one
const WELCOME_MS = 15_000; // from the first step of an attempt to welcome
const PROBE_MS = 4_000; // for anything at all to arrive after a ping
const QUIET_MS = 25_000; // a visible page that has heard nothing for this long asks
const RENEW_MS = 10_000; // between two tokens of one connection: short ones expire at once
const REFUSALS = 3; // after this many refused tokens in a row, the token is not the cause
const FAILURES = 3; // after this many failed attempts in a row, look for the cause

const HELLO = "hello"; // the ids of our hello and of our ping, unlike those of requests
const PING = "ping";

export type State = "connecting" | "live" | "waiting" | "offline" | "closed";

export interface Status {
  state: State;
  /** When the next attempt is due, in `waiting` and `offline`. */
  retryAt: number;
  /** Why it is closed. */
  error: HoldfastError | null;
  /** The trouble with the attempts; null while it is live. */
  trouble: Trouble | null;
}

export interface Link {
  /** Sends lines; call it only after being told that the connection is live. */
  send(text: string): void;
  /**
   * Something may have changed: reconnects at once, or checks whether the socket is still
   * alive.
   */
  wake(): void;
  /** The user asks for it: works even after a close that ended all attempts. */
  retry(): void;
  close(): void;
}

export interface LinkEvents {
  onStatus(status: Status): void;
  onWelcome(line: Welcome): void;
  onLines(lines: Line[]): void;
}

export interface ConnectionOptions {
  url: string;
  backoff?: BackoffOptions;
  WebSocket?: typeof WebSocket;
  client?: { name: string; version?: string };
}

/** Most connections never need it; without a network it cannot be had, and that is the cause. */
const onDemand: typeof diagnose = async (url) => {
  try {
    return await (await import("./trouble.js")).diagnose(url);
  } catch (error) {
    if (globalThis.navigator?.onLine !== false) throw error;
    return { cause: "route", message: "there is no network" };
  }
};

export class Connection implements Link {
  #options: ConnectionOptions;
  #tokens: TokenSource;
  #events: LinkEvents;
  #backoff: Backoff;
  #status: Status = { state: "closed", retryAt: 0, error: null, trouble: null };
  #attempt: object = {}; // events of another attempt are ignored
  #socket: WebSocket | undefined;
  #timer: Timer; // welcome overdue, next attempt, or silence
  #probe: Timer;
  #heardAt = 0;
  #since = 0; // when it entered its state
  #renewal: Timer; // of the token
  #renewAt = 0; // not before
  #token: string | undefined; // sent with hello
  #stale: string | undefined; // refused, or expired
  #reason: string | undefined; // why it was refused
  #refusals = 0;
  #goawayMs: number | undefined;
  #retryMs = 0; // from the last error of this socket
  #trouble: Trouble | null = null;
  #said = ""; // the socket's message when it failed

  constructor(
    options: ConnectionOptions,
    tokens: TokenSource,
    events: LinkEvents,
    private readonly diagnose = onDemand,
  ) {
    this.#options = options;
    this.#tokens = tokens;
    this.#events = events;
    this.#backoff = new Backoff(options.backoff);
    void this.#open();
  }

  send(text: string): void {
    if (this.#status.state === "live") this.#socket!.send(text);
  }

  wake(): void {
    const { state } = this.#status;
    const begun = state === "connecting" && now() - this.#since <= PROBE_MS;
    if (state === "live") this.#ask();
    else if (state !== "closed" && !begun) void this.#open();
  }

  retry(): void {
    const { state } = this.#status;
    if (state === "live" || state === "connecting") return;
    this.#backoff.reset();
    this.#refusals = 0;
    void this.#open();
  }

  close(): void {
    this.#end(null);
  }

  // ---- an attempt

  async #open(): Promise<void> {
    const attempt = this.#abandon();
    this.#set("connecting");
    this.#timer = setTimeout(() => this.#closed(0), WELCOME_MS);
    try {
      const token = await this.#tokens.get(this.#stale, this.#reason);
      if (attempt !== this.#attempt) return;
      this.#token = token;
    } catch (error) {
      if (attempt !== this.#attempt) return;
      if ((error as HoldfastError | undefined)?.code === "unauthorized")
        return this.#end(error as HoldfastError);
      this.#note(0, String((error as Error | undefined)?.message ?? error), "token");
      return this.#wait(this.#backoff.next());
    }
    try {
      this.#dial(attempt);
    } catch (error) {
      this.#end(new HoldfastError("bad_url", String(error)));
    }
  }

  #dial(attempt: object): void {
    const socket = new (this.#options.WebSocket ?? WebSocket)(this.#options.url, SUBPROTOCOL);
    const current = () => attempt === this.#attempt;
    this.#socket = socket;
    socket.onopen = () => current() && this.#hello();
    socket.onmessage = ({ data }) => current() && this.#read(String(data), current);
    socket.onclose = ({ code, reason }) => current() && this.#closed(code, reason || this.#said);
    this.#said = "";
    socket.onerror = (event) => (this.#said = (event as ErrorEvent | undefined)?.message ?? ""); // a close follows
  }

  #hello(): void {
    const { client = { name: "@holdfast/client" } } = this.#options;
    this.#socket!.send(JSON.stringify({ type: "hello", id: HELLO, token: this.#token, client }));
  }

  #read(data: string, current: () => boolean): void {
    this.#heardAt = now();
    clearTimeout(this.#probe);
    this.#probe = undefined;
    let lines: Line[] = [];
    for (const text of data.split("\n")) {
      const line = text && parse(text);
      if (!line) continue;
      if (line.type === "welcome") void this.#welcomed(line);
      else if (!this.#isMine(line)) lines.push(line);
    }
    if (lines.length > 0 && current()) this.#events.onLines(lines);
  }

  /** Handles lines for the connection itself. */
  #isMine(line: Line): boolean {
    if (line.type === "goaway") this.#goawayMs = line.retry_after_ms;
    if (line.type === "token_expiring") {
      this.#renewal = setTimeout(() => this.#renew(), this.#renewAt - now());
    }
    if (line.type === "error") {
      if (line.code === "rate_limited") this.#retryMs = line.retry_after_ms ?? this.#retryMs;
      if (line.id === HELLO) this.#reason = line.message;
    }
    return line.id === HELLO || line.id === PING;
  }

  async #welcomed(line: Welcome): Promise<void> {
    if (this.#status.state === "live") return; // the answer to a second hello
    const attempt = this.#attempt;
    if (line.token && !this.#token) {
      const kept = await this.#tokens.keep(line.token).catch(() => line.token);
      if (attempt !== this.#attempt) return;
      if (kept !== line.token) return this.#open(); // another tab was first: we become its guest
      this.#token = kept;
    }
    clearTimeout(this.#timer);
    this.#refusals = 0;
    this.#stale = this.#reason = undefined;
    this.#trouble = null;
    this.#set("live");
    this.#listen();
    this.#events.onWelcome(line);
  }

  /** A second hello, with a fresh token. */
  async #renew(): Promise<void> {
    const attempt = this.#attempt;
    this.#renewAt = now() + RENEW_MS;
    const token = await this.#tokens.get(this.#token, "token_expiring").catch(() => undefined);
    if (attempt !== this.#attempt || !token) return; // the close will tell
    this.#token = token;
    this.#hello();
  }

  /** Drops the socket: the closing handshake of a dead one takes minutes. */
  #abandon(): object {
    clearTimeout(this.#timer);
    clearTimeout(this.#probe);
    clearTimeout(this.#renewal);
    this.#attempt = {};
    this.#socket?.close();
    this.#probe = this.#socket = this.#goawayMs = undefined;
    this.#retryMs = 0;
    return this.#attempt;
  }

  // ---- after a close

  #closed(code: number, reason = ""): void {
    this.#note(code, reason);
    if (this.#status.state === "live" && now() - this.#since >= STEADY_MS) this.#backoff.reset();
    switch (code) {
      case 1007:
      case 1008:
        return this.#end(new HoldfastError("closed", `refused: ${code}`));
      case 1009:
        if (this.#status.state === "live") break;
        return this.#end(new HoldfastError("too_large", "token too large"));
      case 1001:
        if (this.#goawayMs === undefined) break;
        return this.#wait(Math.random() * this.#goawayMs);
      case 4401:
        return this.#unauthorized();
      case 4429:
        return this.#wait(Math.max(this.#retryMs, this.#backoff.next()));
    }
    this.#wait(this.#backoff.next());
  }

  #unauthorized(): void {
    this.#stale = this.#token;
    if (this.#reason !== undefined && (!this.#token || ++this.#refusals >= REFUSALS)) {
      return this.#end(new HoldfastError("unauthorized", this.#reason));
    }
    this.#wait(this.#backoff.next());
  }

  /** Records a failure; after some in a row, looks for the cause. */
  #note(code: number, reason: string, cause: Trouble["cause"] = "unknown"): void {
    const was = this.#trouble;
    const attempts = this.#status.state === "live" ? 0 : (was?.attempts ?? 0) + 1;
    const known = was && was.cause !== "unknown" && cause === "unknown" ? was : null;
    const message = known?.message ?? (reason || (code ? `closed with ${code}` : "no answer"));
    this.#trouble = { cause: known?.cause ?? cause, message, code, reason, at: Date.now(), attempts };
    if (cause === "unknown" && attempts > 0 && attempts % FAILURES === 0) void this.#lookInto();
  }

  async #lookInto(): Promise<void> {
    const found = await this.diagnose(this.#options.url).catch(() => null);
    if (!found || !this.#trouble || this.#status.state === "closed") return;
    this.#trouble = { ...this.#trouble, ...found };
    this.#status = { ...this.#status, trouble: this.#trouble };
    this.#events.onStatus(this.#status);
  }

  #wait(ms: number): void {
    this.#abandon();
    this.#timer = setTimeout(() => this.#open(), ms);
    // The browser only guesses, and the gateway may be on this very machine, so attempts continue.
    const offline = globalThis.navigator?.onLine === false;
    this.#set(offline ? "offline" : "waiting", Date.now() + ms);
  }

  #end(error: HoldfastError | null): void {
    this.#abandon();
    this.#stale = this.#reason = undefined;
    if (error?.code === "unauthorized") this.#note(4401, error.message, "token");
    if (!error) this.#trouble = null;
    this.#set("closed", 0, error);
  }

  #set(state: State, retryAt = 0, error: HoldfastError | null = null): void {
    this.#status = { state, retryAt, error, trouble: this.#trouble };
    this.#since = now();
    this.#events.onStatus(this.#status);
  }

  // ---- half-open sockets

  /** Nothing was heard for long: asks, if anybody is looking. */
  #listen(): void {
    const quiet = now() - this.#heardAt;
    if (quiet >= QUIET_MS && !globalThis.document?.hidden) this.#ask();
    this.#timer = setTimeout(() => this.#listen(), QUIET_MS - (quiet % QUIET_MS));
  }

  /**
   * Sends a ping, and something must arrive soon: a browser never reports a socket that died
   * silently.
   */
  #ask(): void {
    if (this.#probe !== undefined) return;
    this.#probe = setTimeout(() => this.#closed(0), PROBE_MS);
    this.#socket!.send(JSON.stringify({ type: "ping", id: PING }));
  }
}

type Timer = ReturnType<typeof setTimeout> | undefined;

/**
 * A line that is not JSON is the gateway's fault; it must not affect the lines that came with
 * it.
 */
function parse(text: string): Line | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return void console.error("bad line:", text);
  }
}
