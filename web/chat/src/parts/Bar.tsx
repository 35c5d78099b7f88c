/** Bar.tsx -- the top of the page: the conversation, the state of the connection, stop buttons. */

import type { Conversation, Task } from "@holdfast/client";
import { gateway } from "../gateway";
import { useWatched } from "../watch";
import { ConnectionState } from "./ConnectionState";
import { standsIn, type ShowMenu } from "./ConversationMenu";
import { Icon } from "./Icon";

interface Props {
  conversation: Conversation;
  isNew: boolean;
  menu: { open: boolean; show(): void };
  tray: { open: boolean; toggle(): void; running: number; fresh: number };
  showMenu: ShowMenu;
}

export function Bar({ conversation, isNew, menu, tray, showMenu }: Props) {
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
          title="Stop all that runs here"
          onClick={() => void conversation.cancelAll().catch(() => {})}
        >
          <Icon name="stop" /> <span>Stop all</span>
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
      {!isNew && listed && (
        <button
          id="more"
          type="button"
          className="icon-button"
          aria-label="More"
          aria-haspopup="true"
          title="Rename, share, save, delete"
          onClick={({ currentTarget: from }) => showMenu({ id: conversation.id, title: title || "Conversation", from, ...standsIn(listed) })}
        >
          <Icon name="more" />
        </button>
      )}
    </header>
  );
}

const trayLabel = ({ running, fresh }: { running: number; fresh: number }) =>
  `Background tasks: ${running} running, ${fresh} new`;
