/** Work.tsx -- a task's output and actions in order: text, thoughts, tools, questions, its end. */

import type { Part, Task } from "@holdfast/client";
import { useMemo, useRef, useState } from "react";
import { Markdown } from "../markdown/Markdown";
import { useInGaps } from "../markdown/pace";
import { plural } from "../words";
import { End } from "./End";
import { FileCard } from "./FileCard";
import { Progress } from "./Progress";
import { QuestionCard } from "./QuestionCard";
import { atOnce, inPieces, stepsOf, type Step } from "./steps";
import { childrenOf, TaskList } from "./TaskTree";
import { Thinking } from "./Thinking";
import { ToolCards } from "./ToolCards";

export interface Said {
  /** The stored text: shown until the task's events have arrived. */
  text: string;
  partial: boolean;
  task: Task | null;
}

interface Props {
  said: Said;
  /** The conversation's tasks, which include the children. */
  all: readonly Task[];
}

const NONE: readonly Part[] = [];

function usePartsOf({ text, task }: Said): readonly Part[] {
  const stored = useMemo<readonly Part[]>(() => (text ? [{ seq: 1, type: "text", text }] : NONE), [text]);
  const told = task?.transcript;
  return useInGaps(told && told.last > 0 ? told.parts : stored, NONE, task?.live ? inPieces : atOnce);
}

/** Nothing on the page shows activity: no words, no tool, no question. */
function isSilent(last: Step | undefined): boolean {
  if (!last) return true;
  if (last.type === "calls") return last.calls.every(({ output }) => output !== undefined);
  if (last.type === "question") return !last.question.open;
  return last.type === "custom" || last.type === "message";
}

export function Work({ said, all }: Props) {
  const { task } = said;
  const parts = usePartsOf(said);
  const [every, setEvery] = useState(false);
  const steps = stepsOf(parts, every);
  const live = Boolean(task?.live);
  const grown = useRef(live); // arrived here, piece by piece
  grown.current ||= live;
  const last = steps.at(-1);
  const grows = steps.findLast(({ type }) => type === "text" || type === "calls" || type === "question");
  const placed = new Set(steps.flatMap((step) => (step.type === "children" ? step.ids : [])));
  const children = task ? childrenOf(task.id, all) : [];
  const rest = children.filter(({ id }) => !placed.has(id));

  const show = (step: Step) => {
    const { key } = step;
    const isLast = step === last;
    switch (step.type) {
      case "text":
        return <Answer key={key} text={step.text} growing={live && step === grows} grown={grown.current} />;
      case "thinking":
        return <Thinking key={key} text={step.text} busy={live && isLast} />;
      case "calls":
        return <ToolCards key={key} tools={step.calls} task={task!} />;
      case "children":
        return <TaskList key={key} tasks={children.filter(({ id }) => step.ids.includes(id))} all={all} />;
      case "question":
        return <QuestionCard key={key} question={step.question} task={task!} />;
      case "files":
        return (
          <ul key={key} className="files" aria-label="Files">
            {step.files.map((file) => (
              <FileCard key={file.file_id} part={{ ...file, type: "file" }} conversationId={task!.conversationId} />
            ))}
          </ul>
        );
      case "message":
        return (
          <p className="inbox" key={key}>
            <strong>{step.message.from}</strong> {step.message.content}
          </p>
        );
      case "custom":
        return <Remark key={key} custom={step.custom} />;
      case "earlier":
        return (
          <button key={key} type="button" className="quiet earlier" onClick={() => setEvery(true)}>
            Show {plural(step.count, "earlier call")}
          </button>
        );
    }
  };
  return (
    <>
      {steps.map(show)}
      {!steps.some(({ type }) => type === "text") && <div className="answer" />}
      <TaskList tasks={rest} all={all} />
      {live && !task!.cancelling && task!.status === "running" && isSilent(last) && (
        <p className="waiting" aria-hidden="true">
          <i /> <i /> <i />
        </p>
      )}
      {task && <Progress task={task} label="Progress" />}
      <End said={said} />
    </>
  );
}

function Answer({ text, growing, grown }: { text: string; growing: boolean; grown: boolean }) {
  return (
    <div className="answer" data-growing={growing || undefined} data-grown={grown || undefined}>
      <Markdown text={text} growing={growing} />
    </div>
  );
}

const remarks: Record<string, string> = {
  history_shortened: "The conversation is long: its oldest messages were left out of what the model reads.",
  notices_paused: "Eight turns in a row began by themselves. Further ones wait for your next message.",
};

/** Shows the gateway's own custom events; those of an application are for its own page. */
function Remark({ custom }: { custom: { event_type: string } }) {
  const text = remarks[custom.event_type];
  return text ? <p className="remark">{text}</p> : null;
}
