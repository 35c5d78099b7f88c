/** QuestionCard.tsx -- a question of the agent, or its wish to be allowed something, and the answer. */

import type { Question, Task } from "@holdfast/client";
import { useState, type FormEvent } from "react";
import { plainly, pretty } from "../words";
import { Icon } from "./Icon";

function outcomeOf({ kind, answer }: Question): string {
  if (answer === null || answer === undefined) return "Not answered";
  if (kind === "approval") return answer === true ? "Approved" : "Declined";
  return `Answered: ${answer}`;
}

export function QuestionCard({ question, task }: { question: Question; task: Task }) {
  const { open, kind, prompt, tool, input_id, expires_at } = question;
  const [said, setSaid] = useState<boolean | string | null>(null);
  const [trouble, setTrouble] = useState("");

  const answer = async (value: boolean | string) => {
    setSaid(value);
    setTrouble("");
    try {
      await task.respond(input_id, value);
    } catch (error) {
      setSaid(null);
      setTrouble((error as Error).message);
    }
  };
  return (
    <section className={`question card ${open ? "open" : ""}`} data-input-id={input_id} aria-label="Question">
      <p className="prompt">
        <Icon name="question" />
        <span>{kind === "approval" ? plainly(prompt ?? "") : prompt}</span>
      </p>
      {tool && (
        <pre tabIndex={0}>
          {tool} {pretty(question.arguments)}
        </pre>
      )}
      {open && kind === "approval" && <Approval busy={said !== null} answer={answer} />}
      {open && kind !== "approval" && <Reply busy={said !== null} answer={answer} />}
      {open && said !== null && <p className="outcome">Sending your answer…</p>}
      {open && expires_at && <p className="hint">Waits until {new Date(expires_at).toLocaleTimeString()}</p>}
      {trouble && <p className="outcome trouble">{trouble}</p>}
      {!open && <p className="outcome">{outcomeOf(question)}</p>}
    </section>
  );
}

interface Asking {
  busy: boolean;
  answer(value: boolean | string): void;
}

function Approval({ busy, answer }: Asking) {
  return (
    <div className="row">
      <button type="button" disabled={busy} onClick={() => answer(true)}>
        Approve
      </button>
      <button type="button" className="quiet" disabled={busy} onClick={() => answer(false)}>
        Decline
      </button>
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
