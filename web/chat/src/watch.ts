/** watch.ts -- renders changes at most once a frame, however fast they come. */

import { useCallback, useSyncExternalStore } from "react";
import { atNextFrame } from "./frame";

export interface Watchable {
  /** Grows with each change. */
  version: number;
  subscribe(listener: () => void): () => void;
}

/**
 * The same object, with a new rendering in the frame after it has changed; with `of`, only when the
 * result of `of` has changed.
 */
export function useWatched<T extends Watchable>(it: T, of?: (it: T) => string | number): T {
  const subscribe = useCallback(
    (listener: () => void) => {
      let takeBack = () => {};
      const end = it.subscribe(() => (takeBack = atNextFrame(listener)));
      return () => {
        end();
        takeBack();
      };
    },
    [it],
  );
  useSyncExternalStore(subscribe, () => (of ? of(it) : it.version));
  return it;
}
