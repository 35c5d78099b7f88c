/** Sending.tsx -- a question on its way: why it waits, or why it was not sent and what to do. */

import type { Outgoing } from "@holdfast/client";
import { attachmentsOf, filesOfOutgoing } from "../files";
import { gateway } from "../gateway";
import { detailOf, mayRetry, sentenceOf } from "../trouble";
import { plural } from "../words";
import { Icon } from "./Icon";

/** Why it has not started yet. */
function waitsFor({ state, error }: Outgoing): string {
  if (state === "sent") return "Sending…";
  if (error?.code === "overloaded") {
    const most = gateway.welcome?.limits?.tasks_per_owner;
    const running = most ? `${plural(most, "task")} may run at once` : "No room at the moment";
    return `Waiting for room: ${running}. It starts when one has ended.`;
  }
  if (error) return `Waiting: ${sentenceOf(error)}`;
  return "Waiting to be sent…";
}

export function Sending({ outgoing, edit }: { outgoing: Outgoing; edit(text: string): void }) {
  const { state, error } = outgoing;
  const back = () => {
    edit(outgoing.text);
    attachmentsOf(outgoing.conversationId).putBack(filesOfOutgoing(outgoing));
    outgoing.discard();
  };
  if (state !== "failed") {
    return (
      <div className="row on-its-way">
        <p className="marks">{waitsFor(outgoing)}</p>
        {error && (
          <button type="button" className="quiet" onClick={back}>
            <Icon name="pen" /> Edit
          </button>
        )}
      </div>
    );
  }
  const wrong = error ?? { code: "", message: "" };
  return (
    <div className="row unsent">
      <p className="marks" title={detailOf(wrong)}>
        Not sent. {sentenceOf(wrong)}
      </p>
      <button type="button" className="quiet" onClick={back}>
        <Icon name="pen" /> Edit
      </button>
      {mayRetry(wrong) && (
        <button type="button" className="quiet" onClick={() => outgoing.retry()}>
          <Icon name="retry" /> Try again
        </button>
      )}
      <button type="button" className="quiet" onClick={() => outgoing.discard()}>
        Discard
      </button>
    </div>
  );
}
