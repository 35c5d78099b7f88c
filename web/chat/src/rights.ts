/** rights.ts -- a link that somebody shared: its token is in the page's address, after `#share=`. */

import type { Right } from "@holdfast/client";
import { broughtBy } from "@holdfast/client/sharing";

export interface Link {
  token: string;
  conversationId: string;
  rights: readonly Right[];
  /** In whose name its holder writes. */
  actor: string;
}

/** A token as it describes itself; the gateway is the one who checks it. */
export function linkOf(address: string): Link | null {
  const { share: token } = broughtBy(address);
  if (!token) return null;
  try {
    const claims = JSON.parse(atob(token.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/")));
    const { conversations, actor = "" } = claims.holdfast;
    const [{ id, rights }] = conversations;
    return { token, conversationId: String(id), rights: rights.map(String), actor: String(actor) };
  } catch {
    return { token, conversationId: "", rights: [], actor: "" }; // it is no link, and the gateway will say so
  }
}

export const link = linkOf(location.href);

/** Whether this page may do it: one's own may do everything. */
export const may = (right: Right) => link === null || link.rights.includes(right);
