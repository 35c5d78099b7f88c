/** rows.ts -- the events of a recording as rows of a list: filtered, searched, pieces of text in one. */

import type { TaskEvent } from "@holdfast/client";
import { laneOf } from "./Timeline";

export const ALL = "all";

export interface Row {
  event: TaskEvent;
  /** The first and the last of its events, by their index among all. */
  first: number;
  last: number;
  /** Its events' lines as they came, in bytes of UTF-8. */
  bytes: number;
}

const utf8 = new TextEncoder();
const bytesOf = (event: TaskEvent) => utf8.encode(JSON.stringify({ type: "event", ...event })).length + 1;

const isText = ({ event }: TaskEvent) => event === "token" || event === "thinking";

/** The row with one more piece of the same text. */
function joined({ event, first, bytes }: Row, more: TaskEvent, last: number): Row {
  const { text } = event.data as { text: string };
  const data = { text: text + (more.data as { text: string }).text };
  const from = event.from ?? event.seq;
  return { event: { ...event, seq: more.seq, from, data } as TaskEvent, first, last, bytes: bytes + bytesOf(more) };
}

interface Wanted {
  lane: string;
  /** A text in their data or their name. */
  text: string;
  /** Consecutive pieces of text are one row. */
  joins: boolean;
}

export function rowsOf(events: readonly TaskEvent[], { lane, text, joins }: Wanted): Row[] {
  const rows: Row[] = [];
  events.forEach((event, at) => {
    const before = rows.at(-1);
    if (joins && isText(event) && before?.event.event === event.event) rows[rows.length - 1] = joined(before, event, at);
    else rows.push({ event, first: at, last: at, bytes: bytesOf(event) });
  });
  const wanted = text.trim().toLowerCase();
  const says = ({ event }: Row) => !wanted || `${event.event} ${JSON.stringify(event.data)}`.toLowerCase().includes(wanted);
  return rows.filter((row) => (lane === ALL || laneOf(row.event) === lane) && says(row));
}
