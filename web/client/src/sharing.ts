/**
 * @holdfast/client/sharing -- lets others in: a link that reads, a member who asks in a name of its
 * own, and the same owner on another device.
 */

import type { Client } from "./client.js";
import { HoldfastError } from "./errors.js";
import { IndexedStore, type Store } from "./store.js";
import type { Replies, RequestFields, Share } from "./wire.js";

const MOST = 200;

/**
 * Shares a conversation, or one task of it: without `rights` it can be read.  It is asked once, so
 * that a cut makes no second share: then it fails with `connection_lost`, and `shares` shows
 * whether there is one.
 */
export function share(
  client: Client,
  conversationId: string,
  options: Omit<RequestFields["share"], "conversation_id"> = {},
): Promise<Replies["share"]> {
  return client.request("share", { ...options, conversation_id: conversationId }, { kept: false });
}

/** All that are good still, newest first; with an id, those of one conversation. */
export async function shares(client: Client, conversationId?: string): Promise<Share[]> {
  const all: Share[] = [];
  for (;;) {
    const about = conversationId === undefined ? {} : { conversation_id: conversationId };
    const before = all.at(-1)?.share_id;
    const reply = await client.request("shares", { limit: MOST, ...about, ...(before && { before }) });
    all.push(...reply.shares);
    if (!reply.more) return all;
  }
}

/** Takes a share back: whoever came with it is out.  False: there is none (any more). */
export async function unshare(client: Client, share_id: string): Promise<boolean> {
  try {
    await client.request("unshare", { share_id });
    return true;
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "not_found") return false;
    throw error;
  }
}

/** A code that brings the same owner to another device: good once, for two minutes. */
export function handover(client: Client): Promise<Replies["handover"]> {
  return client.request("handover", {}, { kept: false });
}

export interface TakeOverOptions {
  /** Where the token is kept: the store of the client. */
  store?: Store | undefined;
  /** For tests, and for other ways to the network. */
  fetch?: typeof fetch | undefined;
}

/**
 * On the other device, before `connect(url)`: gets the owner's token for a code, and keeps it where
 * that client, without a token of its own, looks for it.  A code that is good no more is
 * `not_found`.
 */
export async function takeOver(url: string | URL, code: string, options: TakeOverOptions = {}): Promise<string> {
  const { store = new IndexedStore(), fetch: by = fetch } = options;
  const address = new URL("handover/token", url);
  address.protocol = address.protocol.replace("ws", "http");
  const headers = { "Content-Type": "application/json" };
  const reply = await by(address.href, { method: "POST", headers, body: JSON.stringify({ code }) });
  const { token, error } = await reply.json().catch(() => ({}));
  if (!token) throw new HoldfastError(error?.code ?? "internal", error?.message ?? `HTTP ${reply.status}`);
  await store.put(`${url}  guest`, token); // where client.ts keeps it without a `user`
  return token;
}

/** The address of a page may bring this, in its fragment, which no server and no log sees. */
export interface Brought {
  /** The token of a share. */
  share?: string;
  /** The code of a handover. */
  handover?: string;
}

/** The address of a page that is given `its`. */
export function linkTo(page: string | URL, its: Brought): string {
  const link = new URL(page);
  link.hash = new URLSearchParams({ ...its }).toString();
  return link.href;
}

/** Reads what the address of this page brought. */
export function broughtBy(page: string | URL): Brought {
  const its = new URLSearchParams(new URL(page).hash.slice(1));
  const share = its.get("share");
  const code = its.get("handover");
  return { ...(share && { share }), ...(code && { handover: code }) };
}
