/** running.ts -- the answer that is being given in a conversation. */

import type { Conversation } from "@holdfast/client";

const isTurn = (type: string | undefined) => type === "chat" || type === "notice";

/** Not a waiting task, nor one in the background. */
export const runningIn = ({ tasks }: Conversation) =>
  tasks.findLast(({ live, summary, status }) => live && status === "running" && isTurn(summary.type));
