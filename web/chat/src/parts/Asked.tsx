/** Asked.tsx -- a question: read, edited in its place, and its other versions. */

import type { Conversation, FilePart, Turn } from "@holdfast/client";
import { edit, type Versions as Its } from "@holdfast/client/branches";
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import TextareaAutosize from "react-textarea-autosize";
import { canEdit, editing } from "../editing";
import { filesOf, messageOf } from "../files";
import { beginningOf } from "../fold";
import { isComposing } from "../keyboard";
import { CopyButton } from "./CopyButton";
import { FileCard } from "./FileCard";
import { Icon } from "./Icon";
import { Versions } from "./Versions";

interface Props {
  turn: Turn;
  input: string;
  conversation: Conversation;
  versions: Its | null;
}

export function Asked({ turn, input, conversation, versions }: Props) {
  // Drawn at once, and not with the next frame: keys that follow are for what has the focus then.
  const isEdited = useSyncExternalStore(editing.subscribe, () => editing.key === turn.key);
  const hasDraft = useSyncExternalStore(editing.subscribe, () => editing.draftOf(turn.key) !== "");
  const editLabel = hasDraft ? "Go on editing" : "Edit and ask again";
  if (isEdited) return <Editor turn={turn} input={input} conversation={conversation} />;
  return (
    <>
      <Question input={input} files={filesOf(conversation, turn)} conversationId={conversation.id} />
      <div className="actions of-asked">
        <Versions its={versions} of="question" conversation={conversation} task={turn.key} />
        <CopyButton label="Copy question" text={() => input} />
        {canEdit(conversation, turn) && (
          <button
            type="button"
            className="quiet"
            data-draft={hasDraft || undefined}
            aria-label={editLabel}
            title={editLabel}
            ref={(pencil) => void (pencil && editing.takesFocus(turn.key) && pencil.focus())}
            onClick={() => editing.begin(turn.key)}
          >
            <Icon name="pen" />
          </button>
        )}
      </div>
    </>
  );
}

/** The words of a question, and the files that came with it. */
export function Question({ input, files, conversationId }: { input: string; files: readonly FilePart[]; conversationId: string }) {
  return (
    <>
      {files.length > 0 && (
        <ul className="files of-question" aria-label="Files">
          {files.map((part) => (
            <FileCard key={part.file_id} part={part} conversationId={conversationId} />
          ))}
        </ul>
      )}
      {(input !== "" || files.length === 0) && <Words of={input} />}
    </>
  );
}

function Words({ of }: { of: string }) {
  const beginning = useMemo(() => beginningOf(of), [of]);
  const [isOpen, setOpen] = useState(false);
  return (
    <div className="asked">
      {beginning === null || isOpen ? of : `${beginning} …`}
      {beginning !== null && (
        <button type="button" className="quiet whole" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Show less" : "Show all"}
        </button>
      )}
    </div>
  );
}

function Editor({ turn, input, conversation }: Omit<Props, "versions">) {
  const [text, setText] = useState(() => editing.draftOf(turn.key) || input);
  const change = (typed: string) => {
    setText(typed);
    editing.keepDraft(turn.key, typed === input ? "" : typed);
  };
  useEffect(() => () => editing.drop(turn.key), [turn.key]);
  const ask = () => {
    if (text.trim() === "" || editing.key !== turn.key) return; // it was asked, and is still drawn
    edit(conversation, turn, messageOf(text, filesOf(conversation, turn)), { agent: turn.task?.summary.agent, when_busy: "enqueue" });
    editing.end();
  };
  return (
    <form
      className="asked editor"
      onSubmit={(event) => (event.preventDefault(), ask())}
      onKeyDown={(event) => {
        if (isComposing(event)) return;
        if (event.key === "Escape") editing.leave();
        else if (event.key === "Enter" && !event.shiftKey) ask();
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <TextareaAutosize
        aria-label="Question"
        autoFocus
        onFocus={({ currentTarget: field }) => field.setSelectionRange(field.value.length, field.value.length)}
        maxRows={12}
        value={text}
        onChange={(event) => change(event.target.value)}
      />
      <div className="actions">
        <button type="button" className="quiet" onClick={() => editing.leave()}>
          Cancel
        </button>
        <button type="submit" disabled={text.trim() === ""}>
          Ask again
        </button>
      </div>
    </form>
  );
}
