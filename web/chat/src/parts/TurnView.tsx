/**
 * TurnView.tsx -- one turn of the conversation: the question and its outcome.
 *
 * It is drawn again when its task has changed.  During a replay it stays unchanged, and then shows
 * everything at once.
 */

import type { Conversation, Task, Turn } from "@holdfast/client";
import { versions } from "@holdfast/client/branches";
import { memo, useEffect, useRef } from "react";
import { isBehind } from "../behind";
import { filesOf } from "../files";
import { Actions } from "./Actions";
import { Asked, Question } from "./Asked";
import { Sending } from "./Sending";
import { Work } from "./Work";

interface Props {
  turn: Turn;
  conversation: Conversation;
  tasks: readonly Task[];
  /** Covers everything in the turn: a new version is a new rendering. */
  version: string;
  /** Puts a text into the message field. */
  edit(text: string): void;
}

export function versionOf(turn: Turn, children: readonly Task[], conversation: Conversation): string {
  const drawn = [turn.task, turn.outgoing, ...children].map((each) => each?.version ?? 0);
  const files = filesOf(conversation, turn).map(({ file_id }) => file_id);
  return `${drawn.join(" ")} ${JSON.stringify(versions(conversation, turn))} ${files.join(" ")}`;
}

function isAsShown(shown: Props, next: Props): boolean {
  const { task, input, text, partial, notice } = next.turn;
  if (task && isBehind(task) && shown.turn.task === task) return true;
  const was = shown.turn;
  return (
    shown.version === next.version &&
    was.task === task &&
    was.text === text &&
    was.input === input &&
    was.partial === partial &&
    was.notice === notice
  );
}

export const TurnView = memo(({ turn, conversation, tasks, edit }: Props) => {
  const { task, input, notice, outgoing } = turn;
  const element = useRef<HTMLElement>(null);
  useFollowed(element, task);
  const status = task?.status ?? statusOf(turn);
  const { question, answer } = versions(conversation, turn);
  return (
    <article
      ref={element}
      className="turn"
      data-key={turn.key}
      data-task-id={outgoing ? undefined : turn.key}
      data-status={outgoing ? undefined : status}
      aria-label={(input || notice || "Turn").slice(0, 120)}
    >
      {input !== null && outgoing && (
        <Question input={input} files={filesOf(conversation, turn)} conversationId={conversation.id} />
      )}
      {input !== null && !outgoing && (
        <Asked turn={turn} input={input} conversation={conversation} versions={question} />
      )}
      {notice !== null && <div className="notice">{notice}</div>}
      {outgoing && <Sending outgoing={outgoing} edit={edit} />}
      {!outgoing && (
        <div className="told">
          <Work said={turn} all={tasks} />
          <Actions turn={turn} conversation={conversation} versions={answer} />
        </div>
      )}
    </article>
  );
}, isAsShown);

/** As far as a message shows it, for a task older than those listed. */
const statusOf = ({ text, partial }: Turn) =>
  partial ? "failed" : text === "" ? "pending" : "completed";

/** Events of an ended task besides its answer are fetched when the turn comes into view. */
function useFollowed(element: React.RefObject<HTMLElement | null>, task: Task | null) {
  useEffect(() => {
    if (!task || !element.current) return;
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      task.follow();
      watcher.disconnect();
    });
    watcher.observe(element.current);
    return () => watcher.disconnect();
  }, [element, task]);
}
