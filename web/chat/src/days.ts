/** days.ts -- a list of conversations in groups: pinned ones, then those of today, of yesterday … */

import { DAYS, dayOf } from "./words";

export interface Group<T> {
  name: string;
  rows: T[];
}

/** Each group stands there once, also when the rows are in no order; within it they keep theirs. */
export function byDay<T extends { at: number; isPinned: boolean }>(rows: readonly T[], now = Date.now()): Group<T>[] {
  const groups = new Map<string, T[]>(["Pinned", ...DAYS].map((name) => [name, []]));
  for (const row of rows) groups.get(row.isPinned ? "Pinned" : dayOf(row.at, now))!.push(row);
  return [...groups].filter(([, its]) => its.length > 0).map(([name, rows]) => ({ name, rows }));
}
