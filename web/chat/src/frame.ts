/**
 * frame.ts -- draws all changes together, once a frame.
 *
 * The browser styles and lays out a page once for all that changes within a frame.  What changes
 * between two frames is laid out by itself as the next one begins, for the text cursor's place, and
 * then again with what that frame adds.
 */

import { flushSync } from "react-dom";

const due = new Set<() => void>();
let frame = 0;

/** Calls it in the next frame, once; returns a function that takes this back. */
export function atNextFrame(change: () => void): () => void {
  due.add(change);
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    const changes = [...due];
    due.clear();
    flushSync(() => changes.forEach((each) => each()));
  });
  return () => void due.delete(change);
}
