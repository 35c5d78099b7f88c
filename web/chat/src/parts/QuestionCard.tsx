/** QuestionCard.tsx -- a question of the agent, or its request for approval, and the answer. */

import type { HoldfastError, Question, Task } from "@holdfast/client";
import { useEffect, useState, type FormEvent } from "react";
import { Markdown } from "../markdown/Markdown";
import { link, may } from "../rights";
import { sentenceOf } from "../trouble";
import { plainly, pretty, weekday } from "../words";
import { Icon } from "./Icon";

interface Choice {
  id: string;
  name: string;
  /** Its meaning for an approval: `allow_once`, `allow_always`, `reject_once` … */
  kind: string;
}

/** Whether true or false answers it: an approval, or what a budget asks. */
function isYesOrNo({ kind }: Question): boolean {
  return kind === "approval" || kind === "budget";
}

/** The choices; malformed ones are left out, because an agent may send anything. */
function choicesOf(question: Question): Choice[] {
  const { options } = question;
  if (question.kind === "budget" || !Array.isArray(options)) return [];
  const choices = options.map((each) => {
    const { id, name, kind } = typeof each === "string" ? { id: each } : (each ?? {});
    const shown = typeof name === "string" && name !== "" ? name : id;
    return typeof id === "string" && { id, name: plainly(shown), kind: typeof kind === "string" ? kind : "" };
  });
  return choices.filter((choice) => choice !== false);
}

const ALLOWANCE = "once conversation reject"; // the options of the gateway's own approvals

/** The choices to show: a visitor decides about this call, and not about those to come. */
export function offeredTo(visitor: boolean, choices: readonly Choice[]): Choice[] {
  const isAllowance = choices.map(({ id }) => id).join(" ") === ALLOWANCE;
  return choices.filter(({ id }) => !(visitor && isAllowance && id === "conversation"));
}

function outcomeOf(question: Question): string {
  const { kind, answer } = question;
  if (answer === null || answer === undefined) return "Not answered";
  const chosen = choicesOf(question).find(({ id }) => id === answer);
  if (chosen) return `Answered: ${chosen.name}`;
  if (kind === "budget") return answer === true ? "Goes on" : "Stopped";
  if (isYesOrNo(question)) return answer === true ? "Approved" : "Declined";
  return `Answered: ${answer}`;
}

export function QuestionCard({ question, task }: { question: Question; task: Task }) {
  const { open, tool, input_id, expires_at } = question;
  const [said, setSaid] = useState<boolean | string | null>(null);
  const [trouble, setTrouble] = useState("");

  const answer = async (value: boolean | string) => {
    setSaid(value);
    setTrouble("");
    try {
      await task.respond(input_id, value);
    } catch (error) {
      setSaid(null);
      setTrouble(sentenceOf(error as HoldfastError));
    }
  };
  const shown = promptOf(question);
  const choices = offeredTo(link !== null, choicesOf(question));
  const asks = open && may("answer");
  return (
    <section className={`question card ${open ? "open" : ""}`} data-input-id={input_id} aria-label={`Question: ${plainly(question.prompt ?? "").slice(0, 80)}`}>
      {shown.prompt !== "" && (
        <div className="prompt">
          <Icon name="question" />
          <div>{shown.plain ? shown.prompt : <Markdown text={shown.prompt} />}</div>
        </div>
      )}
      {shown.command !== "" && (
        <pre className="command" tabIndex={0} aria-label={tool}>
          {shown.command}
        </pre>
      )}
      {asks && choices.length > 0 && !isYesOrNo(question) && <Choices choices={choices} busy={said !== null} answer={answer} />}
      {asks && isYesOrNo(question) && <Approval choices={choices} busy={said !== null} answer={answer} />}
      {asks && !isYesOrNo(question) && <Reply busy={said !== null} answer={answer} />}
      {open && !asks && <p className="outcome">It waits for an answer.</p>}
      {open && said !== null && <p className="outcome">Sending your answer…</p>}
      {open && expires_at !== undefined && <Expiry at={expires_at} />}
      {trouble && <p className="outcome trouble">{trouble}</p>}
      {!open && <p className="outcome">{outcomeOf(question)}</p>}
    </section>
  );
}

/**
 * The question, and the action to approve, each once.  An approval shows the action unchanged,
 * never as Markdown: nothing of a command may be hidden.
 */
function promptOf({ kind, prompt = "", tool, arguments: given }: Question) {
  if (kind === "budget") return { prompt: plainly(prompt), plain: true, command: "" };
  if (!tool) return { prompt: kind === "approval" ? plainly(prompt) : prompt, plain: false, command: "" };
  const { command, ...others } = given ?? {};
  const isCommand = typeof command === "string" && Object.keys(others).length === 0;
  const shown = isCommand ? plainly(command) : `${tool} ${pretty(given)}`;
  const rest = isCommand ? plainly(prompt).replace(shown, "").trim() : plainly(prompt);
  return { prompt: rest, plain: true, command: shown };
}

/** How long it still waits: a countdown in the last hour. */
function Expiry({ at }: { at: number }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  const s = Math.max(0, Math.round((at - now) / 1_000));
  if (s >= 3_600) return <p className="hint">Waits until {weekday(at)}</p>;
  return (
    <p className="hint expiry">
      Waits {Math.floor(s / 60)}:{String(s % 60).padStart(2, "0")} more
    </p>
  );
}

interface Asking {
  busy: boolean;
  answer(value: boolean | string): void;
}

/** Once, always, for this conversation: as the agent offers it; and what it does not offer, yes and no. */
function Approval({ choices, busy, answer }: Asking & { choices: Choice[] }) {
  const once = choices.find(({ kind }) => kind === "allow_once");
  const [rejections, others] = [true, false].map((wanted) =>
    choices.filter((one) => one !== once && one.kind.startsWith("reject") === wanted),
  ) as [Choice[], Choice[]];
  const button = ({ id, name }: Choice) => (
    <button key={id} type="button" className="quiet" dir="auto" disabled={busy} onClick={() => answer(id)}>
      {name}
    </button>
  );
  return (
    <div className="row">
      <button type="button" dir="auto" disabled={busy} onClick={() => answer(once?.id ?? true)}>
        {once?.name ?? "Approve"}
      </button>
      {others.map(button)}
      {rejections.map(button)}
      {rejections.length === 0 && (
        <button type="button" className="quiet" disabled={busy} onClick={() => answer(false)}>
          Decline
        </button>
      )}
    </div>
  );
}

function Choices({ choices, busy, answer }: Asking & { choices: Choice[] }) {
  return (
    <div className="row choices">
      {choices.map(({ id, name }) => (
        <button key={id} type="button" className="quiet" dir="auto" disabled={busy} onClick={() => answer(id)}>
          {name}
        </button>
      ))}
    </div>
  );
}

function Reply({ busy, answer }: Asking) {
  const [text, setText] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    answer(text);
  };
  return (
    <form className="row" onSubmit={submit}>
      <input
        type="text"
        aria-label="Your answer"
        placeholder="Your answer"
        dir="auto"
        autoComplete="off"
        value={text}
        disabled={busy}
        onChange={(event) => setText(event.target.value)}
      />
      <button type="submit" disabled={busy}>
        Answer
      </button>
    </form>
  );
}
