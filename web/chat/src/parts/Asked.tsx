/** Asked.tsx -- a question: read, edited in its place, and its other versions. */

import type { Conversation, FilePart, Turn } from "@holdfast/client";
import { edit, messagesOf, type Versions as Its } from "@holdfast/client/branches";
import { useState } from "react";
import TextareaAutosize from "react-textarea-autosize";
import { filesOf, messageOf } from "../files";
import { isComposing } from "../keyboard";
import { may } from "../rights";
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
  const [isEdited, setEdited] = useState(false);
  if (isEdited) return <Editor turn={turn} input={input} conversation={conversation} done={() => setEdited(false)} />;
  const canEdit = may("ask") && messagesOf(conversation, turn).question?.role === "user";
  return (
    <>
      <Question input={input} files={filesOf(conversation, turn)} conversationId={conversation.id} />
      <div className="actions of-asked">
        <Versions its={versions} of="question" conversation={conversation} task={turn.key} />
        <CopyButton label="Copy question" text={() => input} />
        {canEdit && (
          <button type="button" className="quiet" aria-label="Edit and ask again" title="Edit and ask again" onClick={() => setEdited(true)}>
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
      {(input !== "" || files.length === 0) && <div className="asked">{input}</div>}
    </>
  );
}

function Editor({ turn, input, conversation, done }: Omit<Props, "versions"> & { done(): void }) {
  const [text, setText] = useState(input);
  const ask = () => {
    if (text.trim() === "") return;
    edit(conversation, turn, messageOf(text, filesOf(conversation, turn)), { agent: turn.task?.summary.agent, when_busy: "enqueue" });
    done();
  };
  return (
    <form
      className="asked editor"
      onSubmit={(event) => (event.preventDefault(), ask())}
      onKeyDown={(event) => {
        if (isComposing(event)) return;
        if (event.key === "Escape") done();
        else if (event.key === "Enter" && !event.shiftKey) ask();
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <TextareaAutosize aria-label="Question" autoFocus maxRows={12} value={text} onChange={(event) => setText(event.target.value)} />
      <div className="actions">
        <button type="button" className="quiet" onClick={done}>
          Cancel
        </button>
        <button type="submit" className="quiet" disabled={text.trim() === ""}>
          Ask again
        </button>
      </div>
    </form>
  );
}
