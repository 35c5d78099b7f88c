/** @holdfast/client/search -- looks for words in the titles and texts of the owner's conversations. */

import type { Client } from "./client.js";
import type { Matches, Replies } from "./wire.js";

export interface SearchOptions {
  /** Messages of a page, at most: 1 to 200. */
  limit?: number | undefined;
}

/**
 * Gives all that was found, newest first, a page at each step; the first page has the conversations whose
 * titles have it.  A later page without a message is not given: the gateway goes on looking.
 */
export async function* search(
  client: Client,
  query: string,
  { limit }: SearchOptions = {},
): AsyncGenerator<Replies["search"], void> {
  let page: Replies["search"] | undefined;
  do {
    const before = page?.before;
    const first = !page;
    page = await client.request("search", { query, ...(limit && { limit }), ...(before && { before }) });
    if (first || page.messages.length > 0) yield page;
  } while (page.more);
}

/** A piece of a text, and whether it is what was looked for. */
export interface Piece {
  text: string;
  isMatch: boolean;
}

/** A text, or a title, in pieces: `matches` count characters, where JavaScript counts UTF-16. */
export function marked(text: string, matches: Matches): Piece[] {
  const characters = [...text];
  const pieces: Piece[] = [];
  let at = 0;
  const take = (end: number, isMatch: boolean) => {
    if (end > at) pieces.push({ text: characters.slice(at, end).join(""), isMatch });
    at = Math.max(at, end);
  };
  for (const [from, n] of matches) {
    take(from, false);
    take(from + n, true);
  }
  take(characters.length, false);
  return pieces;
}
