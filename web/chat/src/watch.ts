/** watch.ts -- renders changes at most once a frame, however fast they come. */

import { useCallback, useSyncExternalStore } from "react";

export interface Watchable {
  /** Grows with each change. */
  version: number;
  subscribe(listener: () => void): () => void;
}

const due = new Set<() => void>();
let frame = 0;

function atNextFrame(listener: () => void) {
  due.add(listener);
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    const listeners = [...due];
    due.clear();
    for (const each of listeners) each();
  });
}

/**
 * The same object, with a new rendering in the frame after it has changed; with `of`, only when the
 * result of `of` has changed.
 */
export function useWatched<T extends Watchable>(it: T, of?: (it: T) => string | number): T {
  const subscribe = useCallback(
    (listener: () => void) => {
      const end = it.subscribe(() => atNextFrame(listener));
      return () => {
        end();
        due.delete(listener);
      };
    },
    [it],
  );
  useSyncExternalStore(subscribe, () => (of ? of(it) : it.version));
  return it;
}
