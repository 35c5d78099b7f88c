/** Versions.tsx -- the arrows between the versions of a question, or of an answer. */

import type { Conversation } from "@holdfast/client";
import { choose, type Versions as Its } from "@holdfast/client/branches";
import { useEffect, useRef } from "react";
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

/** The arrow that was pressed: another version is another turn, which has the focus then. */
let pressed: { among: string | null; to: number; way: string } | null = null;

function useReturn(its: Its | null) {
  const box = useRef<HTMLSpanElement>(null);
  const among = its?.ids[0];
  const at = its?.at;
  useEffect(() => {
    if (!pressed || pressed.among !== among || pressed.to !== at) return;
    const { way } = pressed;
    pressed = null;
    (box.current?.querySelector<HTMLElement>(`.${way}:enabled`) ?? box.current?.querySelector<HTMLElement>("button:enabled"))?.focus();
  }, [among, at]);
  return box;
}

export function Versions({ its, of, conversation, task }: Props) {
  const box = useReturn(its);
  if (!its || its.at < 0) return null;
  const { ids, at } = its;
  const go = (to: number, way: string) => {
    const its = (pressed = { among: ids[0]!, to, way });
    void choose(gateway, conversation, ids[to] ?? task).catch(() => {
      if (pressed === its) pressed = null;
    });
  };
  const arrow = (to: number, way: "former" | "next", label: string) => (
    <button
      type="button"
      className={`quiet ${way}`}
      aria-label={label}
      title={label}
      disabled={ids[to] === undefined || link !== null}
      onClick={() => go(to, way)}
      onBlur={({ relatedTarget }) => relatedTarget && (pressed = null)} // the user is elsewhere when it comes
    >
      <Icon name="chevron" />
    </button>
  );
  return (
    <span ref={box} className="versions" role="group" aria-label={`Versions of this ${of}`}>
      {arrow(at - 1, "former", `Former ${of}`)}
      <span className="of">
        {at + 1}/{ids.length}
      </span>
      {arrow(at + 1, "next", `Next ${of}`)}
    </span>
  );
}
