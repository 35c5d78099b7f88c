/** Side.tsx -- the conversations, most recently changed first, with a mark where work runs. */

import type { ConversationSummary, Outgoing } from "@holdfast/client";
import { useEffect, useRef, useState } from "react";
import { byDay } from "../days";
import { takeIn } from "../export";
import { gateway } from "../gateway";
import { usePage } from "../page";
import { goTo } from "../route";
import { sentenceOf, type Wrong } from "../trouble";
import { useWatched } from "../watch";
import { plural, timeAgo } from "../words";
import { standsIn, type ShowMenu } from "./ConversationMenu";
import { Icon } from "./Icon";
import { LookButton } from "./LookButton";
import { Mark } from "./Mark";
import { SearchField, SearchResults, type Target } from "./Search";
import { SignOut } from "./SignOut";

interface Props {
  current: string | null;
  begin(): void;
  leave(): void;
  showMenu: ShowMenu;
  /** To a message that was found. */
  go(target: Target): void;
  /** Opens what hands over to another device. */
  handOver(): void;
}

interface Row {
  id: string;
  title: string;
  at: number;
  running: number;
  /** It was sent, and has not started. */
  waits: boolean;
  isPinned: boolean;
  isArchived: boolean;
}

const rowOf = ({ conversation_id: id, title, running = 0, updated_at: at, pinned, archived }: ConversationSummary): Row => ({
  id,
  title: title || "Untitled conversation",
  at,
  running,
  waits: false,
  ...standsIn({ pinned, archived }),
});

/** Conversations whose first message has not started are not in the gateway's list. */
function waitingRows(outbox: readonly Outgoing[], listed: readonly ConversationSummary[]): Row[] {
  const known = new Set(listed.map(({ conversation_id }) => conversation_id));
  const rows = new Map<string, Row>();
  for (const { conversationId: id, text, askedAt: at } of outbox) {
    if (!known.has(id) && !rows.has(id)) rows.set(id, { id, title: text.slice(0, 80), at, running: 0, waits: true, ...standsIn() });
  }
  return [...rows.values()].reverse();
}

/** The conversations in the order in which they stand here. */
export const inOrder = (items: readonly ConversationSummary[]): ConversationSummary[] => [
  ...items.filter(({ pinned, archived }) => pinned && !archived),
  ...items.filter(({ pinned, archived }) => !pinned && !archived),
];

interface RowProps {
  row: Row;
  isCurrent: boolean;
  leave(): void;
  showMenu: ShowMenu;
}

function ConversationRow({ row, isCurrent, leave, showMenu }: RowProps) {
  const { id, title, at, running, waits, isPinned, isArchived } = row;
  return (
    <li data-conversation-id={id}>
      <a href={`#${id}`} aria-current={isCurrent ? "page" : undefined} onClick={leave}>
        <span className="title" title={`${title}\n${timeAgo(at)}`}>
          {title}
        </span>
        {running > 0 ? (
          <span className="running" title={`${plural(running, "task")} running`}>
            <span className="sr">{plural(running, "task")} running</span>
          </span>
        ) : waits ? (
          <span className="waits">waits</span>
        ) : (
          <time className="sr" dateTime={new Date(at).toISOString()}>
            {timeAgo(at)}
          </time>
        )}
      </a>
      {!waits && (
        <button
          type="button"
          className="icon-button more"
          aria-label={`More of ${title}`}
          aria-haspopup="true"
          title="Rename, share, save, delete"
          onClick={({ currentTarget: from }) => showMenu({ id, title, from, isPinned, isArchived })}
        >
          <Icon name="more" />
        </button>
      )}
    </li>
  );
}

/** Pinned ones may stand far below the pages that are loaded. */
function usePinned() {
  const { welcome } = useWatched(gateway);
  useEffect(() => {
    if (welcome) void gateway.conversations.also({ pinned: true }).catch(() => {});
  }, [welcome]);
}

/** The archive, page by page, once it is opened. */
function useArchive() {
  const [isOpen, setOpen] = useState(false);
  const [before, setBefore] = useState<string | undefined>();
  const [hasMore, setMore] = useState(false);
  const load = async (from?: string) => {
    const { conversations, more } = await gateway.conversations.also({ archived: true, before: from });
    setBefore(conversations.at(-1)?.conversation_id);
    setMore(Boolean(more));
  };
  const toggle = () => {
    setOpen(!isOpen);
    if (!isOpen) void load().catch(() => {});
  };
  return { isOpen, toggle, more: hasMore ? () => void load(before).catch(() => {}) : null };
}

export function Side({ current, begin, leave, showMenu, go, handOver }: Props) {
  const [query, setQuery] = useState("");
  const { name } = usePage();
  useEffect(() => {
    gateway.conversations.open();
    return () => gateway.conversations.close();
  }, []);
  usePinned();
  return (
    <aside id="side" aria-label="Conversations">
      <header>
        <Mark />
        <strong>{name}</strong>
        <button type="button" id="hand-over" className="icon-button" aria-label="Continue on another device" title="Continue on another device" onClick={handOver}>
          <Icon name="phone" />
        </button>
        <LookButton />
      </header>
      <button id="new" type="button" className="quiet" onClick={begin}>
        <Icon name="plus" /> New conversation
      </button>
      <SearchField text={query} change={setQuery} />
      {query.trim() !== "" ? (
        <SearchResults text={query} go={go} leave={leave} />
      ) : (
        <List current={current} leave={leave} showMenu={showMenu} />
      )}
    </aside>
  );
}

function List({ current, leave, showMenu }: Pick<Props, "current" | "leave" | "showMenu">) {
  const list = useWatched(gateway.conversations);
  const archive = useArchive();
  const { outbox } = useWatched(gateway);
  const rows = [...waitingRows(outbox, list.items), ...list.items.map(rowOf)];
  const archived = rows.filter(({ isArchived }) => isArchived);
  const listed = byDay(rows.filter(({ isArchived }) => !isArchived));
  // Rows are siblings in whatever group they stand: one that moves is not made anew, and keeps the focus.
  const groups = archive.isOpen ? [...listed, { name: "Archive", rows: archived }] : listed;
  const show = (row: Row) => (
    <ConversationRow key={row.id} row={row} isCurrent={row.id === current} leave={leave} showMenu={showMenu} />
  );
  return (
    <>
      <nav aria-label="Conversations">
        <ul id="conversations">
          {groups.flatMap(({ name, rows }) => [
            <li key={`day ${name}`} className="day" aria-hidden="true">
              {name}
            </li>,
            ...rows.map(show),
          ])}
        </ul>
        {list.loaded && listed.length === 0 && <p className="hint nothing">What you ask stands here.</p>}
        {archive.isOpen && archived.length === 0 && <p className="hint nothing">The archive is empty.</p>}
      </nav>
      {list.hasOlder && (
        <button id="older" type="button" className="quiet" onClick={() => void list.older()}>
          Older conversations
        </button>
      )}
      {archive.more && archive.isOpen && (
        <button type="button" className="quiet" onClick={archive.more}>
          More of the archive
        </button>
      )}
      <footer>
        <button id="archive" type="button" className="quiet" aria-expanded={archive.isOpen} onClick={archive.toggle}>
          <Icon name="archive" /> Archive
        </button>
        <TakeIn done={leave} />
        <SignOut />
      </footer>
    </>
  );
}

/** Makes a conversation of a file that “Save everything” has made, here or at another gateway. */
function TakeIn({ done }: { done(): void }) {
  const field = useRef<HTMLInputElement>(null);
  const [wrong, setWrong] = useState("");
  const take = async (file: File | undefined) => {
    if (!file) return;
    setWrong("");
    try {
      goTo(await takeIn(file));
      done();
    } catch (error) {
      const { code, message } = error as Wrong;
      setWrong(code === "bad_request" || code === "too_large" ? `${file.name}: ${message}` : sentenceOf(error as Wrong));
    }
  };
  return (
    <>
      <button id="take-in" type="button" className="quiet" title="Import a conversation that was saved as a whole" onClick={() => field.current!.click()}>
        <Icon name="open" /> Import
      </button>
      <input
        ref={field}
        type="file"
        hidden
        accept=".jsonl,.ndjson,application/x-ndjson"
        aria-label="A saved conversation"
        onChange={({ currentTarget }) => {
          void take(currentTarget.files?.[0]);
          currentTarget.value = "";
        }}
      />
      {wrong !== "" && (
        <p className="trouble" role="alert">
          {wrong}
        </p>
      )}
    </>
  );
}
