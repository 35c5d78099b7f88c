/** ConversationMenu.tsx -- what can be done with a conversation: one menu, and its dialogs, for the whole page. */

import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { saveAll, saveText } from "../export";
import { gateway } from "../gateway";
import { sentenceOf, type Wrong } from "../trouble";
import { Icon } from "./Icon";

/** The conversation, and the button to which the focus returns. */
export interface Target {
  id: string;
  title: string;
  from: HTMLElement;
  isPinned: boolean;
  isArchived: boolean;
}

/** Where it stands in the list. */
export const standsIn = ({ pinned = false, archived = false }: { pinned?: boolean; archived?: boolean } = {}) => ({
  isPinned: pinned,
  isArchived: archived,
});

export type ShowMenu = (target: Target) => void;

interface Props {
  target: Target | null;
  /** It was deleted. */
  gone(id: string): void;
  share(target: Target): void;
}

const pin = (conversation_id: string, pinned: boolean) => gateway.request("pin", { conversation_id, pinned });
const archive = (conversation_id: string, archived: boolean) => gateway.request("archive", { conversation_id, archived });

const GAP = 4; // px between the button and the menu

export function ConversationMenu({ target, gone, share }: Props) {
  const menu = useRef<HTMLDivElement>(null);
  const rename = useRef<HTMLDialogElement>(null);
  const remove = useRef<HTMLDialogElement>(null);
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    if (!target) return;
    setWrong("");
    menu.current!.showPopover();
    place(menu.current!, target.from);
    menu.current!.querySelector("button")!.focus();
  }, [target]);

  const { id = "", title = "", from, isPinned = false, isArchived = false } = target ?? {};
  const opens = (dialog: React.RefObject<HTMLDialogElement | null>) => () => {
    menu.current!.hidePopover();
    dialog.current!.showModal();
  };
  const tried = (what: Promise<unknown>) => what.catch((error: Wrong) => setWrong(sentenceOf(error)));
  /** Does it, and is back at the button. */
  const does = (what: () => Promise<unknown>) => () => {
    menu.current!.hidePopover();
    from?.focus();
    void tried(what());
  };
  return (
    <>
      <div ref={menu} id="conversation-menu" className="menu" popover="auto" role="group" aria-label={`Conversation ${title}`} onKeyDown={moveFocus}>
        <button type="button" className="quiet" onClick={opens(rename)}>
          <Icon name="pen" /> Rename
        </button>
        <button type="button" className="quiet" onClick={does(() => pin(id, !isPinned))}>
          <Icon name="pin" /> {isPinned ? "Unpin" : "Pin"}
        </button>
        <button
          type="button"
          className="quiet"
          onClick={() => {
            menu.current!.hidePopover();
            share(target!);
          }}
        >
          <Icon name="link" /> Share
        </button>
        <button type="button" className="quiet" onClick={does(() => saveText(id, title))}>
          <Icon name="save" /> Save as Markdown
        </button>
        <button type="button" className="quiet" onClick={does(() => saveAll(id, title))}>
          <Icon name="save" /> Save everything
        </button>
        <button type="button" className="quiet" onClick={does(() => archive(id, !isArchived))}>
          <Icon name="archive" /> {isArchived ? "Out of the archive" : "Archive"}
        </button>
        <button type="button" className="quiet danger" onClick={opens(remove)}>
          <Icon name="trash" /> Delete
        </button>
      </div>
      {wrong !== "" && (
        <p id="menu-wrong" role="alert">
          <Icon name="warning" /> {wrong}
          <button type="button" className="icon-button" aria-label="Dismiss" onClick={() => setWrong("")}>
            <Icon name="close" />
          </button>
        </p>
      )}
      <dialog ref={rename} aria-label="Rename the conversation" onClose={() => from?.focus()}>
        <form
          key={id + title}
          onSubmit={(event) => {
            event.preventDefault();
            const wanted = String(new FormData(event.currentTarget).get("title")).trim();
            if (wanted !== "") void tried(gateway.conversation(id).rename(wanted));
            rename.current!.close();
          }}
        >
          <h2>Rename the conversation</h2>
          <input name="title" defaultValue={title} maxLength={120} aria-label="Title" autoFocus />
          <div className="row end">
            <button type="button" className="quiet" onClick={() => rename.current!.close()}>
              Back
            </button>
            <button type="submit">Rename</button>
          </div>
        </form>
      </dialog>
      <dialog ref={remove} aria-label="Delete the conversation">
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
              void tried(gateway.conversation(id).delete().then(() => gone(id)));
            }}
          >
            Delete
          </button>
        </div>
      </dialog>
    </>
  );
}

/** Below the button, or above it where there is no room below. */
function place(menu: HTMLElement, button: HTMLElement) {
  const at = button.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const hasRoom = at.bottom + GAP + height <= innerHeight;
  menu.style.top = `${Math.max(GAP, hasRoom ? at.bottom + GAP : at.top - GAP - height)}px`;
  menu.style.left = `${Math.max(GAP, Math.min(at.left, innerWidth - width - 2 * GAP))}px`;
}

function moveFocus(event: KeyboardEvent<HTMLElement>) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const all = [...event.currentTarget.querySelectorAll("button")];
  const at = all.indexOf(document.activeElement as HTMLButtonElement);
  all.at((at + step) % all.length)!.focus();
}
