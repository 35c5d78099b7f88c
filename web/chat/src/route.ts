/** route.ts -- the conversation that is shown: its id is the hash of the page's address. */

import { useSyncExternalStore } from "react";

const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const MOVED = "holdfast:moved";

function idInHash(): string | null {
  const id = location.hash.slice(1);
  return ID.test(id) ? id : null;
}

function subscribe(listener: () => void) {
  const names = ["hashchange", "popstate", MOVED];
  for (const name of names) addEventListener(name, listener);
  return () => names.forEach((name) => removeEventListener(name, listener));
}

export const useConversationId = () => useSyncExternalStore(subscribe, idInHash);

/** Goes to a conversation, or to none. */
export function goTo(id: string | null) {
  history.pushState(null, "", id === null ? location.pathname + location.search : `#${id}`);
  dispatchEvent(new Event(MOVED));
}
