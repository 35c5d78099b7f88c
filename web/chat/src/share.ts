/** share.ts -- links to a conversation for others, and codes for another device. */

import { ask } from "./ask";
import type { Right } from "./rights";

export interface Share {
  share_id: string;
  conversation_id: string;
  rights: readonly Right[];
  actor?: string;
  created_at: number;
  expires_at: number;
}

const home = () => new URL(".", document.baseURI).href;

export const sharesOf = async (conversation_id: string) =>
  (await ask<{ shares: Share[] }>("shares", { conversation_id, limit: 100 })).shares;

/** Returns the address that its holder opens. */
export async function share(conversation_id: string, rights: readonly Right[], actor: string, expires_at: number): Promise<string> {
  const wish = { conversation_id, rights, expires_at, ...(actor && { actor }) };
  const { token } = await ask<{ token: string }>("share", wish, false);
  return `${home()}#share=${token}`;
}

export const unshare = (share_id: string) => ask("unshare", { share_id });

/** A code for another device, as the address that it opens. */
export async function handOver(): Promise<{ address: string; expires_at: number }> {
  const { code, expires_at } = await ask<{ code: string; expires_at: number }>("handover", {}, false);
  return { address: `${home()}#handover=${code}`, expires_at };
}

/** The token for which a code is good, once; null when it is good for nothing. */
export async function takeOver(code: string): Promise<string | null> {
  const reply = await fetch("v1/handover/token", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  });
  if (reply.status === 404 || reply.status === 400 || reply.status === 401) return null;
  if (!reply.ok) throw new Error(`HTTP ${reply.status}`);
  return (await reply.json()).token;
}
