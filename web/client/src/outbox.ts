/**
 * outbox.ts -- the user's questions that the gateway has not confirmed.
 *
 * A question is stored before it is sent, and until `started` comes; a reloaded page, or another
 * tab, sends those that a closed one left.  The request key makes one task of it, however often it
 * is sent; a lock, where locks are supported, lets only one tab send it at a time.
 */

import type { Client } from "./client.js";
import { HoldfastError, ownerChanged } from "./errors.js";
import { newId } from "./id.js";
import { Observable } from "./observable.js";
import type { Store } from "./store.js";
import type { Task } from "./task.js";
import type { RequestFields } from "./wire.js";

export type ChatRequest = RequestFields["chat"] & { conversation_id: string; request_key: string };

interface Kept {
  request: ChatRequest;
  askedAt: number;
  owner: string | null;
}

const isGuest = (owner: string) => owner.startsWith("guest-");

export type OutgoingState = "queued" | "sent" | "started" | "failed";

export class Outgoing extends Observable {
  state: OutgoingState = "queued";
  /** Why it failed; or why it still waits, when the gateway has no room. */
  error: HoldfastError | null = null;
  task: Task | null = null;
  /** The task that answers; rejects when it fails or is discarded. */
  readonly started: Promise<Task>;

  /** @internal */ resolve!: (task: Task) => void;
  /** @internal */ reject!: (error: HoldfastError) => void;
  /** @internal */ takeBack = (): void => {};

  /** @internal */
  constructor(
    readonly request: Readonly<ChatRequest>,
    readonly askedAt: number,
    /** @internal */ readonly owner: string | null,
    private readonly outbox: Outbox,
  ) {
    super();
    this.started = new Promise((resolve, reject) => Object.assign(this, { resolve, reject }));
    this.started.catch(() => {});
  }

  get key(): string {
    return this.request.request_key;
  }

  get text(): string {
    const message = this.request.message as any; // a string has no `map`, and a file no `text`
    return message.map?.(({ text }: { text?: string }) => text).join("") ?? message;
  }

  get conversationId(): string {
    return this.request.conversation_id;
  }

  /** Sends a failed one again; returns its replacement. */
  retry(): Outgoing {
    if (this.state !== "failed") return this;
    this.outbox.remove(this);
    return this.outbox.add(this.request);
  }

  /** Forgets it.  If it was sent already it may have started. */
  discard(): void {
    this.outbox.discard(this);
  }

  /** @internal */
  become(state: OutgoingState, error: HoldfastError | null = null): void {
    this.state = state;
    this.error = error;
    this.changed();
  }
}

export class Outbox {
  #client: Client;
  #store: Store;
  #place: string;
  #items: Outgoing[] = [];
  #lastAskedAt = 0;

  /** @param place where it is stored: one for each gateway and user */
  constructor(client: Client, store: Store, place: string) {
    this.#client = client;
    this.#store = store;
    this.#place = `${place} asked `;
    void this.#load();
  }

  get items(): readonly Outgoing[] {
    return this.#items;
  }

  add(request: Omit<ChatRequest, "request_key"> & { request_key?: string }): Outgoing {
    this.#lastAskedAt = Math.max(Date.now(), this.#lastAskedAt + 1);
    const kept: Kept = {
      request: { ...request, request_key: request.request_key ?? newId() },
      askedAt: this.#lastAskedAt,
      owner: this.#client.owner,
    };
    const one = this.#show(kept);
    const keeping = this.#store.put(this.#keyOf(one), kept);
    void this.#alone(one, async () => {
      await keeping;
      await this.#send(one);
    });
    return one;
  }

  discard(one: Outgoing): void {
    one.takeBack();
    this.remove(one);
    one.reject(new HoldfastError("discarded", "discarded"));
    void this.#forget(one);
  }

  remove(one: Outgoing): void {
    this.#items = this.#items.filter((other) => other !== one);
    this.#client.outgoingChanged(one);
  }

  /**
   * Now it is known who is signed in: other users' questions stay stored for them, and are not
   * shown.
   */
  welcomed(): void {
    for (const one of this.#items) {
      if (!this.#isForeign(one)) continue;
      one.takeBack();
      one.become("failed", ownerChanged());
      one.reject(one.error!);
      this.remove(one);
    }
  }

  #isForeign({ owner }: { owner: string | null }): boolean {
    const now = this.#client.owner;
    if (!owner || !now || owner === now) return false;
    return !isGuest(owner) || !isGuest(now); // a guest who got a new name is still the same person
  }

  async #load(): Promise<void> {
    const all = await this.#store.list<Kept>(this.#place);
    for (const kept of all.sort((a, b) => a.askedAt - b.askedAt)) {
      if (this.#items.some(({ key }) => key === kept.request.request_key)) continue;
      if (this.#isForeign(kept)) continue;
      const one = this.#show(kept);
      void this.#alone(one, async () => {
        const kept = await this.#store.list(this.#keyOf(one));
        if (kept.length > 0) await this.#send(one);
        else this.remove(one); // another tab has sent it
      });
    }
  }

  #show({ request, askedAt, owner }: Kept): Outgoing {
    const one = new Outgoing(request, askedAt, owner, this);
    this.#items = [...this.#items, one];
    this.#client.outgoingChanged(one);
    return one;
  }

  /** Holds the lock of this message until `body` is done. */
  async #alone(one: Outgoing, body: () => Promise<void>): Promise<void> {
    const locks = globalThis.navigator?.locks;
    // A frame without storage has locks that refuse.
    await (locks?.request(`holdfast ${one.key}`, body).catch(body) ?? body());
  }

  /** Sends it until it has started or failed, or the client is closed. */
  async #send(one: Outgoing): Promise<void> {
    if (!this.#items.includes(one)) return;
    await new Promise<unknown>((settled) => {
      const takeBack = this.#client.ask("chat", { ...one.request, ...this.#client.rollup }, {
        kept: true,
        patient: true,
        onSent: (sent, why) => {
          one.become(sent ? "sent" : "queued", why);
          this.#client.outgoingChanged(one);
        },
        onReply: ({ task: summary }) => {
          one.task = this.#client.meet(summary);
          one.task.begun();
          one.become("started");
          one.resolve(one.task);
          this.remove(one);
          settled(this.#forget(one));
        },
        onError: (error) => {
          const failed = error.code !== "closed";
          settled(failed && this.#forget(one));
          one.become(failed ? "failed" : "queued", error);
          one.reject(error);
          this.#client.outgoingChanged(one);
        },
      });
      one.takeBack = () => settled(takeBack());
    });
  }

  #keyOf = (one: Outgoing): string => this.#place + one.key;

  #forget(one: Outgoing) {
    return this.#store.put(this.#keyOf(one), undefined);
  }
}
