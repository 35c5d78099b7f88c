/**
 * Composer.tsx -- the message field: the text, files, the agent, background or not; and the stop
 * button.
 */

import type { Outgoing, Task } from "@holdfast/client";
import { forwardRef, useImperativeHandle, useRef, useState, type ClipboardEvent, type FormEvent, type KeyboardEvent } from "react";
import TextareaAutosize from "react-textarea-autosize";
import { choice, useAgent } from "../agent";
import { messageOf, type Attachments } from "../files";
import { gateway } from "../gateway";
import { ofTab, useKept } from "../kept";
import { isComposing } from "../keyboard";
import { askToNotify } from "../notify";
import { useWatched } from "../watch";
import { number } from "../words";
import { AttachmentCard } from "./FileCard";
import { Icon } from "./Icon";

export interface Wish {
  message: Outgoing["request"]["message"];
  agent: string | undefined;
  background: boolean;
}

/** Lets the rest of the page use the field. */
export interface Field {
  focus(): void;
  /** Inserts a text before the field's own. */
  put(text: string): void;
  /** Its text is wanted no more. */
  clear(): void;
}

interface Props {
  /** The draft is kept under this name. */
  name: string;
  /** The files that go with the next message. */
  attachments: Attachments;
  /** The current answer. */
  running: Task | undefined;
  ask(wish: Wish): void;
  stop(): void;
  /** Opens what sends this text later; null where nothing does. */
  later: ((text: string) => void) | null;
  /** Edits the last question in its place; a text that it returns is put into the field. */
  recall(): string;
}

const ENVELOPE = 512; // bytes of a request besides its message
const PART = 1_024; // bytes of a file among its parts, at most: the names are short
const NEAR = 0.8; // of the limit: from here on the size is shown

/** How many bytes a message may have, and how many these are. */
function roomFor(text: string, files: number): { used: number; most: number } {
  const most = (gateway.welcome?.limits?.message_bytes ?? Infinity) - ENVELOPE - files * PART;
  // No character takes more than six bytes of JSON, so most messages need no counting.
  const used = text.length * 6 < most * NEAR ? 0 : new TextEncoder().encode(JSON.stringify(text)).length;
  return { used, most };
}

export const Composer = forwardRef<Field, Props>(({ name, attachments, running, ask, stop, later, recall }, handle) => {
  const { agents } = useWatched(gateway);
  const { items, parts, isBusy } = useWatched(attachments);
  const [draft, setDraft] = useKept(`holdfast.draft.${name}`, ofTab);
  const agent = useAgent()?.name;
  const [background, setBackground] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const isEmpty = draft.trim() === "";
  const isBlank = isEmpty && parts.length === 0;
  const { used, most } = roomFor(draft, parts.length);
  const isTooLong = used > most;
  const canSend = !isBlank && !isTooLong && !isBusy;

  const put = (text: string) => {
    setDraft(isEmpty ? text : `${text}\n\n${draft}`);
    field.current!.focus();
  };
  useImperativeHandle(handle, () => ({ focus: () => field.current!.focus(), put, clear: () => setDraft("") }));

  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    const { parts, isBusy } = attachments; // what was removed a moment ago may not be drawn yet
    if (isTooLong || isBusy || (isEmpty && parts.length === 0)) return;
    ask({ message: messageOf(draft, parts), agent, background });
    setDraft("");
    attachments.clear();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (isComposing(event)) return;
    if (event.key === "ArrowUp" && draft === "") {
      event.preventDefault();
      const text = recall();
      return text === "" ? undefined : put(text);
    }
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    submit();
  };
  const onPaste = (event: ClipboardEvent) => {
    const { files, types } = event.clipboardData;
    if (files.length === 0 || types.includes("text/plain")) return; // a text that brings a picture of itself
    event.preventDefault();
    attachments.add(files);
  };
  const asFile = () => {
    attachments.add([new File([draft], "text.txt", { type: "text/plain" })]);
    setDraft("");
    field.current!.focus();
  };
  const toggle = () => {
    if (!background) askToNotify();
    setBackground(!background);
  };
  const stops = running !== undefined && isEmpty && items.length === 0;
  return (
    <form id="composer" onSubmit={submit} data-too-long={isTooLong || undefined}>
      {items.length > 0 && (
        <ul className="files" aria-label="Files of this message">
          {items.map((its) => (
            <AttachmentCard
              key={its.key}
              its={its}
              remove={() => {
                attachments.remove(its.key);
                field.current!.focus();
              }}
            />
          ))}
        </ul>
      )}
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
        onPaste={onPaste}
      />
      {used > most * NEAR && (
        <div className="room">
          <p id="room" role={isTooLong ? "alert" : undefined}>
            {isTooLong
              ? `Too long by ${number(used - most)} bytes. Shorten it, or send it in parts.`
              : `${number(used)} of ${number(most)} bytes`}
          </p>
          {isTooLong && (
            <button id="as-file" type="button" className="quiet" onClick={asFile}>
              Attach it as a file
            </button>
          )}
        </div>
      )}
      <div className="composer-bar">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files"
          onChange={({ currentTarget }) => {
            attachments.add(currentTarget.files ?? []);
            currentTarget.value = ""; // the same file may be chosen again
            field.current!.focus();
          }}
        />
        <button
          id="attach"
          type="button"
          className="icon-button"
          aria-label="Attach files"
          title="Attach files: or drop, or paste them"
          onClick={() => picker.current!.click()}
        >
          <Icon name="clip" />
        </button>
        {later && (
          <button
            id="later"
            type="button"
            className="icon-button"
            aria-label="Send later"
            title="Send later, or again and again"
            onClick={() => later(draft)}
          >
            <Icon name="clock" />
          </button>
        )}
        {agents.length > 1 && (
          <select id="agent" aria-label="Agent" value={agent} onChange={(event) => choice.choose(event.target.value)}>
            {agents.map(({ name: each, description }) => (
              <option key={each} value={each} title={description || undefined}>
                {each}
              </option>
            ))}
          </select>
        )}
        {later && (
          <button
            id="background"
            type="button"
            className="quiet toggle"
            aria-pressed={background}
            title="The answer goes into the tray; you are told when it is there"
            onClick={toggle}
          >
            <Icon name="tray" /> <span>Background</span>
          </button>
        )}
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
          <button id="send" type="submit" disabled={!canSend} aria-label="Send" title={isBusy ? "The files are on their way" : "Send (Enter)"}>
            <Icon name="send" />
          </button>
        )}
      </div>
    </form>
  );
});
