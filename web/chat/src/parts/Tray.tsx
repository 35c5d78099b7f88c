/** Tray.tsx -- the background tasks of a conversation, running and ended. */

import type { Conversation, Task } from "@holdfast/client";
import { useEffect, useState } from "react";
import { useWatched } from "../watch";
import { Icon } from "./Icon";
import { childrenOf, TaskRow, TaskTree } from "./TaskTree";

export const inTray = (tasks: readonly Task[]): Task[] => {
  const known = new Set(tasks.map(({ id }) => id));
  const isRoot = ({ summary }: Task) =>
    summary.type === "background" || (summary.type === "child" && !known.has(summary.parent?.task_id ?? ""));
  return tasks.filter(isRoot).toReversed();
};

/** The state of a conversation's tasks, for the rest of the page. */
const stateOf = ({ tasks, loaded }: Conversation) =>
  `${loaded} ${tasks.map(({ id, status, cancelling }) => `${id} ${status} ${cancelling}`).join()}`;

/** Ids of the answers that nobody has acknowledged. */
export function useFresh(conversation: Conversation) {
  useWatched(conversation, stateOf);
  const [fresh, setFresh] = useState<ReadonlySet<string>>(new Set());
  const ended = inTray(conversation.tasks).filter(({ live }) => !live).length;
  useEffect(() => {
    if (ended === 0) return setFresh(new Set());
    let current = true;
    const take = (ids: string[]) => current && setFresh(new Set(ids));
    conversation.results({ limit: 200 }).then(
      ({ results }) => take(results.map(({ task_id }) => task_id)),
      () => {},
    );
    return () => {
      current = false;
    };
  }, [conversation, ended]);
  const acknowledge = (ids: string[]) => {
    setFresh(new Set([...fresh].filter((id) => !ids.includes(id))));
    void conversation.acknowledge(ids).catch(() => {});
  };
  return { fresh, acknowledge };
}

interface Props {
  conversation: Conversation;
  fresh: ReadonlySet<string>;
  acknowledge(ids: string[]): void;
  close(): void;
}

export function Tray({ conversation, fresh, acknowledge, close }: Props) {
  useWatched(conversation);
  const all = conversation.tasks;
  const tasks = inTray(all);
  return (
    <aside id="tray" aria-label="Background tasks">
      <header>
        <h2>Background</h2>
        {fresh.size > 0 && (
          <button
            type="button"
            className="quiet"
            onClick={({ currentTarget }) => {
              (currentTarget.nextElementSibling as HTMLElement).focus(); // this one goes
              acknowledge([...fresh]);
            }}
          >
            <Icon name="check" /> Seen
          </button>
        )}
        <button type="button" className="icon-button" aria-label="Close the tray" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      {tasks.length === 0 && (
        <p className="hint">Nothing runs in the background. Press “Background” beside the message to start something there.</p>
      )}
      <ul>
        {tasks.map((task) => (
          <li key={task.id} data-fresh={fresh.has(task.id) || undefined}>
            <TaskRow task={task} />
            {childrenOf(task.id, all).length > 0 && <TaskTree parent={task.id} all={all} />}
          </li>
        ))}
      </ul>
    </aside>
  );
}
