/** kept.ts -- small things that a browser remembers: drafts, the colour scheme. */

import { useCallback, useState } from "react";

/** "" means none. */
export function read(storage: Storage, name: string): string {
  try {
    return storage.getItem(name) ?? "";
  } catch {
    return ""; // storage is forbidden
  }
}

/** "" removes it. */
export function write(storage: Storage, name: string, value: string) {
  try {
    if (value === "") storage.removeItem(name);
    else storage.setItem(name, value);
  } catch {
    // Storage is full or forbidden, so it is not remembered.
  }
}

/** Those that begin with this. */
export function names(storage: Storage, prefix: string): string[] {
  try {
    return Object.keys(storage).filter((name) => name.startsWith(prefix));
  } catch {
    return [];
  }
}

/** A text that survives a reload; "" means none. */
export function useKept(name: string, storage: Storage = localStorage) {
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
