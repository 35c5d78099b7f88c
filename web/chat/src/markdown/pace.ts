/**
 * pace.ts -- limits how often a fast-growing or long text is parsed, so that the page stays
 * responsive.  The last state is always shown.
 */

import { useDeferredValue, useEffect, useLayoutEffect, useReducer, useRef } from "react";

const FRAME_MS = 20;
const MUCH = 1_000; // characters that cannot be parsed within a frame or two, on a slow machine
const LEAST = 200; // characters of a frame, however long they take
const BUDGET_MS = 8; // of a frame, for drawing what is new: as much again goes to the browser's layout
const BUSY = 20; // changes, each in a frame of its own
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

export interface Cutting<T> {
  /** How many characters are new. */
  fresh(before: T, now: T): number;
  /** The former, with so many more characters. */
  more(before: T, now: T, characters: number): T;
}

/** How much can be drawn in a frame: what the last pieces took tells it. */
class Room {
  characters = MUCH;

  took(characters: number, ms: number) {
    if (characters < LEAST / 2) return; // mostly other work
    const fits = (characters * BUDGET_MS) / Math.max(ms, 0.1);
    this.characters = Math.min(MUCH, Math.max(LEAST, Math.round((this.characters + fits) / 2)));
  }
}

/**
 * The value or, while much of it is new, its previous state until React has rendered the new one in
 * the gaps between other work.  When more keeps coming there are no gaps: then it is shown in
 * pieces, each in a frame of its own.
 *
 * @param blank what is shown at first
 */
export function useInGaps<T>(value: T, blank: T, { fresh, more }: Cutting<T>): T {
  const shown = useRef(blank);
  const waiting = useRef({ since: 0, changes: 0, value: blank });
  const [, show] = useReducer((n: number) => n + 1, 0);
  const room = useRef<Room>(null);
  room.current ??= new Room();
  const begun = performance.now();
  const before = shown.current;
  const isMuch = fresh(before, value) > room.current.characters;
  const read = useDeferredValue(isMuch ? value : null, null);
  let now = value;
  let isCut = false;
  if (isMuch && read !== value) {
    const its = waiting.current;
    its.since ||= performance.now();
    if (its.value !== value) its.changes++;
    its.value = value;
    isCut = its.changes > BUSY || performance.now() - its.since >= PATIENCE_MS;
    now = isCut ? more(before, value, room.current.characters) : before;
  }
  useLayoutEffect(() => {
    if (now !== before && (isCut || !isMuch)) room.current!.took(fresh(before, now), performance.now() - begun);
  });
  useEffect(() => {
    shown.current = now;
    if (now === value) waiting.current = { since: 0, changes: 0, value };
    if (!isCut) return;
    const frame = requestAnimationFrame(show);
    return () => cancelAnimationFrame(frame);
  });
  return now;
}
