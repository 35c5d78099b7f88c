/** token.ts -- the source of the token in `hello`. */

import { now } from "./clock.js";
import { HoldfastError } from "./errors.js";
import type { Store } from "./store.js";

/**
 * Fetches a token; `stale` is the one that the gateway no longer accepts, or soon will not.
 * Nothing, or the stale one again, means that nobody is signed in: the client closes.  An exception
 * counts as network trouble, and the token is fetched again.
 */
export type FetchToken = (stale?: string) => string | undefined | Promise<string | undefined>;

export interface TokenSource {
  /** `stale`, and why the gateway refused it.  Throws `unauthorized` when there is no other. */
  get(stale?: string, reason?: string): Promise<string | undefined>;
  /** Keeps the token of a new guest; returns the one that was kept first. */
  keep(token: string): Promise<string>;
}

const OVERDUE_MS = 30_000; // a fetch that takes this long may never answer: start another one

const unauthorized = (reason = "no token") => new HoldfastError("unauthorized", reason);

/** Tokens from the application. */
export class FetchedTokens implements TokenSource {
  #fetch: FetchToken;
  #token: Promise<string | undefined> | undefined;
  #askedAt = Infinity; // set while the application has not answered

  constructor(fetch: FetchToken) {
    this.#fetch = fetch;
  }

  async get(stale?: string, reason?: string) {
    const overdue = now() - this.#askedAt > OVERDUE_MS;
    const kept = overdue ? stale : await this.#token?.catch(() => undefined);
    if (kept === undefined || kept === stale) {
      this.#askedAt = now();
      this.#token = (async () => this.#fetch(stale))().finally(() => (this.#askedAt = Infinity));
    }
    const token = await this.#token;
    if (!token || token === stale) throw unauthorized(reason);
    return token;
  }

  async keep(token: string) {
    return token;
  }
}

/** A guest's token, kept in the store. */
export class GuestTokens implements TokenSource {
  #store: Store;
  #key: string;
  #token: string | undefined; // a store may fail when it is full, or forget

  constructor(store: Store, key: string) {
    this.#store = store;
    this.#key = key;
  }

  async get(stale?: string, reason?: string) {
    const unknown = reason?.includes("unknown guest");
    const change = (kept = this.#token) => (unknown && kept === stale ? undefined : kept);
    const [kept] = await this.#store.list<string>(this.#key);
    this.#token = change(kept) === kept ? kept : await this.#store.update(this.#key, change);
    if (reason && !unknown && this.#token === stale) throw unauthorized(reason);
    return this.#token;
  }

  async keep(token: string) {
    return (this.#token = (await this.#store.update<string>(this.#key, (kept) => kept ?? token))!);
  }
}
