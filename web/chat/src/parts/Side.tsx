/** Side.tsx -- the conversations, most recently changed first, with a mark where work runs. */

import type { ConversationSummary, Outgoing } from "@holdfast/client";
import { Fragment, useEffect } from "react";
import { gateway } from "../gateway";
import { usePage } from "../page";
import { useWatched } from "../watch";
import { dayOf, plural, timeAgo } from "../words";
import type { ShowMenu } from "./ConversationMenu";
import { Icon } from "./Icon";
import { LookButton } from "./LookButton";
import { Mark } from "./Mark";

interface Props {
  current: string | null;
  begin(): void;
  leave(): void;
  showMenu: ShowMenu;
}

interface Row {
  id: string;
  title: string;
  at: number;
  running: number;
  /** It was sent, and has not started. */
  waits: boolean;
}

const rowOf = ({ conversation_id: id, title, running = 0, updated_at: at }: ConversationSummary): Row => ({
  id,
  title: title || "Untitled conversation",
  at,
  running,
  waits: false,
});

/** Conversations whose first message has not started are not in the gateway's list. */
function waitingRows(outbox: readonly Outgoing[], listed: readonly ConversationSummary[]): Row[] {
  const known = new Set(listed.map(({ conversation_id }) => conversation_id));
  const rows = new Map<string, Row>();
  for (const { conversationId: id, text, askedAt: at } of outbox) {
    if (!known.has(id) && !rows.has(id)) rows.set(id, { id, title: text.slice(0, 80), at, running: 0, waits: true });
  }
  return [...rows.values()].reverse();
}

/** Keeps the given order: those of today, of yesterday … */
function byDay(rows: readonly Row[]): { name: string; rows: Row[] }[] {
  const groups: { name: string; rows: Row[] }[] = [];
  for (const row of rows) {
    const name = dayOf(row.at);
    if (groups.at(-1)?.name !== name) groups.push({ name, rows: [] });
    groups.at(-1)!.rows.push(row);
  }
  return groups;
}

interface RowProps {
  row: Row;
  isCurrent: boolean;
  leave(): void;
  showMenu: ShowMenu;
}

function ConversationRow({ row: { id, title, at, running, waits }, isCurrent, leave, showMenu }: RowProps) {
  return (
    <li data-conversation-id={id}>
      <a href={`#${id}`} aria-current={isCurrent ? "page" : undefined} onClick={leave}>
        <span className="title">{title}</span>
        {running > 0 ? (
          <span className="running" title={`${plural(running, "task")} running`}>
            <span className="sr">{plural(running, "task")} running</span>
          </span>
        ) : waits ? (
          <span className="waits">waits</span>
        ) : (
          <time dateTime={new Date(at).toISOString()}>{timeAgo(at)}</time>
        )}
      </a>
      {!waits && (
        <button
          type="button"
          className="icon-button more"
          aria-label={`More of ${title}`}
          aria-haspopup="true"
          title="Rename, save, delete"
          onClick={({ currentTarget: from }) => showMenu({ id, title, from })}
        >
          <Icon name="more" />
        </button>
      )}
    </li>
  );
}

export function Side({ current, begin, leave, showMenu }: Props) {
  const list = useWatched(gateway.conversations);
  useEffect(() => {
    list.open();
    return () => list.close();
  }, [list]);
  const { outbox } = useWatched(gateway);
  const groups = byDay([...waitingRows(outbox, list.items), ...list.items.map(rowOf)]);
  return (
    <aside id="side" aria-label="Conversations">
      <header>
        <Mark />
        <strong>{usePage().name}</strong>
        <LookButton />
      </header>
      <button id="new" type="button" className="quiet" onClick={begin}>
        <Icon name="plus" /> New conversation
      </button>
      <nav aria-label="Conversations">
        <ul id="conversations">
          {groups.map(({ name, rows }) => (
            <Fragment key={name}>
              <li className="day" aria-hidden="true">
                {name}
              </li>
              {rows.map((row) => (
                <ConversationRow key={row.id} row={row} isCurrent={row.id === current} leave={leave} showMenu={showMenu} />
              ))}
            </Fragment>
          ))}
        </ul>
        {list.loaded && groups.length === 0 && <p className="hint nothing">What you ask stands here.</p>}
      </nav>
      {list.hasOlder && (
        <button id="older" type="button" className="quiet" onClick={() => void list.older()}>
          Older conversations
        </button>
      )}
    </aside>
  );
}
