/**
 * requests.ts -- requests that were not answered yet.
 *
 * A kept request is safe to repeat: it is sent again on each connection until it is answered.  Any
 * other fails when its connection is lost.  Both wait while there is no connection, and when the
 * gateway has no room (`retry_after_ms`), up to a minute.  Patient requests keep their order
 * meanwhile: none overtakes one that waits for room.
 */

import { HoldfastError } from "./errors.js";
import { newId } from "./id.js";
import type { Line, Replies, RequestFields, Verb } from "./wire.js";

/** A longer wait is the user's decision: the store may be full until tomorrow. */
const LONGEST_WAIT_MS = 60_000;

export interface Asked<T extends Verb> {
  kept: boolean;
  /** It survives a connection that cannot be restored. */
  patient?: boolean;
  /** Called in the turn of the reply, before the lines after it are read. */
  onReply?(reply: Replies[T]): void;
  onError?(error: HoldfastError): void;
  /** It was sent; or the connection was lost, and it will be sent again. */
  onSent?(sent: boolean, why?: HoldfastError): void;
}

interface Pending extends Asked<any> {
  text: string;
  sent: boolean;
  /** Why the gateway had no room for it. */
  refused?: HoldfastError;
}

export class Requests {
  /** Ids begin with this; no other tab's do. */
  readonly prefix = `${newId().slice(0, 8)}-`;
  #pending = new Map<string, Pending>();
  #count = 0;
  #live = false;
  #maxBytes!: number;
  #send: (text: string) => void;

  constructor(send: (text: string) => void) {
    this.#send = send;
  }

  /** Returns a function that takes it back. */
  ask<T extends Verb>(type: T, fields: RequestFields[T], asked: Asked<T>): () => void {
    const id = this.prefix + ++this.#count;
    const pending = { ...asked, text: JSON.stringify({ ...fields, type, id }), sent: false };
    this.#pending.set(id, pending);
    this.#put(id, pending);
    return () => this.#pending.delete(id);
  }

  #put(id: string, pending: Pending): void {
    if (!this.#live || pending.sent) return;
    const before = pending.patient && this.#waitsBefore(pending);
    if (before) return pending.onSent?.(false, before.refused);
    if (new Blob([pending.text]).size > this.#maxBytes) {
      const error = new HoldfastError("too_large", `longer than ${this.#maxBytes} bytes`);
      return queueMicrotask(() => this.#fail(id, error));
    }
    pending.sent = true;
    pending.onSent?.(true);
    this.#send(pending.text);
  }

  /** The oldest patient one that waits for room, if it is older than this one. */
  #waitsBefore(pending: Pending): Pending | undefined {
    for (const one of this.#pending.values()) {
      if (one === pending) return;
      if (one.patient && one.refused) return one;
    }
    return;
  }

  /** The oldest of those that waited for one that is settled now. */
  #next(): void {
    for (const [id, one] of this.#pending) if (one.patient && !one.sent) return this.#put(id, one);
  }

  #fail(id: string, error: HoldfastError): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.onError?.(error);
    if (pending?.patient) this.#next();
  }

  /** Takes an answer. */
  settle(id: string, line: Line): void {
    const pending = this.#pending.get(id);
    if (!pending) return;
    if (line.type !== "error") {
      this.#pending.delete(id);
      pending.onReply?.(line);
      if (pending.patient) this.#next();
    } else if ((line.retry_after_ms ?? Infinity) > LONGEST_WAIT_MS) {
      this.#fail(id, HoldfastError.of(line));
    } else {
      pending.sent = false;
      pending.refused = HoldfastError.of(line);
      pending.onSent?.(false, pending.refused);
      setTimeout(() => this.#pending.has(id) && this.#put(id, pending), line.retry_after_ms);
    }
  }

  connected(maxBytes = Infinity): void {
    this.#live = true;
    this.#maxBytes = maxBytes;
    for (const [id, pending] of this.#pending) this.#put(id, pending);
  }

  lost(): void {
    this.#live = false;
    for (const [id, pending] of this.#pending) {
      if (!pending.sent) continue;
      pending.sent = false;
      if (pending.kept) pending.onSent?.(false);
      else this.#fail(id, new HoldfastError("connection_lost", "connection lost"));
    }
  }

  /** Nobody will answer any more; patient ones may wait, unless all are dropped. */
  drop(error: HoldfastError, all: boolean): void {
    for (const [id, { patient }] of this.#pending) if (all || !patient) this.#fail(id, error);
  }
}
