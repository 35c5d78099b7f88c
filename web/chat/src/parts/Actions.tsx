/** Actions.tsx -- the actions on a question and on an answer, and the answer's cost. */

import type { Conversation, Turn } from "@holdfast/client";
import { gateway } from "../gateway";
import { clock, duration, plural } from "../words";
import { CopyButton } from "./CopyButton";
import { Icon } from "./Icon";

export function AskedActions({ text, edit }: { text: string; edit(text: string): void }) {
  return (
    <div className="actions of-asked">
      <CopyButton label="Copy question" text={() => text} />
      <button type="button" className="quiet" aria-label="Edit and ask again" title="Edit and ask again" onClick={() => edit(text)}>
        <Icon name="pen" />
      </button>
    </div>
  );
}

interface Usage {
  total_tokens?: number;
  prompt_tokens?: number;
  completion_tokens?: number;
}

/** The usage that a model's server has counted, if it counts. */
function usageOf({ task }: Turn): string {
  const result = task?.transcript.ending?.result as { usage?: Usage } | null | undefined;
  const { total_tokens, prompt_tokens = 0, completion_tokens = 0 } = result?.usage ?? {};
  const total = total_tokens ?? prompt_tokens + completion_tokens;
  return typeof total === "number" && total > 0 ? plural(total, "token") : "";
}

export function Actions({ turn, conversation }: { turn: Turn; conversation: Conversation }) {
  const { task, input, text } = turn;
  const { started_at, completed_at } = task?.summary ?? {};
  const inspect = task && (
    <a className="quiet inspect" href={`inspector.html#${conversation.id}/${task.id}`} title="Inspect the stream">
      <Icon name="inspect" />
      <span className="sr">Inspect the stream</span>
    </a>
  );
  if (task?.live) {
    return (
      <div className="actions">
        {task.status === "pending" && (
          <button
            type="button"
            className="quiet cancel"
            disabled={task.cancelling}
            onClick={() => {
              document.getElementById("message")?.focus();
              void task.cancel({ tree: true }).catch(() => {});
            }}
          >
            <Icon name="stop" /> Cancel
          </button>
        )}
        {inspect}
      </div>
    );
  }
  const failed = task?.status === "failed" || task?.status === "cancelled";
  const facts = [
    gateway.agents.length > 1 ? task?.summary.agent : "",
    completed_at ? clock(completed_at) : "",
    started_at && completed_at ? duration(completed_at - started_at) : "",
    usageOf(turn),
  ].filter(Boolean);
  const again = () => void conversation.ask(input!, { agent: task?.summary.agent, when_busy: "enqueue" });
  return (
    <div className="actions" data-failed={failed || undefined}>
      {failed && input !== null && (
        <button type="button" className="quiet retry" onClick={again}>
          <Icon name="retry" /> Try again
        </button>
      )}
      {text !== "" && <CopyButton label="Copy answer" text={() => text} />}
      {!failed && input !== null && (
        <button type="button" className="quiet again" aria-label="Ask again" title="Ask again" onClick={again}>
          <Icon name="retry" />
        </button>
      )}
      {inspect}
      {facts.length > 0 && <span className="took">{facts.join(" · ")}</span>}
    </div>
  );
}
