/** Asked.tsx -- a question: read, edited in its place, and its other versions. */

import type { Conversation, Turn } from "@holdfast/client";
import { edit, messagesOf, type Versions as Its } from "@holdfast/client/branches";
import { useState } from "react";
import TextareaAutosize from "react-textarea-autosize";
import { isComposing } from "../keyboard";
import { CopyButton } from "./CopyButton";
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
  const canEdit = messagesOf(conversation, turn).question?.role === "user";
  return (
    <>
      <div className="asked">{input}</div>
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

function Editor({ turn, input, conversation, done }: Omit<Props, "versions"> & { done(): void }) {
  const [text, setText] = useState(input);
  const ask = () => {
    if (text.trim() === "") return;
    edit(conversation, turn, text, { agent: turn.task?.summary.agent, when_busy: "enqueue" });
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
