/** TaskTree.tsx -- the tasks that a task has started, and theirs, as a tree that opens. */

import type { Task } from "@holdfast/client";
import { may } from "../rights";
import { useWatched } from "../watch";
import { Icon } from "./Icon";
import { TaskMark } from "./TaskMark";
import { Work } from "./Work";

export const childrenOf = (parent: string, all: readonly Task[]) =>
  all.filter(({ summary }) => summary.parent?.task_id === parent);

/** Tasks, with those that they have started in turn. */
export function TaskList({ tasks, all }: { tasks: readonly Task[]; all: readonly Task[] }) {
  if (tasks.length === 0) return null;
  return (
    <ul className="tree" aria-label="Tasks that it has started">
      {tasks.map((task) => (
        <li key={task.id}>
          <TaskRow task={task} />
          <TaskTree parent={task.id} all={all} />
        </li>
      ))}
    </ul>
  );
}

export const TaskTree = ({ parent, all }: { parent: string; all: readonly Task[] }) => (
  <TaskList tasks={childrenOf(parent, all)} all={all} />
);

export const nameOf = ({ summary, transcript, id }: Task): string =>
  summary.description || summary.name || transcript.input || summary.agent || id;

const NONE: readonly Task[] = []; // its children are listed below it

/** One task in a line; all of it when opened.  Its output is fetched when somebody looks. */
export function TaskRow({ task }: { task: Task }) {
  useWatched(task);
  const { transcript, status } = task;
  const asks = task.live && transcript.questions.some(({ open }) => open);
  const partial = status === "failed" || status === "cancelled";
  const text = transcript.text || transcript.ending?.output || "";
  const value = transcript.progress ?? task.summary.progress ?? null;
  return (
    <details
      className="task card"
      data-task-id={task.id}
      data-status={status}
      open={asks || undefined}
      onToggle={({ currentTarget }) => currentTarget.open && task.follow()}
    >
      <summary>
        <TaskMark status={status} asks={asks} />
        <span className="name">{nameOf(task)}</span>
        {task.live && value !== null && <progress max={1} value={value} aria-label="Progress" />}
        <span className="state">{asks ? "asks" : status}</span>
        <Icon name="chevron" />
      </summary>
      <div className="told">
        <Work said={{ text, partial, task }} all={NONE} />
        {task.live && may("cancel") && (
          <button
            type="button"
            className="quiet cancel"
            disabled={task.cancelling}
            onClick={() => void task.cancel({ tree: true }).catch(() => {})}
          >
            <Icon name="stop" /> Cancel
          </button>
        )}
      </div>
    </details>
  );
}
