/** rights.ts -- a link that somebody shared: its token is in the page's address, after `#share=`. */

export type Right = "read" | "ask" | "answer" | "cancel";

export interface Link {
  token: string;
  conversationId: string;
  rights: readonly Right[];
  /** In whose name its holder writes. */
  actor: string;
}

const ADDRESS = /^#share=([\w.-]+)$/;

/** A token as it describes itself; the gateway is the one who checks it. */
export function linkOf(hash: string): Link | null {
  const token = ADDRESS.exec(hash)?.[1];
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

export const link = linkOf(location.hash);

/** Whether this page may do it: one's own may do everything. */
export const may = (right: Right) => link === null || link.rights.includes(right);
