/** Work.tsx -- a task's output and actions in order: text, thoughts, tools, questions, its end. */

import type { Part, Task, Transcript } from "@holdfast/client";
import { useCallback, useMemo, useRef, useState } from "react";
import { isBehind } from "../behind";
import { useInGaps } from "../markdown/pace";
import { End } from "./End";
import { Progress } from "./Progress";
import { atOnce, inPieces, stepsOf, stretchesOf, type Step } from "./steps";
import { Stretch } from "./Stretch";
import { childrenOf, TaskList } from "./TaskTree";

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
const NEAR = 2; // stretches at the end, which are never skipped: one may just have begun

interface Seen {
  task: Task | null;
  transcript: Transcript | null;
  live: boolean;
}

/**
 * The task as it was when it was not behind.  React draws a long text in the gaps between other work, when events of a
 * replay may have come: an ended task would look like one that has just begun.
 */
function useSeen(task: Task | null): Seen {
  const seen = useRef<Seen>(null);
  const kept = seen.current?.task === task ? seen.current : null;
  if (!task || !isBehind(task)) {
    seen.current = { task, transcript: task?.transcript ?? null, live: Boolean(task?.live) };
  } else if (!kept) {
    const { status } = task.summary;
    seen.current = { task, transcript: null, live: status === "pending" || status === "running" };
  }
  return seen.current!;
}

/** An answer that arrived here in pieces is shown in pieces to its end. */
function usePartsOf(text: string, told: Transcript | null, grown: boolean): readonly Part[] {
  const stored = useMemo<readonly Part[]>(() => (text ? [{ seq: 1, type: "text", text }] : NONE), [text]);
  return useInGaps(told && told.last > 0 ? told.parts : stored, NONE, grown ? inPieces : atOnce);
}

/** Nothing on the page shows activity: no words, no tool, no question. */
function isSilent(last: Step | undefined, grows: Step | undefined): boolean {
  if (!last) return true;
  if (last.type === "calls") return last.calls.every(({ output }) => output !== undefined);
  if (last.type === "question") return !last.question.open;
  // The mark at the end of the words stays when something else comes beside them.
  return (last.type === "custom" || last.type === "message") && grows?.type !== "text";
}

export function Work({ said, all }: Props) {
  const { task } = said;
  const { transcript, live } = useSeen(task);
  const grown = useRef(live); // arrived here, piece by piece
  grown.current ||= live;
  const parts = usePartsOf(said.text, transcript, grown.current);
  const [every, setEvery] = useState(false);
  const showAll = useCallback(() => setEvery(true), []);
  const steps = stepsOf(parts, every);
  const stretches = stretchesOf(steps);
  const last = steps.at(-1);
  const grows = steps.findLast(({ type }) => type === "text" || type === "calls" || type === "question");
  const placed = new Set(steps.flatMap((step) => (step.type === "children" ? step.ids : [])));
  const children = task ? childrenOf(task.id, all) : [];
  const rest = children.filter(({ id }) => !placed.has(id));

  return (
    <>
      {stretches.map(({ key, steps }, at) => (
        <Stretch
          key={key}
          steps={steps}
          task={task}
          all={all}
          live={live}
          last={last}
          grows={live ? grows : undefined}
          grown={grown.current}
          far={grown.current && at < stretches.length - NEAR}
          showAll={showAll}
        />
      ))}
      {!steps.some(({ type }) => type === "text") && <div className="answer" />}
      <TaskList tasks={rest} all={all} />
      {live && !task!.cancelling && task!.status === "running" && isSilent(last, grows) && (
        <p className="waiting" aria-hidden="true">
          <i /> <i /> <i />
        </p>
      )}
      {task && <Progress task={task} label="Progress" />}
      <End said={said} />
    </>
  );
}
