/**
 * pace.ts -- limits how often a fast-growing or long text is parsed, so that the page stays
 * responsive.  The last state is always shown.
 */

import { useDeferredValue, useEffect, useReducer, useRef } from "react";

const FRAME_MS = 20;
const MUCH = 8_000; // characters that cannot be parsed within a frame or two
const PATIENCE_MS = 1_000;

/** The value, or its state up to `pauseMs` ago. */
export function usePaced<T>(value: T, pauseMs: number): T {
  const shown = useRef(value);
  const shownAt = useRef(0);
  const [, show] = useReducer((n: number) => n + 1, 0);
  const now = performance.now();
  if (pauseMs < FRAME_MS || now - shownAt.current >= pauseMs) {
    shown.current = value;
    shownAt.current = now;
  }
  useEffect(() => {
    if (shown.current === value) return;
    const timer = setTimeout(() => {
      shownAt.current = -Infinity; // it is time, although a timer may be a little early
      show();
    }, shownAt.current + pauseMs - now);
    return () => clearTimeout(timer);
  });
  return shown.current;
}

/**
 * The value or, while much of it is new, its previous state until React has rendered the new one in
 * the gaps between other work.  Without gaps it is rendered at once, after a while.
 *
 * @param blank what is shown at first
 * @param fresh how many characters are new
 */
export function useInGaps<T>(value: T, blank: T, fresh: (before: T, now: T) => number): T {
  const shown = useRef(blank);
  const since = useRef(0);
  const before = shown.current;
  const isMuch = fresh(before, value) > MUCH;
  const read = useDeferredValue(isMuch ? value : null, null);
  let now = value;
  if (isMuch && read !== value) {
    since.current ||= performance.now();
    if (performance.now() - since.current < PATIENCE_MS) now = before;
  }
  useEffect(() => {
    shown.current = now;
    if (now === value) since.current = 0;
  });
  return now;
}
