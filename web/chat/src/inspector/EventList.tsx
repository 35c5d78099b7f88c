/** EventList.tsx -- the events around the place in time, each with its number, time and data. */

import type { TaskEvent } from "@holdfast/client";
import { useEffect, useRef, useState } from "react";
import { pretty } from "../words";
import type { Recording } from "./recording";
import { laneOf } from "./Timeline";

const AROUND = 60; // rows before and behind the place

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
  const from = Math.max(0, count - AROUND);
  const event = shown === null ? undefined : recording.events.find(({ seq }) => seq === shown);
  return (
    <section className="events" aria-label="Events">
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
            {recording.events.slice(from, count + AROUND).map((each, at) => {
              const isCurrent = from + at === count - 1;
              return (
                <tr
                  key={each.seq}
                  ref={isCurrent ? current : undefined}
                  aria-current={isCurrent ? "step" : undefined}
                  data-later={from + at >= count || undefined}
                >
                  <td>
                    <button
                      type="button"
                      onClick={() => {
                        setShown(each.seq);
                        seek(recording.timeOf(from + at));
                      }}
                    >
                      {each.from ? `${each.from}–${each.seq}` : each.seq}
                    </button>
                  </td>
                  <td>{(recording.timeOf(from + at) / 1000).toFixed(3)}</td>
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
