/** Side.tsx -- the conversations, those with the newest change first, with a mark where work runs. */

import { useEffect } from "react";
import { gateway } from "../gateway";
import { useWatched } from "../watch";
import { plural, timeAgo } from "../words";
import { Icon, Mark } from "./Icon";
import { LookButton } from "./LookButton";

interface Props {
  current: string | null;
  begin(): void;
  leave(): void;
}

export function Side({ current, begin, leave }: Props) {
  const list = useWatched(gateway.conversations);
  useEffect(() => {
    list.open();
    return () => list.close();
  }, [list]);
  return (
    <aside id="side" aria-label="Conversations">
      <header>
        <Mark />
        <strong>Holdfast</strong>
        <LookButton />
      </header>
      <button id="new" type="button" className="quiet" onClick={begin}>
        <Icon name="plus" /> New conversation
      </button>
      <nav aria-label="Conversations">
        <ul id="conversations">
          {list.items.map(({ conversation_id: id, title, running = 0, updated_at }) => (
            <li key={id} data-conversation-id={id}>
              <a href={`#${id}`} aria-current={id === current ? "page" : undefined} onClick={leave}>
                <span className="title">{title || id}</span>
                {running > 0 ? (
                  <span className="running" title={`${plural(running, "task")} running`}>
                    <span className="sr">{plural(running, "task")} running</span>
                  </span>
                ) : (
                  <time dateTime={new Date(updated_at).toISOString()}>{timeAgo(updated_at)}</time>
                )}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      {list.hasOlder && (
        <button id="older" type="button" className="quiet" onClick={() => void list.older()}>
          Older conversations
        </button>
      )}
    </aside>
  );
}
