/** End.tsx -- how it stands with a task, in words, where that is not plain: queued, stopped, failed and why. */

import { detailOf, sentenceOf } from "../trouble";
import { Icon } from "./Icon";
import type { Said } from "./Work";

function marksOf({ text, partial, task }: Said): string {
  const marks: string[] = [];
  if (task?.live) {
    if (task.cancelling) marks.push("Stopping…");
    else if (task.status === "pending") marks.push("Queued: it starts when the answer before it has ended");
  } else if (task?.status === "cancelled") {
    marks.push(text === "" ? "Stopped" : "Stopped: this is what had been said");
  } else if (task?.status === "completed" && task.transcript.ending && task.transcript.parts.length === 0) {
    marks.push("It ended without an answer");
  } else if (task?.status !== "failed" && text !== "" && partial) {
    marks.push("This is a part of the answer");
  }
  const resumed = task?.transcript.resumed ?? 0;
  if (resumed > 0) marks.push(resumed === 1 ? "Went on after a restart" : `Went on after ${resumed} restarts`);
  if (task && task.transcript.first > 1) marks.push("The beginning is no longer kept");
  return marks.join(" · ");
}

export function End({ said }: { said: Said }) {
  const { task, text } = said;
  const marks = marksOf(said);
  const error = task?.transcript.ending?.error ?? task?.summary.error ?? { code: "", message: "" };
  const detail = detailOf(error);
  return (
    <>
      {marks !== "" && <p className="marks">{marks}</p>}
      {!task?.live && task?.status === "failed" && (
        <div className="ending" role="group" aria-label="Failed">
          <p className="sentence">
            <Icon name="warning" />
            <span>
              {sentenceOf(error)}
              {text !== "" && " What had been said is kept."}
            </span>
          </p>
          {detail !== "" && (
            <details className="why">
              <summary>
                Details <Icon name="chevron" />
              </summary>
              <pre tabIndex={0}>{detail}</pre>
            </details>
          )}
        </div>
      )}
    </>
  );
}
