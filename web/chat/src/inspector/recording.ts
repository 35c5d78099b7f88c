/**
 * recording.ts -- a task's events, in order, and the state at any of them.
 *
 * As a file: JSON Lines, each the event's line of the wire.  The tests' replay agent
 * (tests/browser/fixtures/replay_agent.py) replays such a file.
 */

import { BLANK, tell, type TaskEvent, type Transcript } from "@holdfast/client";
import { Observable } from "./changing";

const INSTANT = 0.001; // ms between events of the same time, so that each has its own place
const STEP = 256; // a state is kept every so many events: any other is a few steps after one

export class Recording extends Observable {
  readonly events: TaskEvent[] = [];
  #times: number[] = []; // increasing, even where the clock was set back
  #kept: Transcript[] = [BLANK];
  #newest: Transcript = BLANK;

  add(event: TaskEvent) {
    this.#newest = tell(this.#newest, event);
    this.events.push(event);
    const last = this.#times.at(-1);
    this.#times.push(last === undefined ? 0 : Math.max(event.ts - this.events[0]!.ts, last + INSTANT));
    if (this.events.length % STEP === 0) this.#kept.push(this.#newest);
    this.changed();
  }

  get length(): number {
    return this.events.length;
  }

  /** From the first event to the last, in ms. */
  get duration(): number {
    return this.#times.at(-1) ?? 0;
  }

  /** When an event arrived, in ms after the first. */
  timeOf(at: number): number {
    return this.#times[at]!;
  }

  /** The transcript after that many events. */
  stateAt(count: number): Transcript {
    if (count >= this.length) return this.#newest;
    const kept = Math.floor(count / STEP);
    return this.events.slice(kept * STEP, count).reduce(tell, this.#kept[kept]!);
  }

  /** How many events had arrived by then, in ms after the first. */
  countAt(ms: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#times[middle]! <= ms) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  toLines(): string {
    return this.events.map((event) => `${JSON.stringify({ type: "event", ...event })}\n`).join("");
  }

  /** Throws, with the line's number, when a line is not an event or is out of order. */
  static ofLines(text: string): Recording {
    const recording = new Recording();
    let last = 0;
    text.split("\n").forEach((line, at) => {
      if (line.trim() === "") return;
      const event = eventOf(line);
      const first = event?.from ?? event?.seq;
      if (!event || (last > 0 && first !== last + 1)) {
        throw new Error(`line ${at + 1} ${event ? `does not follow event ${last}` : "is no event"}`);
      }
      last = event.seq;
      recording.add(event);
    });
    if (recording.length === 0) throw new Error("there is no event in this file");
    return recording;
  }
}

function eventOf(line: string): TaskEvent | null {
  try {
    const value = JSON.parse(line);
    const isEvent =
      typeof value.event === "string" &&
      Number.isSafeInteger(value.seq) &&
      Number.isFinite(value.ts) &&
      typeof value.data === "object" &&
      value.data !== null;
    return isEvent ? value : null;
  } catch {
    return null;
  }
}
