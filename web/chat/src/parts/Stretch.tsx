/**
 * Stretch.tsx -- some consecutive steps of a task, drawn together.
 *
 * A long task has many stretches, and only the last ones change.  Those above are neither rendered
 * again nor laid out while they are out of view, so a frame costs the same however long it is.
 */

import type { Task } from "@holdfast/client";
import { memo } from "react";
import { Markdown } from "../markdown/Markdown";
import { plural } from "../words";
import { FileCard } from "./FileCard";
import { QuestionCard } from "./QuestionCard";
import { isSame, isSettled, type Step } from "./steps";
import { childrenOf, TaskList } from "./TaskTree";
import { Thinking } from "./Thinking";
import { ToolCards } from "./ToolCards";

interface Props {
  steps: readonly Step[];
  task: Task | null;
  /** The conversation's tasks, which include the children. */
  all: readonly Task[];
  live: boolean;
  /** The task's last step, and the one that grows. */
  last: Step | undefined;
  grows: Step | undefined;
  /** It arrived here, piece by piece. */
  grown: boolean;
  /** It was drawn, and is some way above the end. */
  far: boolean;
  showAll(): void;
}

const has = ({ steps }: Props, step: Step | undefined) => step !== undefined && steps.includes(step);

/** Nothing in it has changed, and nothing in it can change by itself. */
function isAsShown(shown: Props, next: Props): boolean {
  const { steps, task, live, far, grown } = next;
  return (
    shown.task === task &&
    shown.far === far &&
    shown.grown === grown &&
    shown.live === live &&
    !has(shown, shown.last) &&
    !has(next, next.last) &&
    !has(shown, shown.grows) &&
    !has(next, next.grows) &&
    steps.length === shown.steps.length &&
    steps.every((step, at) => isSettled(step) && isSame(step, shown.steps[at]!))
  );
}

export const Stretch = memo((its: Props) => (
  <div className="stretch" data-far={its.far || undefined}>
    {its.steps.map((step) => show(step, its))}
  </div>
), isAsShown);

function show(step: Step, { task, all, live, last, grows, grown, showAll }: Props) {
  const { key } = step;
  switch (step.type) {
    case "text":
      return <Answer key={key} text={step.text} growing={step === grows} grown={grown} />;
    case "thinking":
      return <Thinking key={key} text={step.text} busy={live && step === last} />;
    case "calls":
      return <ToolCards key={key} tools={step.calls} from={step.from} task={task!} />;
    case "children": {
      const tasks = childrenOf(task!.id, all).filter(({ id }) => step.ids.includes(id));
      return <TaskList key={key} tasks={tasks} all={all} />;
    }
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
          <strong>{senders[step.message.from] ?? step.message.from}</strong> {step.message.content}
        </p>
      );
    case "custom":
      return <Remark key={key} custom={step.custom} />;
    case "earlier":
      return (
        <button key={key} type="button" className="quiet earlier" onClick={showAll}>
          Show {plural(step.count, "earlier call")}
        </button>
      );
  }
}

function Answer({ text, growing, grown }: { text: string; growing: boolean; grown: boolean }) {
  return (
    <div className="answer" data-growing={growing || undefined}>
      <Markdown text={text} growing={growing} grown={grown} />
    </div>
  );
}

/** The senders of an inbox, in words. */
const senders: Record<string, string> = { user: "You", child: "Its task", parent: "Its parent task" };

const remarks: Record<string, string> = {
  history_shortened: "The conversation is long: its oldest messages were left out of what the model reads.",
  notices_paused: "Eight turns in a row began by themselves. Further ones wait for your next message.",
};

/** Shows the gateway's own custom events; those of an application are for its own page. */
function Remark({ custom }: { custom: { event_type: string } }) {
  const text = remarks[custom.event_type];
  return text ? <p className="remark">{text}</p> : null;
}
