/** client.ts -- one user's view of one gateway: routes lines to tasks and conversations. */

import type { BackoffOptions } from "./backoff.js";
import { Connection, type Link, type LinkEvents, type Status } from "./connection.js";
import { Conversation } from "./conversation.js";
import { HoldfastError, ownerChanged } from "./errors.js";
import type { Faults } from "./faults.js";
import { newId } from "./id.js";
import { ConversationList } from "./list.js";
import { Observable } from "./observable.js";
import { Outbox, type Outgoing } from "./outbox.js";
import { Requests, type Asked } from "./requests.js";
import { ForgivingStore, IndexedStore, type Store } from "./store.js";
import type { Task } from "./task.js";
import { FetchedTokens, GuestTokens, type FetchToken, type TokenSource } from "./token.js";
import type { diagnose, Trouble } from "./trouble.js";
import type { Agent, Line, Message, Replies, RequestFields, TaskSummary, Verb, Welcome } from "./wire.js";

export interface Options {
  /**
   * A token, or a function that fetches one; without it the client is a guest, and keeps its own
   * token.
   */
  token?: string | FetchToken | undefined;
  /** The signed-in user, under any name: different users of a browser share nothing. */
  user?: string | undefined;
  /** One socket for all tabs; the default in browsers that support it. */
  share?: boolean | undefined;
  /** The storage for unsent messages and guests' tokens: IndexedDB, or memory without it. */
  store?: Store | undefined;
  /** For Node before 22: the WebSocket of the package `ws`. */
  WebSocket?: unknown;
  backoff?: BackoffOptions | undefined;
  /** Injected faults, to see how a page handles them; true reads them from the page's `?fault=`. */
  faults?: Faults | boolean | undefined;
  /** Logs each line and each change of the connection: to the console, or to a function. */
  debug?: (boolean | ((line: string) => void)) | undefined;
  /**
   * `diagnose` of `@holdfast/client/trouble`: for a page that comes from the gateway itself, since
   * otherwise the module is loaded when there is trouble.
   */
  diagnose?: typeof diagnose | undefined;
  /** Text of live tasks comes joined, at most once in so many milliseconds: for phones; not even `exact` events undo it. */
  rollupMs?: number | undefined;
  /** The client's name for the gateway. */
  client?: { name: string; version?: string } | undefined;
}

const NOT = () => {};
const FEW = 3; // attempts: one may fail anywhere
const LOOK_AGAIN_MS = 1_000;

export class Client extends Observable {
  /** The gateway's description of itself and of this client; null before the first connection. */
  welcome: Welcome | null = null;
  readonly conversations: ConversationList;

  /** @internal */ readonly following = new Map<string, Task>();
  /** @internal */ readonly outgoing: Outbox;
  /** @internal Tabs may have the same connection. */ shares = false;
  /** @internal */ watcher?: { welcomed(): void; take(line: { type: string }): void };
  /** @internal */ readonly rollup: { rollup_ms?: number };

  #status: Status = { state: "connecting", retryAt: 0, error: null, trouble: null };
  #link: Link | undefined;
  #debug: (line: string) => void;
  #warned = false;
  #requests = new Requests((text) => {
    this.#debug(`> ${text}`);
    this.#link!.send(text);
  });
  #conversations = new Map<string, Conversation>();
  #closed = false;
  #unlisten: () => void;

  /** @internal */
  constructor(url: string, options: Options) {
    super();
    const plain = (options.WebSocket ?? globalThis.WebSocket) as typeof WebSocket;
    if (!plain) {
      const hint = "no WebSocket: pass { WebSocket } of package ws";
      throw new HoldfastError("no_websocket", hint);
    }
    const { debug = false, rollupMs } = options;
    this.rollup = rollupMs ? { rollup_ms: rollupMs } : {};
    this.#debug = debug === true ? (line) => console.debug("holdfast", line) : debug || NOT;
    const store = new ForgivingStore(options.store ?? new IndexedStore());
    const place = `${url} ${options.user ?? ""}`;
    this.conversations = new ConversationList(this);
    this.outgoing = new Outbox(this, store, place);
    this.#unlisten = onWake(() => this.#link?.wake());
    void this.#connect(url, options, plain, place, tokensOf(options, store, place));
  }

  get state() {
    return this.#status.state;
  }

  /** When the next attempt is due, in the states `waiting` and `offline`. */
  get retryAt(): number {
    return this.#status.retryAt;
  }

  /** Why it is closed; null if `close()` closed it. */
  get error(): HoldfastError | null {
    return this.#status.error;
  }

  /** Why it does not connect, and what to do; null while it is live. */
  get trouble(): Trouble | null {
    return this.#status.trouble;
  }

  /** @internal */
  get reason(): HoldfastError {
    return this.error ?? new HoldfastError("closed", "client closed");
  }

  get owner(): string | null {
    return this.welcome?.owner ?? null;
  }

  get agents(): readonly Agent[] {
    return this.welcome?.agents ?? [];
  }

  /** Messages that are not known to have started, in the order in which they were asked. */
  get outbox(): readonly Outgoing[] {
    return this.outgoing.items;
  }

  /** The conversation with this id; a new one without. */
  conversation(id: string = newId()): Conversation {
    let conversation = this.#conversations.get(id);
    if (!conversation) this.#conversations.set(id, (conversation = new Conversation(this, id)));
    return conversation;
  }

  task(conversationId: string, taskId: string): Task {
    return this.conversation(conversationId).task(taskId);
  }

  /**
   * Sends any request of the protocol.  It waits for a connection; a kept request is sent again
   * when its connection is lost, so it must be safe to repeat.
   */
  request<T extends Verb>(
    type: T,
    fields: RequestFields[T],
    { kept = true } = {},
  ): Promise<Replies[T]> {
    return new Promise((onReply, onError) => this.ask(type, fields, { kept, onReply, onError }));
  }

  /** Connects at once, even if the gateway has told the client never to come back. */
  retry(): void {
    if (!this.#closed) this.#link?.retry();
  }

  /**
   * Ends the connection and all waiting requests; messages in the outbox stay for the next
   * time.
   */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#unlisten();
    if (this.#link) this.#link.close();
    else this.#events.onStatus({ state: "closed", retryAt: 0, error: null, trouble: null });
  }

  // ---- for tasks, conversations and the outbox

  /** @internal */
  ask<T extends Verb>(type: T, fields: RequestFields[T], asked: Asked<T>): () => void {
    const takeBack = this.#requests.ask(type, fields, asked);
    if (this.state === "closed") this.#requests.drop(this.reason, this.#closed);
    return takeBack;
  }

  /** @internal */
  meet(summary: TaskSummary): Task {
    const task = this.task(summary.conversation_id, summary.task_id);
    task.meet(summary);
    return task;
  }

  /** @internal */
  outgoingChanged(one: Outgoing): void {
    this.#conversations.get(one.conversationId)?.changed();
    this.changed();
  }

  // ---- the link

  async #connect(
    url: string,
    options: Options,
    plain: typeof globalThis.WebSocket,
    place: string,
    tokens: TokenSource,
  ): Promise<void> {
    const { backoff, client, faults, share = canShare() } = options;
    this.shares = share && plain === globalThis.WebSocket; // at once; then what faults leave of it
    const WebSocket = faults ? (await import("./faults.js")).faulty(faults, plain) : plain;
    this.shares = share && WebSocket === globalThis.WebSocket;
    const shared = this.shares && (await import("./shared.js").catch(() => undefined));
    if (this.#closed) return;
    const its = { url, backoff, client };
    this.#link = shared
      ? new shared.SharedLink(this.#requests.prefix, place, its, tokens, this.#events)
      : new Connection({ ...its, WebSocket }, tokens, this.#events, options.diagnose);
  }

  #events: LinkEvents = {
    onStatus: (status) => {
      const { state } = this.#status;
      this.#status = status;
      this.#tell(status);
      if (state === "live") {
        this.#requests.lost();
        for (const task of this.following.values()) task.reconnected(false);
      }
      if (status.state === "closed") {
        // Nobody will answer; messages in the outbox may yet be sent, unless the client itself is
        // closed.
        this.#requests.drop(this.reason, this.#closed);
        for (const task of this.following.values()) task.closed(this.reason);
      }
      this.changed();
    },
    onWelcome: (line) => {
      if (this.welcome && this.welcome.owner !== line.owner) {
        // Somebody else is signed in.
        this.#requests.drop(ownerChanged(), false);
        this.following.clear();
        for (const conversation of this.#conversations.values()) conversation.forget();
        this.conversations.forget();
      }
      this.welcome = line;
      this.outgoing.welcomed();
      this.#requests.connected(line.limits?.message_bytes);
      this.conversations.reconnected();
      for (const conversation of this.#conversations.values()) conversation.reconnected();
      for (const task of this.following.values()) task.reconnected(true);
      this.watcher?.welcomed();
      this.changed();
    },
    onLines: (lines) => lines.forEach((line) => this.#take(line)),
  };

  /** Tells a developer the state; and tells anybody, once, why there was never a connection. */
  #tell({ state, trouble, retryAt }: Status): void {
    const wait = retryAt ? `, again in ${Math.max(0, Math.round(retryAt - Date.now()))} ms` : "";
    this.#debug(`${state}${wait}${trouble ? `: ${trouble.cause}, ${trouble.code} ${trouble.message}` : ""}`);
    if (this.#warned || this.welcome || !trouble || trouble.cause === "unknown") return;
    if (trouble.attempts < FEW && state !== "closed") return;
    this.#warned = true;
    console.warn(`holdfast: ${trouble.message}`);
  }

  #take(line: Line): void {
    if (this.#debug !== NOT) this.#debug(`< ${JSON.stringify(line)}`);
    if (line.id !== undefined) return this.#requests.settle(line.id, line);
    if (/^(event|following|cursor)$/.test(line.type)) this.watcher?.take(line);
    switch (line.type) {
      case "event":
        this.following.get(line.task_id)?.take(line);
        break;
      case "caught_up":
        this.following.get(line.task_id)?.caughtUp();
        break;
      case "task":
        this.#conversations.get(line.task.conversation_id)?.pushed(line.task);
        break;
      case "message":
      case "branch":
        this.#conversations.get(line.conversation_id)?.said((line as { message?: Message }).message);
        break;
      case "conversation_changed":
        this.conversations.pushed(line.conversation, line.deleted);
        if (line.deleted) this.#conversations.get(line.conversation.conversation_id)?.forget();
        break;
      case "error":
        if (line.code !== "not_found" && line.code !== "internal") break;
        // Events of a followed task will not come; the line does not name the task.
        setTimeout(() => {
          for (const task of this.following.values()) task.reconnected(true);
        }, LOOK_AGAIN_MS);
    }
  }
}

function tokensOf({ token }: Options, store: Store, place: string): TokenSource {
  if (token === undefined) return new GuestTokens(store, `${place} guest`);
  return new FetchedTokens(typeof token === "string" ? () => token : token);
}

/** Only a page has other tabs; only with locks can they tell which of them still exist. */
const canShare = (): boolean =>
  Boolean(globalThis.document && globalThis.BroadcastChannel && globalThis.navigator?.locks);

/** Calls back when the network or the user may have come back, or gone. */
function onWake(wake: () => void): () => void {
  const ending = new AbortController();
  for (const name of ["online", "offline", "pageshow"]) {
    globalThis.addEventListener?.(name, wake, ending);
  }
  const shown = () => document.hidden || wake();
  globalThis.document?.addEventListener("visibilitychange", shown, ending);
  return () => ending.abort();
}
