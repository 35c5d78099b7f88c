/** Shortcuts.tsx -- the keyboard shortcuts, and the list of them. */

import { useEffect, useRef } from "react";
import { isWriting } from "../keyboard";

interface Props {
  write(): void;
  search(): void;
  begin(): void;
  tray(): void;
  /** To the next conversation of the list, or with -1 to the one before. */
  step(by: number): void;
  escape(): void;
}

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);

export function Shortcuts({ write, search, begin, tray, step, escape }: Props) {
  const list = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.isComposing || event.keyCode === 229 || document.querySelector("dialog[open], :popover-open")) return;
      if (event.key === "Escape") return escape();
      if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        return search();
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
      const does: Record<string, () => void> = {
        "/": write,
        n: begin,
        b: tray,
        j: () => step(1),
        k: () => step(-1),
        "?": () => list.current?.showModal(),
      };
      const act = does[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [write, search, begin, tray, step, escape]);
  return (
    <dialog ref={list} id="shortcuts" aria-label="Keyboard">
      <h2>Keyboard</h2>
      <dl>
        <dt>
          <kbd>/</kbd>
        </dt>
        <dd>write a message</dd>
        <dt>
          <kbd>{isMac ? "⌘" : "Ctrl"}</kbd> <kbd>K</kbd>
        </dt>
        <dd>search in all conversations</dd>
        <dt>
          <kbd>n</kbd>
        </dt>
        <dd>new conversation</dd>
        <dt>
          <kbd>b</kbd>
        </dt>
        <dd>background tasks</dd>
        <dt>
          <kbd>j</kbd> <kbd>k</kbd>
        </dt>
        <dd>the next conversation, the one before</dd>
        <dt>
          <kbd>Esc</kbd>
        </dt>
        <dd>close what is open; stop the answer</dd>
        <dt>
          <kbd>↑</kbd>
        </dt>
        <dd>in the empty field: edit the last question</dd>
        <dt>
          <kbd>?</kbd>
        </dt>
        <dd>this list</dd>
      </dl>
      <div className="row end">
        <button type="button" onClick={() => list.current?.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}
