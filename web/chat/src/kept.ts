/** kept.ts -- small things that a browser remembers: drafts, the colour scheme. */

import { useCallback, useState } from "react";

/** Null where the browser forbids it: then the name alone throws. */
function allowed(storage: () => Storage): Storage | null {
  try {
    return storage();
  } catch {
    return null;
  }
}

/** The tab's memory, and the browser's. */
export const ofTab = allowed(() => sessionStorage);
export const ofBrowser = allowed(() => localStorage);

/** "" means none. */
export function read(storage: Storage | null, name: string): string {
  return storage?.getItem(name) ?? "";
}

/** "" removes it. */
export function write(storage: Storage | null, name: string, value: string) {
  try {
    if (value === "") storage?.removeItem(name);
    else storage?.setItem(name, value);
  } catch {
    // Storage is full, so it is not remembered.
  }
}

/** Those that begin with this. */
export function names(storage: Storage | null, prefix: string): string[] {
  return Object.keys(storage ?? {}).filter((name) => name.startsWith(prefix));
}

/** A text that survives a reload; "" means none. */
export function useKept(name: string, storage = ofBrowser) {
  const [kept, setKept] = useState(() => ({ name, value: read(storage, name) }));
  const value = kept.name === name ? kept.value : read(storage, name);
  const set = useCallback(
    (next: string) => {
      write(storage, name, next);
      setKept({ name, value: next });
    },
    [storage, name],
  );
  return [value, set] as const;
}
