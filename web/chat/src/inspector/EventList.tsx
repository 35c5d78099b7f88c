/** EventList.tsx -- the events around the place in time, each with its number, time and data. */

import type { TaskEvent } from "@holdfast/client";
import { useEffect, useRef, useState } from "react";
import { duration, number, plural, pretty } from "../words";
import type { Recording } from "./recording";
import { laneOf, lanes } from "./Timeline";

const AROUND = 60; // rows before and behind the place
const ALL = "all";

interface Row {
  event: TaskEvent;
  /** Its place among all events. */
  at: number;
}

/** The events of this lane that say this text, in their data or their name. */
export function rowsOf(events: readonly TaskEvent[], lane: string, text: string): Row[] {
  const wanted = text.trim().toLowerCase();
  return events
    .map((event, at) => ({ event, at }))
    .filter(({ event }) => lane === ALL || laneOf(event) === lane)
    .filter(({ event }) => !wanted || `${event.event} ${JSON.stringify(event.data)}`.toLowerCase().includes(wanted));
}

const gistOf = ({ data }: TaskEvent): string => {
  if ("text" in data) return JSON.stringify(data.text).slice(1, -1);
  const text = JSON.stringify(data);
  return text === "{}" ? "" : text.slice(0, 300);
};

interface Props {
  recording: Recording;
  /** So many events have come. */
  count: number;
  seek(ms: number): void;
}

export function EventList({ recording, count, seek }: Props) {
  const [shown, setShown] = useState<number | null>(null);
  const current = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    void current.current?.scrollIntoView({ block: "nearest" });
  }, [count]);
  const [lane, setLane] = useState(ALL);
  const [text, setText] = useState("");
  const rows = rowsOf(recording.events, lane, text);
  const place = rows.findLastIndex(({ at }) => at < count);
  const event = shown === null ? undefined : recording.events.find(({ seq }) => seq === shown);
  return (
    <section className="events" aria-label="Events">
      <div className="filter" role="search" aria-label="Events">
        <select aria-label="Kind of event" value={lane} onChange={(event) => setLane(event.target.value)}>
          {[ALL, ...lanes].map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
        <input
          type="search"
          aria-label="Search in events"
          placeholder="Search"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <span className="hint">
          {rows.length < recording.length ? `${number(rows.length)} of ` : ""}
          {plural(recording.length, "event")}
        </span>
      </div>
      <div className="rows" tabIndex={0} role="region" aria-label="List of events">
        <table>
          <thead>
            <tr>
              <th>seq</th>
              <th>time</th>
              <th>event</th>
              <th>data</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(Math.max(0, place - AROUND), place + AROUND).map(({ event: each, at }) => {
              const isCurrent = at === rows[place]?.at;
              const ms = recording.timeOf(at);
              const gap = at > 0 ? ms - recording.timeOf(at - 1) : 0;
              return (
                <tr
                  key={each.seq}
                  ref={isCurrent ? current : undefined}
                  aria-current={isCurrent ? "step" : undefined}
                  data-later={at >= count || undefined}
                >
                  <td>
                    <button
                      type="button"
                      onClick={() => {
                        setShown(each.seq);
                        seek(ms);
                      }}
                    >
                      {each.from ? `${each.from}–${each.seq}` : each.seq}
                    </button>
                  </td>
                  <td title={`${duration(gap)} after the one before`}>{(ms / 1000).toFixed(3)}</td>
                  <td data-lane={laneOf(each)}>{each.event}</td>
                  <td className="gist">{gistOf(each)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {event && (
        <pre className="event-data" tabIndex={0} aria-label={`Event ${event.seq}`}>
          {pretty(event)}
        </pre>
      )}
    </section>
  );
}
