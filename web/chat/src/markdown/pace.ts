/**
 * pace.ts -- limits how often a fast-growing or long text is parsed, so that the page stays
 * responsive.  The last state is always shown.
 */

import { useDeferredValue, useEffect, useLayoutEffect, useReducer, useRef } from "react";
import { atNextFrame } from "../frame";

const FRAME_MS = 20;
const MUCH = 1_000; // characters that cannot be parsed within a frame or two, on a slow machine
const LEAST = 200; // characters of a frame, however long they take
const SHARE = 1 / 4; // of what waits, in a frame, however long that takes
const MOST = 500; // characters of such a share: still no long frame
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
    let takeBack = () => {};
    const timer = setTimeout(() => {
      shownAt.current = -Infinity; // it is time, although a timer may be a little early
      takeBack = atNextFrame(show);
    }, shownAt.current + pauseMs - now);
    return () => {
      clearTimeout(timer);
      takeBack();
    };
  });
  return shown.current;
}

export interface Cutting<T> {
  /** So many new characters are cut at once, without waiting for gaps. */
  few: number;
  /** How many characters are new. */
  fresh(before: T, now: T): number;
  /** The former, with so many more characters. */
  more(before: T, now: T, characters: number): T;
}

/** How much can be drawn in a frame: what the last pieces took tells it. */
export class Room {
  characters = MUCH;

  /** Characters to draw, of so many that wait: more of more, lest a page that is slow falls ever further behind. */
  of(waiting: number): number {
    return Math.max(this.characters, Math.min(MOST, Math.ceil(waiting * SHARE)));
  }

  took(characters: number, ms: number) {
    if (characters < LEAST / 2) return; // mostly other work
    const fits = (characters * BUDGET_MS) / Math.max(ms, 0.1);
    this.characters = Math.min(MUCH, Math.max(LEAST, Math.round((this.characters + fits) / 2)));
  }
}

/**
 * The value or, while much of it is new, its previous state until React has rendered the new one in
 * the gaps between other work.  When more keeps coming there are no gaps: then it is shown in
 * pieces, each in a frame of its own, and nothing is rendered beside them.
 *
 * @param blank what is shown at first
 */
export function useInGaps<T>(value: T, blank: T, { few, fresh, more }: Cutting<T>): T {
  const shown = useRef(blank);
  const waiting = useRef<Waiting<T>>(null);
  const [, show] = useReducer((n: number) => n + 1, 0);
  const room = useRef<Room>(null);
  room.current ??= new Room();
  const begun = performance.now();
  const before = shown.current;
  const size = fresh(before, value);
  const isMuch = size > room.current.characters;
  if (!isMuch) waiting.current = null;
  else waiting.current = waitingFor(value, waiting.current, size <= few);
  const isCut = waiting.current?.isCut ?? false;
  const read = useDeferredValue(isMuch && !isCut ? value : null, null);
  const isRead = !isMuch || read === value;
  const now = isRead ? value : isCut ? more(before, value, room.current.of(size)) : before;
  useLayoutEffect(() => {
    if (now !== before && (isCut || !isMuch)) room.current!.took(fresh(before, now), performance.now() - begun);
  });
  useEffect(() => {
    shown.current = now;
    if (now === value) waiting.current = null;
    if (now !== value && isCut) return atNextFrame(show);
  });
  return now;
}

/** A value that waits to be shown. */
interface Waiting<T> {
  value: T;
  since: number;
  changes: number;
  /** It is shown in pieces. */
  isCut: boolean;
}

function waitingFor<T>(value: T, before: Waiting<T> | null, isFew: boolean): Waiting<T> {
  const { since, changes, isCut } = before ?? { since: performance.now(), changes: 0, isCut: isFew };
  const its = { value, since, changes: changes + Number(before?.value !== value), isCut };
  its.isCut ||= its.changes > BUSY || performance.now() - since >= PATIENCE_MS;
  return its;
}
