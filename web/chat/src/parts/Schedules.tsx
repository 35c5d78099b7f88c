/** Schedules.tsx -- messages that are sent later: a form for one, and the list of all. */

import { useCallback, useEffect, useRef, useState, type FormEvent } from "react";
import TextareaAutosize from "react-textarea-autosize";
import { gateway } from "../gateway";
import {
  changeSchedule,
  inWords,
  makeSchedule,
  removeSchedule,
  schedules,
  textOf,
  timesOf,
  WEEKDAYS,
  type Every,
  type Schedule,
  type When,
} from "../schedule";
import { sentenceOf, type Wrong } from "../trouble";
import { useWatched } from "../watch";
import { clock } from "../words";
import { Icon } from "./Icon";

const own = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

const names: Record<Every, string> = {
  once: "Once",
  day: "Every day",
  weekdays: "On weekdays",
  week: "Every week",
  month: "Every month",
  cron: "As cron says",
};

/** Tomorrow at nine, as `datetime-local` has it. */
function tomorrow(): string {
  const at = new Date();
  at.setDate(at.getDate() + 1);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T09:00`;
}

const first = (): When => ({ every: "once", at: tomorrow(), time: "09:00", weekday: 1, day: 1, cron: "" });

interface Props {
  /** Null: it is closed. */
  text: string | null;
  /** The open conversation; null for a new one. */
  conversationId: string | null;
  close(): void;
  /** The text is scheduled, and wanted no more elsewhere. */
  done(): void;
}

export function Schedules({ text, conversationId, close, done }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [list, setList] = useState<readonly Schedule[] | null>(null);
  const [wrong, setWrong] = useState("");
  const { conversations } = gateway;
  useWatched(conversations); // one that is due changes a conversation
  const isOpen = text !== null;
  const look = useCallback(() => {
    schedules().then(
      (its) => (setList(its), setWrong("")),
      (error: Wrong) => setWrong(error.code === "unsupported" ? "This gateway sends nothing later." : sentenceOf(error)),
    );
  }, []);
  useEffect(() => {
    if (isOpen) look();
  }, [isOpen, look, conversations.version]);
  useEffect(() => {
    if (isOpen) dialog.current!.showModal();
  }, [isOpen]);
  const does = (what: Promise<unknown>) => what.then(look, (error: Wrong) => setWrong(sentenceOf(error)));
  return (
    <dialog ref={dialog} id="schedules-dialog" aria-label="Messages that are sent later" onClose={close}>
      <h2>Send later</h2>
      {isOpen && (
        <Form
          text={text}
          conversationId={conversationId}
          made={() => (look(), done())}
          failed={(error) => setWrong((error.code === "bad_request" && error.message) || sentenceOf(error))}
        />
      )}
      {wrong !== "" && (
        <p className="outcome trouble" role="alert">
          {wrong}
        </p>
      )}
      {list !== null && list.length > 0 && (
        <>
          <h3>Scheduled</h3>
          <ul className="schedules">
            {list.map((its) => (
              <ScheduleRow key={its.schedule_id} its={its} does={does} />
            ))}
          </ul>
        </>
      )}
      {list?.length === 0 && <p className="hint">Nothing is scheduled.</p>}
      <div className="row end">
        <button type="button" className="quiet" onClick={() => dialog.current!.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}

function ScheduleRow({ its, does }: { its: Schedule; does(what: Promise<unknown>): void }) {
  const { schedule_id, paused = false, next_at, error } = its;
  const text = textOf(its);
  return (
    <li data-schedule-id={schedule_id} data-paused={paused || undefined}>
      <div>
        <p className="title">{text}</p>
        <p className="hint">
          {inWords(its, own)}
          {paused ? " · paused" : next_at !== undefined && ` · next ${clock(next_at)}`}
          {error && <span className="trouble"> · the last one was not sent: {sentenceOf(error)}</span>}
        </p>
      </div>
      <button
        type="button"
        className="icon-button"
        aria-label={`${paused ? "Resume" : "Pause"} ${text}`}
        title={paused ? "Resume" : "Pause"}
        onClick={() => does(changeSchedule(schedule_id, { paused: !paused }))}
      >
        <Icon name={paused ? "play" : "pause"} />
      </button>
      <button
        type="button"
        className="icon-button"
        aria-label={`Delete ${text}`}
        title="Delete"
        onClick={() => does(removeSchedule(schedule_id))}
      >
        <Icon name="trash" />
      </button>
    </li>
  );
}

interface FormProps {
  text: string;
  conversationId: string | null;
  made(): void;
  failed(error: Wrong): void;
}

function Form({ text, conversationId, made, failed }: FormProps) {
  const [message, setMessage] = useState(text);
  const [when, setWhen] = useState(first);
  const [here, setHere] = useState(conversationId !== null);
  const [agent, setAgent] = useState("");
  const [busy, setBusy] = useState(false);
  const { agents } = gateway;
  const times = timesOf(when, own);
  const isLate = when.every === "once" && (times?.not_before ?? Infinity) <= Date.now();
  const change = (more: Partial<When>) => setWhen({ ...when, ...more });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    const chat = { message, ...(agent && { agent }) };
    makeSchedule({ chat, ...times, ...(here && conversationId !== null && { conversation_id: conversationId }) })
      .then(() => (setMessage(""), made()), failed)
      .finally(() => setBusy(false));
  };
  return (
    <form onSubmit={submit}>
      <TextareaAutosize
        aria-label="Message to send later"
        placeholder="Message"
        minRows={2}
        maxRows={6}
        dir="auto"
        autoFocus
        value={message}
        onChange={(event) => setMessage(event.target.value)}
      />
      <div className="row">
        <select aria-label="How often" value={when.every} onChange={(event) => change({ every: event.target.value as Every })}>
          {Object.entries(names).map(([every, name]) => (
            <option key={every} value={every}>
              {name}
            </option>
          ))}
        </select>
        <Times when={when} change={change} />
        {agents.length > 1 && (
          <select aria-label="Agent for it" value={agent} onChange={(event) => setAgent(event.target.value)}>
            <option value="">{agents.find((one) => one.default)?.name ?? "Agent"}</option>
            {agents.filter((one) => !one.default).map(({ name }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
      </div>
      {conversationId !== null && (
        <label className="check">
          <input type="checkbox" checked={here} onChange={(event) => setHere(event.target.checked)} /> In this conversation
        </label>
      )}
      <div className="row">
        <button type="submit" disabled={busy || message.trim() === "" || times === null || isLate}>
          <Icon name="clock" /> Schedule
        </button>
        {isLate && <span className="hint">This time has passed.</span>}
      </div>
    </form>
  );
}

function Times({ when, change }: { when: When; change(more: Partial<When>): void }) {
  const { every } = when;
  const number = { value: when.day, onChange: (event: { target: HTMLInputElement }) => change({ day: event.target.valueAsNumber || 1 }) };
  if (every === "once") {
    return <input type="datetime-local" aria-label="When" value={when.at} onChange={(event) => change({ at: event.target.value })} />;
  }
  if (every === "cron") {
    return (
      <input
        type="text"
        aria-label="Cron: minute, hour, day, month, weekday"
        placeholder="0 9 * * 1-5"
        spellCheck={false}
        value={when.cron}
        onChange={(event) => change({ cron: event.target.value })}
      />
    );
  }
  return (
    <>
      {every === "week" && (
        <select aria-label="Day of the week" value={when.weekday} onChange={(event) => change({ weekday: Number(event.target.value) })}>
          {WEEKDAYS.map((name, day) => (
            <option key={name} value={day}>
              {name}
            </option>
          ))}
        </select>
      )}
      {every === "month" && <input type="number" aria-label="Day of the month" min={1} max={31} {...number} />}
      <input type="time" aria-label="Time" value={when.time} onChange={(event) => change({ time: event.target.value })} />
    </>
  );
}
