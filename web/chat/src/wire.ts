/** wire.ts -- the traffic and the states of the connection, from the client's debug lines. */

import { Observable } from "./inspector/changing";

const KEPT = 2_000; // entries

export interface Entry {
  n: number;
  at: number;
  way: "out" | "in" | "state";
  /** The type of the line, or the state. */
  name: string;
  /** The line of JSON, or the client's description of the state. */
  text: string;
  bytes: number;
}

/** How far a task's stream has arrived here. */
export interface Cursor {
  task_id: string;
  seq: number;
  /** Events, and those among them that combine several pieces. */
  events: number;
  merged: number;
  /** Nothing older is on its way: the replay has become live. */
  isLive: boolean;
  hasEnded: boolean;
}

const utf8 = new TextEncoder();

export class WireLog extends Observable {
  /** At least the newest 2,000, the same array as it grows. */
  readonly entries: Entry[] = [];
  readonly cursors = new Map<string, Cursor>();
  /** Lines and bytes, each way. */
  readonly sums = { out: { lines: 0, bytes: 0 }, in: { lines: 0, bytes: 0 } };
  /** Round trips of requests that were answered, in ms; the newest last. */
  latencies: readonly number[] = [];
  #n = 0;
  #asked = new Map<string, number>();

  /** Takes a line of the client's `debug`: `> {…}`, `< {…}`, or a state and its reason. */
  add(line: string, at = Date.now(), now = performance.now()) {
    const way = line.startsWith("> ") ? "out" : line.startsWith("< ") ? "in" : "state";
    const text = way === "state" ? line : line.slice(2);
    const bytes = way === "state" ? 0 : utf8.encode(text).length + 1;
    let name = /^\w+/.exec(text)?.[0] ?? "";
    if (way !== "state") {
      const told = JSON.parse(text);
      name = told.type === "event" ? told.event : told.type;
      this.sums[way].lines++;
      this.sums[way].bytes += bytes;
      if (way === "out") this.#asked.set(told.id, now);
      else this.#heard(told, now);
    } else if (name !== "live") this.#asked.clear(); // a lost connection answers nothing
    this.entries.push({ n: ++this.#n, at, way, name, text, bytes });
    if (this.entries.length >= 2 * KEPT) this.entries.splice(0, KEPT);
    this.changed();
  }

  #heard(told: { id?: string; type: string; task_id: string; seq: number; from?: number; event?: string }, now: number) {
    const asked = told.id === undefined ? undefined : this.#asked.get(told.id);
    if (asked !== undefined) {
      this.#asked.delete(told.id!);
      this.latencies = [...this.latencies.slice(-99), now - asked];
    }
    if (told.type !== "event" && told.type !== "caught_up") return;
    const { task_id, seq } = told;
    const was = this.cursors.get(task_id) ?? { task_id, seq: 0, events: 0, merged: 0, isLive: false, hasEnded: false };
    const isEvent = told.type === "event";
    this.cursors.set(task_id, {
      ...was,
      seq: Math.max(was.seq, seq),
      events: was.events + Number(isEvent),
      merged: was.merged + Number(isEvent && told.from !== undefined && told.from < seq),
      isLive: was.isLive || !isEvent,
      hasEnded: was.hasEnded || told.event === "task.completed" || told.event === "task.failed",
    });
  }
}

export const median = (some: readonly number[]): number | undefined => some.toSorted((a, b) => a - b)[some.length >> 1];
