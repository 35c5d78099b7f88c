/** Connection.tsx -- this page's own connection: its state, its traffic, and injected faults. */

import type { Faults } from "@holdfast/client";
import { useEffect, useState, type FormEvent } from "react";
import { gateway, wire } from "../gateway";
import { useWatched } from "../watch";
import { duration, number, plural, pretty, size } from "../words";
import { median, type Entry, type WireLog } from "../wire";

const SHOWN = 300; // rows, the newest

export function Connection({ log = wire }: { log?: WireLog }) {
  useWatched(log);
  return (
    <div className="connection">
      <div className="facts">
        <State log={log} />
        <Cursors log={log} />
        <FaultForm />
      </div>
      <Frames entries={log.entries} />
    </div>
  );
}

const ping = () => void gateway.request("ping", {}, { kept: false }).catch(() => {});

function State({ log: { sums, latencies } }: { log: WireLog }) {
  const { state, trouble, welcome, owner } = useWatched(gateway);
  useEffect(ping, []);
  const last = latencies.at(-1);
  const facts = [
    ["State", state],
    ["Trouble", trouble ? `${trouble.cause}: ${trouble.message} (${trouble.code}, attempt ${trouble.attempts})` : "none"],
    ["Owner", owner ?? "–"],
    ["Gateway", welcome?.server ? `${welcome.server.name} ${welcome.server.version}` : "–"],
    ["Out", `${plural(sums.out.lines, "line")}, ${size(sums.out.bytes)}`],
    ["In", `${plural(sums.in.lines, "line")}, ${size(sums.in.bytes)}`],
    ["Latency", last === undefined ? "–" : `${duration(last)}, median ${duration(median(latencies)!)}`],
  ];
  return (
    <section aria-label="State">
      <h2>State</h2>
      <dl>
        {facts.map(([name, value]) => (
          <div key={name} data-fact={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <button id="ping" type="button" className="quiet" disabled={state !== "live"} onClick={ping}>
        Ping
      </button>
    </section>
  );
}

function Cursors({ log: { cursors } }: { log: WireLog }) {
  return (
    <section aria-label="Cursors">
      <h2>Cursors</h2>
      {cursors.size === 0 && <p className="hint">No task is followed here. Open one under Streams.</p>}
      {[...cursors.values()].map(({ task_id, seq, events, merged, isLive, hasEnded }) => (
        <p key={task_id} data-cursor={task_id}>
          <code>{task_id}</code> <strong>{number(seq)}</strong>
          <span className="hint">
            {plural(events, "event")}
            {merged > 0 && `, ${number(merged)} of them merged`} · {hasEnded ? "ended" : isLive ? "live" : "replay"}
          </span>
        </p>
      ))}
    </section>
  );
}

const FAULTS: [keyof Faults, string][] = [
  ["dropAfter", "Cut after so many lines"],
  ["freezeAfter", "Go silent after so many lines"],
  ["latencyMs", "Delay each message, ms"],
  ["jitterMs", "Up to so much more, ms"],
  ["refuse", "Refuse so many attempts"],
  ["closeCode", "Code of the cut"],
];

/** The faults are in the page's address: changing them reloads it. */
function FaultForm() {
  const given = new URLSearchParams(location.search).get("fault") ?? "";
  const [values, setValues] = useState(() => new Map(given.split(",").map((each) => each.split(":") as [string, string])));
  const load = (fault: string) => {
    const url = new URL(location.href);
    url.searchParams.delete("fault");
    if (fault) url.searchParams.set("fault", fault);
    location.replace(url);
    if (url.href === location.href) location.reload();
  };
  const apply = (event: FormEvent) => {
    event.preventDefault();
    const wanted = FAULTS.map(([name]) => [name, values.get(name) ?? ""]).filter(([, value]) => value !== "");
    load(wanted.map((pair) => pair.join(":")).join(","));
  };
  return (
    <section aria-label="Faults">
      <h2>Faults</h2>
      <form className="faults" onSubmit={apply}>
        {FAULTS.map(([name, label]) => (
          <label key={name}>
            {label}
            <input
              name={name}
              type="number"
              min={0}
              value={values.get(name) ?? ""}
              onChange={({ target }) => setValues(new Map(values).set(name, target.value))}
            />
          </label>
        ))}
        <div className="row">
          <button type="submit">Apply</button>
          <button type="button" className="quiet" disabled={given === ""} onClick={() => load("")}>
            None
          </button>
        </div>
      </form>
    </section>
  );
}

function Frames({ entries }: { entries: readonly Entry[] }) {
  const [way, setWay] = useState("all");
  const [text, setText] = useState("");
  const [open, setOpen] = useState<Entry | null>(null);
  const wanted = text.trim().toLowerCase();
  const rows = entries.filter((each) => (way === "all" || each.way === way) && each.text.toLowerCase().includes(wanted));
  return (
    <section className="events frames" aria-label="Frames">
      <div className="filter" role="search" aria-label="Frames">
        <select aria-label="Which way" value={way} onChange={({ target }) => setWay(target.value)}>
          {["all", "out", "in", "state"].map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
        <input type="search" aria-label="Search in frames" placeholder="Search" value={text} onChange={({ target }) => setText(target.value)} />
        <span className="hint">{plural(rows.length, "line")}</span>
      </div>
      <div className="rows" tabIndex={0} role="region" aria-label="List of frames, the newest first">
        <table>
          <thead>
            <tr>
              <th>time</th>
              <th>way</th>
              <th>size</th>
              <th>line</th>
              <th>data</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(-SHOWN).reverse().map((each) => (
              <tr key={each.n} data-way={each.way}>
                <td>
                  <button type="button" onClick={() => setOpen(each)}>
                    {new Date(each.at).toISOString().slice(11, 23)}
                  </button>
                </td>
                <td>{each.way}</td>
                <td className="size">{each.way === "state" ? "" : size(each.bytes)}</td>
                <td>{each.name}</td>
                <td className="gist">{each.text.slice(0, 300)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {open && (
        <pre className="event-data" tabIndex={0} aria-label="Frame">
          {open.way === "state" ? open.text : pretty(JSON.parse(open.text))}
        </pre>
      )}
    </section>
  );
}
