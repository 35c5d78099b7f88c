/** behind.ts -- how much of what a task has said is still on its way here. */

import type { Task } from "@holdfast/client";
import { gateway } from "./gateway";

const FEW = 100; // events that a live task may be ahead: they are here in a moment

export interface Backlog {
  told: number;
  of: number;
}

/** A replay is running: what is told so far is no state that the task was seen in. */
export function isBehind({ transcript, summary, live }: Task): boolean {
  const { last, ending } = transcript;
  const { head = 0, status } = summary;
  if (ending || gateway.state !== "live" || (last === 0 && !live)) return false;
  const ended = status !== "pending" && status !== "running";
  return head - last > (ended ? 0 : FEW);
}

/** Of all these tasks together; null when none is behind. */
export function backlogOf(tasks: readonly Task[]): Backlog | null {
  const behind = tasks.filter(isBehind);
  if (behind.length === 0) return null;
  const sum = (of: (task: Task) => number) => behind.reduce((n, task) => n + of(task), 0);
  return { told: sum(({ transcript }) => transcript.last), of: sum(({ summary }) => summary.head ?? 0) };
}
