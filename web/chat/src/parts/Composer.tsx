/**
 * Composer.tsx -- the message field: the text, the agent, background or not; and the stop
 * button.
 */

import type { Task } from "@holdfast/client";
import { forwardRef, useImperativeHandle, useRef, useState, type FormEvent, type KeyboardEvent } from "react";
import TextareaAutosize from "react-textarea-autosize";
import { gateway } from "../gateway";
import { useKept } from "../kept";
import { isComposing } from "../keyboard";
import { askToNotify } from "../notify";
import { useWatched } from "../watch";
import { number } from "../words";
import { Icon } from "./Icon";

export interface Wish {
  message: string;
  agent: string | undefined;
  background: boolean;
}

/** Lets the rest of the page use the field. */
export interface Field {
  focus(): void;
  /** Inserts a text before the field's own. */
  put(text: string): void;
}

interface Props {
  /** The draft is kept under this name. */
  name: string;
  /** The current answer. */
  running: Task | undefined;
  ask(wish: Wish): void;
  stop(): void;
  /** The last question. */
  last(): string;
}

const ENVELOPE = 512; // bytes of a request besides its message
const NEAR = 0.8; // of the limit: from here on the size is shown

/** How many bytes a message may have, and how many these are. */
function roomFor(text: string): { used: number; most: number } {
  const most = (gateway.welcome?.limits?.message_bytes ?? Infinity) - ENVELOPE;
  // No character takes more than six bytes of JSON, so most messages need no counting.
  const used = text.length * 6 < most * NEAR ? 0 : new TextEncoder().encode(JSON.stringify(text)).length;
  return { used, most };
}

export const Composer = forwardRef<Field, Props>(({ name, running, ask, stop, last }, handle) => {
  const { agents } = useWatched(gateway);
  const [draft, setDraft] = useKept(`holdfast.draft.${name}`, sessionStorage);
  const [chosen, setChosen] = useKept("holdfast.agent", sessionStorage);
  const [background, setBackground] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const usual = agents.find((agent) => agent.default)?.name;
  const agent = agents.some((one) => one.name === chosen) ? chosen : usual;
  const isBlank = draft.trim() === "";
  const { used, most } = roomFor(draft);
  const isTooLong = used > most;

  const put = (text: string) => {
    setDraft(isBlank ? text : `${text}\n\n${draft}`);
    field.current!.focus();
  };
  useImperativeHandle(handle, () => ({ focus: () => field.current!.focus(), put }));

  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    if (isBlank || isTooLong) return;
    ask({ message: draft, agent, background });
    setDraft("");
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (isComposing(event)) return;
    if (event.key === "ArrowUp" && draft === "" && last() !== "") {
      event.preventDefault();
      return put(last());
    }
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    submit();
  };
  const toggle = () => {
    if (!background) askToNotify();
    setBackground(!background);
  };
  const stops = running !== undefined && isBlank;
  return (
    <form id="composer" onSubmit={submit} data-too-long={isTooLong || undefined}>
      <TextareaAutosize
        id="message"
        ref={field}
        maxRows={12}
        placeholder={background ? "What shall run in the background?" : "Ask something"}
        aria-label="Message"
        aria-invalid={isTooLong || undefined}
        aria-describedby={used > most * NEAR ? "room" : undefined}
        dir="auto"
        enterKeyHint="send"
        autoComplete="off"
        autoFocus
        value={draft}
        onChange={(event) => setDraft(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {used > most * NEAR && (
        <p id="room" role={isTooLong ? "alert" : undefined}>
          {isTooLong
            ? `Too long by ${number(used - most)} bytes. Shorten it, or send it in parts.`
            : `${number(used)} of ${number(most)} bytes`}
        </p>
      )}
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
        {stops ? (
          <button
            id="stop"
            type="button"
            aria-label="Stop"
            title="Stop (Esc)"
            disabled={running.cancelling}
            onClick={() => {
              field.current!.focus();
              stop();
            }}
          >
            <Icon name="stopped" />
          </button>
        ) : (
          <button id="send" type="submit" disabled={isBlank || isTooLong} aria-label="Send" title="Send (Enter)">
            <Icon name="send" />
          </button>
        )}
      </div>
    </form>
  );
});
