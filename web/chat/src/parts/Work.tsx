/** Work.tsx -- what a task says and does: thoughts, tools, children, answer, questions, its end. */

import type { Task } from "@holdfast/client";
import { useRef } from "react";
import { Markdown } from "../markdown/Markdown";
import { Progress } from "./Progress";
import { QuestionCard } from "./QuestionCard";
import { Thinking } from "./Thinking";
import { ToolCards } from "./ToolCards";

export interface Said {
  text: string;
  partial: boolean;
  task: Task | null;
}

/** How it stands with a task, in words, where that is not plain. */
export function marksOf({ text, partial, task }: Said): string {
  const marks: string[] = [];
  if (task?.live) {
    if (task.cancelling) marks.push("stopping…");
    else if (task.status === "pending") marks.push("queued");
  } else if (task?.status === "cancelled") {
    marks.push("cancelled");
  } else if (task?.status === "failed") {
    const error = task.transcript.ending?.error ?? task.summary.error;
    marks.push(error ? `failed: ${error.message}` : "failed");
  }
  if (!task?.live && text !== "" && partial) marks.push("partial answer");
  if (task && task.transcript.first > 1) marks.push("the beginning is no longer kept");
  return marks.join(" · ");
}

export function Work({ said }: { said: Said }) {
  const { text, task } = said;
  const told = task?.transcript;
  const live = Boolean(task?.live);
  const grown = useRef(live); // here, piece by piece
  grown.current ||= live;
  const marks = marksOf(said);
  return (
    <>
      {told && <Thinking text={told.thinking} busy={live && text === ""} />}
      {told && <ToolCards tools={told.tools} live={live} />}
      {told?.inbox.map(({ from, content }, at) => (
        <p className="inbox" key={at}>
          <strong>{from}</strong> {content}
        </p>
      ))}
      {live && text === "" && told?.thinking === "" && !task?.cancelling && (
        <p className="waiting" aria-hidden="true">
          <i /> <i /> <i />
        </p>
      )}
      <div className="answer" data-growing={live || undefined} data-grown={grown.current || undefined}>
        {text !== "" && <Markdown text={text} growing={live} />}
      </div>
      {told?.questions.map((question) => (
        <QuestionCard key={question.input_id} question={question} task={task!} />
      ))}
      {task && <Progress task={task} label="Progress" />}
      {marks !== "" && <p className="marks">{marks}</p>}
    </>
  );
}
