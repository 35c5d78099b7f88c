/** pace.ts -- lets a value that changes fast through only so often, and its last state always. */

import { useEffect, useReducer, useRef } from "react";

const FRAME_MS = 20;

/** The value, or what it was up to `pauseMs` ago. */
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
