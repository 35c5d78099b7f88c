/** Bar.tsx -- the top of the page: the conversation, the state of the connection, stop buttons. */

import type { Conversation, Task } from "@holdfast/client";
import { useRef } from "react";
import { gateway } from "../gateway";
import { useWatched } from "../watch";
import { ConnectionState } from "./ConnectionState";
import { Icon } from "./Icon";

interface Props {
  conversation: Conversation;
  isNew: boolean;
  menu: { open: boolean; show(): void };
  tray: { open: boolean; toggle(): void; running: number; fresh: number };
  gone(): void;
}

export function Bar({ conversation, isNew, menu, tray, gone }: Props) {
  useWatched(conversation);
  const list = useWatched(gateway.conversations);
  const listed = list.items.find(({ conversation_id: id }) => id === conversation.id);
  const title = listed?.title || conversation.outgoing[0]?.text.slice(0, 80);
  const live = conversation.tasks.filter((task: Task) => task.live && !task.cancelling);
  return (
    <header id="bar">
      <button
        id="menu"
        type="button"
        className="icon-button"
        aria-controls="side"
        aria-expanded={menu.open}
        aria-label="Conversations"
        onClick={menu.show}
      >
        <Icon name="menu" />
      </button>
      <h1 id="title">{title || (isNew ? "New conversation" : "Conversation")}</h1>
      <ConnectionState tasks={conversation.tasks} />
      {live.length > 1 && (
        <button
          id="stop-all"
          type="button"
          className="quiet danger"
          onClick={() => void conversation.cancelAll().catch(() => {})}
        >
          <Icon name="stop" /> Stop <span>all</span>
        </button>
      )}
      <button
        id="tray-button"
        type="button"
        className="icon-button"
        aria-controls="tray"
        aria-expanded={tray.open}
        aria-label={trayLabel(tray)}
        title="Background tasks"
        onClick={tray.toggle}
      >
        <Icon name="tray" />
        {tray.running + tray.fresh > 0 && (
          <span className="badge" data-fresh={tray.fresh > 0 || undefined} aria-hidden="true">
            {tray.fresh || tray.running}
          </span>
        )}
      </button>
      {!isNew && listed && <More conversation={conversation} title={title || "Conversation"} gone={gone} />}
    </header>
  );
}

const trayLabel = ({ running, fresh }: { running: number; fresh: number }) =>
  `Background tasks: ${running} running, ${fresh} new`;

/** The rarely used actions of a conversation. */
function More({ conversation, title, gone }: { conversation: Conversation; title: string; gone(): void }) {
  const rename = useRef<HTMLDialogElement>(null);
  const remove = useRef<HTMLDialogElement>(null);
  const name = useRef<HTMLInputElement>(null);
  const menu = useRef<HTMLElement>(null);
  const back = () => {
    (menu.current!.parentElement as HTMLDetailsElement).open = false;
    menu.current!.focus();
  };
  return (
    <>
      <details className="more" onBlur={closeWhenLeft}>
        <summary ref={menu} className="icon-button" aria-label="More" title="More">
          <Icon name="more" />
        </summary>
        <div className="menu">
          <button type="button" className="quiet" onClick={() => rename.current!.showModal()}>
            <Icon name="pen" /> Rename
          </button>
          <button type="button" className="quiet danger" onClick={() => remove.current!.showModal()}>
            <Icon name="trash" /> Delete
          </button>
        </div>
      </details>
      <dialog ref={rename} aria-label="Rename the conversation" onClose={back}>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const wanted = name.current!.value.trim();
            if (wanted !== "") void conversation.rename(wanted);
            rename.current!.close();
          }}
        >
          <h2>Rename the conversation</h2>
          <input ref={name} defaultValue={title} maxLength={120} aria-label="Title" autoFocus />
          <div className="row end">
            <button type="button" className="quiet" onClick={() => rename.current!.close()}>
              Back
            </button>
            <button type="submit">Rename</button>
          </div>
        </form>
      </dialog>
      <dialog ref={remove} aria-label="Delete the conversation" onClose={back}>
        <h2>Delete “{title}”?</h2>
        <p>Its tasks are stopped, and everything that was said goes. There is no way back.</p>
        <div className="row end">
          <button type="button" className="quiet" onClick={() => remove.current!.close()}>
            Back
          </button>
          <button
            type="button"
            className="danger"
            onClick={() => {
              remove.current!.close();
              void conversation.delete().then(gone);
            }}
          >
            Delete
          </button>
        </div>
      </dialog>
    </>
  );
}

function closeWhenLeft({ currentTarget, relatedTarget }: React.FocusEvent<HTMLDetailsElement>) {
  if (!currentTarget.contains(relatedTarget)) currentTarget.open = false;
}
