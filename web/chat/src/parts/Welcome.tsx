/** Welcome.tsx -- shown in a conversation before the first question. */

import { useAgent } from "../agent";
import { Mark } from "./Mark";

const MOST = 4; // suggestions

export function Welcome({ ask }: { ask(text: string): void }) {
  const agent = useAgent();
  const examples = (agent?.examples ?? []).slice(0, MOST);
  return (
    <div id="empty">
      <Mark size={52} />
      <h2>What can I do for you?</h2>
      <p>{agent?.description || "Close the lid, lose the network, come back: the answer goes on, and nothing is lost."}</p>
      {examples.length > 0 && (
        <div className="tries">
          {examples.map((text) => (
            <button type="button" className="quiet" key={text} onClick={() => ask(text)}>
              {text}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
