/** TaskMark.tsx -- a task's state as an icon. */

import type { TaskStatus } from "@holdfast/client";

export function TaskMark({ status, asks = false }: { status: TaskStatus; asks?: boolean }) {
  return <span className="mark" data-status={asks ? "asks" : status} aria-hidden="true" />;
}
