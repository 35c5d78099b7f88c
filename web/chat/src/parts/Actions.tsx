/** Actions.tsx -- the actions on an answer, and its cost. */

import type { Conversation, Turn } from "@holdfast/client";
import { regenerate, type Versions as Its } from "@holdfast/client/branches";
import { gateway } from "../gateway";
import { link, may } from "../rights";
import { usageIn } from "../usage";
import { clock, duration, plural, price } from "../words";
import { CopyButton } from "./CopyButton";
import { Icon } from "./Icon";
import { Versions } from "./Versions";

/** The tokens and the price, as far as the agent's result tells them. */
function usageOf({ task }: Turn): string[] {
  const { tokens, dollars } = usageIn(task?.transcript.ending?.result);
  return [tokens > 0 ? plural(tokens, "token") : "", dollars > 0 ? price(dollars) : ""];
}

interface Props {
  turn: Turn;
  conversation: Conversation;
  versions: Its | null;
}

export function Actions({ turn, conversation, versions }: Props) {
  const { task, input, text } = turn;
  const others = <Versions its={versions} of="answer" conversation={conversation} task={turn.key} />;
  const { started_at, completed_at } = task?.summary ?? {};
  const inspect = task && !link && (
    <a className="quiet inspect" href={`inspector.html#${conversation.id}/${task.id}`} title="Inspect the stream">
      <Icon name="inspect" />
      <span className="sr">Inspect the stream</span>
    </a>
  );
  if (task?.live) {
    const isPending = task.status === "pending";
    return (
      <div className="actions" data-live={!isPending || undefined}>
        {others}
        {isPending && may("cancel") && (
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
    task?.summary.agent ?? "",
    completed_at ? clock(completed_at) : "",
    started_at && completed_at ? duration(completed_at - started_at) : "",
    ...usageOf(turn),
  ].filter(Boolean);
  const again = () => void regenerate(gateway, conversation, turn, { when_busy: "enqueue" }).catch(() => {});
  return (
    <div className="actions" data-failed={failed || undefined}>
      {others}
      {failed && input !== null && may("ask") && (
        <button type="button" className="quiet retry" onClick={again}>
          <Icon name="retry" /> Try again
        </button>
      )}
      {text !== "" && <CopyButton label="Copy answer" text={() => text} />}
      {!failed && input !== null && may("ask") && (
        <button type="button" className="quiet again" aria-label="Ask again" title="Ask again" onClick={again}>
          <Icon name="retry" />
        </button>
      )}
      {inspect}
      {facts.length > 0 && <span className="took">{facts.join(" · ")}</span>}
    </div>
  );
}
