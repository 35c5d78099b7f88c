/** Progress.tsx -- a task's progress, as the task reports it. */

import type { Task } from "@holdfast/client";

export function Progress({ task, label }: { task: Task; label: string }) {
  const { progress, note } = task.transcript;
  const value = progress ?? task.summary.progress ?? null;
  if (!task.live || (value === null && note === "")) return null;
  return (
    <div className="progress">
      <progress max={1} value={value ?? undefined} aria-label={label} />
      {note !== "" && <span className="note">{note}</span>}
      {value !== null && <span className="percent">{Math.round(value * 100)} %</span>}
    </div>
  );
}
