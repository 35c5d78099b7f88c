/** Composer.tsx -- where one asks: a message, which agent, and whether it runs in the background. */

import { forwardRef, useState, type FormEvent, type KeyboardEvent } from "react";
import TextareaAutosize from "react-textarea-autosize";
import { gateway } from "../gateway";
import { useKept } from "../kept";
import { askToNotify } from "../notify";
import { useWatched } from "../watch";
import { Icon } from "./Icon";

export interface Wish {
  message: string;
  agent: string | undefined;
  background: boolean;
}

interface Props {
  /** Under which the draft is kept. */
  name: string;
  ask(wish: Wish): void;
}

export const Composer = forwardRef<HTMLTextAreaElement, Props>(({ name, ask }, field) => {
  const { agents } = useWatched(gateway);
  const [draft, setDraft] = useKept(`holdfast.draft.${name}`, sessionStorage);
  const [chosen, setChosen] = useKept("holdfast.agent", sessionStorage);
  const [background, setBackground] = useState(false);
  const usual = agents.find((agent) => agent.default)?.name;
  const agent = agents.some((one) => one.name === chosen) ? chosen : usual;

  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    if (draft.trim() === "") return;
    ask({ message: draft, agent, background });
    setDraft("");
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    submit();
  };
  const toggle = () => {
    if (!background) askToNotify();
    setBackground(!background);
  };
  return (
    <form id="composer" onSubmit={submit}>
      <TextareaAutosize
        id="message"
        ref={field}
        maxRows={12}
        placeholder={background ? "What shall run in the background?" : "Ask something"}
        aria-label="Message"
        dir="auto"
        enterKeyHint="send"
        autoComplete="off"
        autoFocus
        value={draft}
        onChange={(event) => setDraft(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <div className="composer-bar">
        {agents.length > 1 && (
          <select id="agent" aria-label="Agent" value={agent} onChange={(event) => setChosen(event.target.value)}>
            {agents.map(({ name: each, description }) => (
              <option key={each} value={each} title={description || undefined}>
                {each}
              </option>
            ))}
          </select>
        )}
        <button
          id="background"
          type="button"
          className="quiet toggle"
          aria-pressed={background}
          title="The answer goes into the tray; you are told when it is there"
          onClick={toggle}
        >
          <Icon name="tray" /> Background
        </button>
        <span className="hint">
          <kbd>Enter</kbd> sends, <kbd>Shift</kbd> <kbd>Enter</kbd> is a new line
        </span>
        <button id="send" type="submit" disabled={draft.trim() === ""} aria-label="Send">
          <Icon name="send" />
        </button>
      </div>
    </form>
  );
});
