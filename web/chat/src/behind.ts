/** behind.ts -- how much of a task's output has not arrived yet. */

import type { Task } from "@holdfast/client";
import { gateway } from "./gateway";

const FEW = 100; // events that a live task may be ahead: they will arrive in a moment

export interface Backlog {
  told: number;
  of: number;
}

/** During a replay the transcript shows a state in which the task was never seen. */
export function isBehind({ transcript, summary, live }: Task): boolean {
  const { last, ending } = transcript;
  const { head = 0, status } = summary;
  if (ending || (last === 0 && !live)) return false;
  const ended = status !== "pending" && status !== "running";
  if (!ended && gateway.state !== "live") return false; // what has come is all that there is to show
  return head - last > (ended ? 0 : FEW);
}

/** For all these tasks together; null when none is behind. */
export function backlogOf(tasks: readonly Task[]): Backlog | null {
  const behind = tasks.filter(isBehind);
  if (behind.length === 0) return null;
  const sum = (of: (task: Task) => number) => behind.reduce((n, task) => n + of(task), 0);
  return { told: sum(({ transcript }) => transcript.last), of: sum(({ summary }) => summary.head ?? 0) };
}
