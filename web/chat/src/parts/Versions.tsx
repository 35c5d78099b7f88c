/** Versions.tsx -- the arrows between the versions of a question, or of an answer. */

import type { Conversation } from "@holdfast/client";
import { choose, type Versions as Its } from "@holdfast/client/branches";
import { gateway } from "../gateway";
import { link } from "../rights";
import { Icon } from "./Icon";

interface Props {
  its: Its | null;
  /** "question" or "answer", for those who do not see the arrows. */
  of: string;
  conversation: Conversation;
  /** The task that makes the version which has no id yet. */
  task: string;
}

export function Versions({ its, of, conversation, task }: Props) {
  if (!its || its.at < 0) return null;
  const { ids, at } = its;
  const arrow = (to: number, label: string) => (
    <button
      type="button"
      className={`quiet ${to < at ? "former" : "next"}`}
      aria-label={label}
      title={label}
      disabled={ids[to] === undefined || link !== null}
      onClick={() => void choose(gateway, conversation, ids[to] ?? task).catch(() => {})}
    >
      <Icon name="chevron" />
    </button>
  );
  return (
    <span className="versions" role="group" aria-label={`Versions of this ${of}`}>
      {arrow(at - 1, `Former ${of}`)}
      <span className="of">
        {at + 1}/{ids.length}
      </span>
      {arrow(at + 1, `Next ${of}`)}
    </span>
  );
}
