/** EventList.tsx -- the events around the current time, each with its number, time and data. */

import type { TaskEvent } from "@holdfast/client";
import { useEffect, useMemo, useRef, useState } from "react";
import { duration, number, plural, pretty, size } from "../words";
import type { Recording } from "./recording";
import { ALL, rowsOf } from "./rows";
import { laneOf, lanes } from "./Timeline";

const AROUND = 60; // rows before and after the current one
const LONG_GAP_MS = 1_000;

const gistOf = ({ data }: TaskEvent): string => {
  if ("text" in data) return JSON.stringify(data.text).slice(1, -1);
  const text = JSON.stringify(data);
  return text === "{}" ? "" : text.slice(0, 300);
};

interface Props {
  recording: Recording;
  /** How many events there are so far. */
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
  const [joins, setJoins] = useState(false);
  const { events, length } = recording;
  const rows = useMemo(() => rowsOf(events, { lane, text, joins }), [events, length, lane, text, joins]);
  const place = rows.findLastIndex(({ first }) => first < count);
  const event = shown === null ? undefined : rows.find(({ event }) => event.seq === shown)?.event;
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
        <label className="join">
          <input type="checkbox" checked={joins} onChange={(event) => setJoins(event.target.checked)} /> Join text
        </label>
        <span className="hint">
          {rows.length < length ? `${number(rows.length)} ${joins ? "rows" : ""} of `.replace("  ", " ") : ""}
          {plural(length, "event")}
        </span>
      </div>
      <div className="rows" tabIndex={0} role="region" aria-label="List of events">
        <table>
          <thead>
            <tr>
              <th>seq</th>
              <th>time</th>
              <th>gap</th>
              <th>event</th>
              <th>size</th>
              <th>data</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(Math.max(0, place - AROUND), place + AROUND).map(({ event: each, first, last, bytes }) => {
              const isCurrent = first === rows[place]?.first;
              const ms = recording.timeOf(first);
              const gap = first > 0 ? ms - recording.timeOf(first - 1) : 0;
              return (
                <tr
                  key={each.seq}
                  ref={isCurrent ? current : undefined}
                  aria-current={isCurrent ? "step" : undefined}
                  data-later={first >= count || undefined}
                >
                  <td>
                    <button
                      type="button"
                      onClick={() => {
                        setShown(each.seq);
                        seek(recording.timeOf(last));
                      }}
                    >
                      {each.from ? `${each.from}–${each.seq}` : each.seq}
                    </button>
                  </td>
                  <td>{(ms / 1000).toFixed(3)}</td>
                  <td className="gap" data-long={gap >= LONG_GAP_MS || undefined}>
                    {gap >= 1 ? `+${duration(gap)}` : ""}
                  </td>
                  <td data-lane={laneOf(each)}>{each.event}</td>
                  <td className="size">{size(bytes)}</td>
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
