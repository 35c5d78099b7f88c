/**
 * TurnView.tsx -- one turn of the conversation: what was asked, and what came of it.
 *
 * It is drawn again when its task has changed.  While a replay runs it stays as it was, and then
 * shows all of it at once.
 */

import type { Conversation, Outgoing, Task, Turn } from "@holdfast/client";
import { memo, useEffect, useRef } from "react";
import { isBehind } from "../behind";
import { duration } from "../words";
import { CopyButton } from "./CopyButton";
import { Icon } from "./Icon";
import { TaskTree } from "./TaskTree";
import { Work } from "./Work";

interface Props {
  turn: Turn;
  conversation: Conversation;
  tasks: readonly Task[];
  /** Of all that stands in the turn: another number, another look. */
  version: string;
}

export const versionOf = ({ task, outgoing }: Turn, children: readonly Task[]): string =>
  [task, outgoing, ...children].map((each) => each?.version ?? 0).join(" ");

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

export const TurnView = memo(({ turn, conversation, tasks }: Props) => {
  const { task, input, notice, text, outgoing } = turn;
  const element = useRef<HTMLElement>(null);
  useFollowed(element, task);
  const status = task?.status ?? statusOf(turn);
  return (
    <article
      ref={element}
      className="turn"
      data-task-id={outgoing ? undefined : turn.key}
      data-status={outgoing ? undefined : status}
      aria-label={input ?? notice ?? "Turn"}
    >
      {input !== null && <div className="asked">{input}</div>}
      {notice !== null && <div className="notice">{notice}</div>}
      {outgoing && <Sending outgoing={outgoing} />}
      {!outgoing && (
        <div className="told">
          <Work said={turn} />
          {task && <TaskTree parent={task.id} all={tasks} />}
          <Actions turn={turn} conversation={conversation} text={text} />
        </div>
      )}
    </article>
  );
}, isAsShown);

/** As far as a message tells, for a task older than those listed. */
const statusOf = ({ text, partial }: Turn) =>
  partial ? "failed" : text === "" ? "pending" : "completed";

/** What an ended task did besides its answer is fetched when the turn comes into view. */
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

function Actions({ turn, conversation, text }: { turn: Turn; conversation: Conversation; text: string }) {
  const { task, input } = turn;
  if (task?.live) {
    return (
      <button
        type="button"
        className="quiet cancel"
        disabled={task.cancelling}
        onClick={() => void task.cancel({ tree: true }).catch(() => {})}
      >
        <Icon name="stop" /> Stop
      </button>
    );
  }
  const failed = task?.status === "failed" || task?.status === "cancelled";
  const { started_at, completed_at } = task?.summary ?? {};
  return (
    <div className="actions">
      {text !== "" && <CopyButton label="Copy answer" text={() => text} />}
      {failed && input !== null && (
        <button
          type="button"
          className="quiet retry"
          onClick={() => conversation.ask(input, { agent: task?.summary.agent, when_busy: "enqueue" })}
        >
          <Icon name="retry" /> Try again
        </button>
      )}
      {task && (
        <a className="quiet inspect" href={`inspector.html#${conversation.id}/${task.id}`} title="Inspect the stream">
          <Icon name="inspect" />
          <span className="sr">Inspect the stream</span>
        </a>
      )}
      {started_at && completed_at ? <span className="took">{duration(completed_at - started_at)}</span> : null}
    </div>
  );
}

/** A question on its way. */
function Sending({ outgoing }: { outgoing: Outgoing }) {
  const { state, error } = outgoing;
  if (state !== "failed") {
    return <p className="marks">{state === "queued" ? "waiting to be sent…" : "sending…"}</p>;
  }
  return (
    <div className="row unsent">
      <p className="marks">Not sent: {error?.message}</p>
      <button type="button" className="quiet" onClick={() => outgoing.retry()}>
        <Icon name="retry" /> Try again
      </button>
      <button type="button" className="quiet" onClick={() => outgoing.discard()}>
        Discard
      </button>
    </div>
  );
}
