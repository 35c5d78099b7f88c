/** Chooser.tsx -- chooses the stream to inspect: a task of the user's, or a file. */

import type { Task } from "@holdfast/client";
import { useEffect, useState } from "react";
import { gateway } from "../gateway";
import { TaskMark } from "../parts/TaskMark";
import { nameOf } from "../parts/TaskTree";
import { useWatched } from "../watch";
import { plural, timeAgo } from "../words";

export function Chooser() {
  const list = useWatched(gateway.conversations);
  useEffect(() => {
    list.open();
    return () => list.close();
  }, [list]);
  return (
    <section className="chooser" aria-label="Conversations">
      <p className="hint">Choose a conversation, and one of its tasks; or open a file that was saved here.</p>
      <ul>
        {list.items.map(({ conversation_id: id, title, updated_at }) => (
          <li key={id}>
            <Tasks id={id} title={title || id} time={timeAgo(updated_at)} />
          </li>
        ))}
      </ul>
      {list.loaded && list.items.length === 0 && <p className="hint">You have no conversations yet.</p>}
    </section>
  );
}

function Tasks({ id, title, time }: { id: string; title: string; time: string }) {
  const [tasks, setTasks] = useState<readonly Task[] | null>(null);
  const load = async () => {
    const listed = await gateway.conversation(id).listTasks({ limit: 200 });
    setTasks(listed.tasks.toReversed());
  };
  return (
    <details className="card" onToggle={({ currentTarget }) => void (currentTarget.open && !tasks && load())}>
      <summary>
        <span className="name">{title}</span>
        <span className="took">{time}</span>
      </summary>
      <ul>
        {tasks?.map((task) => (
          <li key={task.id}>
            <a href={`#${id}/${task.id}`}>
              <TaskMark status={task.status} />
              <span className="name">{nameOf(task)}</span>
              <span className="took">{plural(task.summary.head ?? 0, "event")}</span>
            </a>
          </li>
        ))}
      </ul>
    </details>
  );
}
