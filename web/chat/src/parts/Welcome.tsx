/** Welcome.tsx -- what stands in a conversation in which nothing was asked. */

import { Mark } from "./Icon";

const TRIES = ["count to 20 slowly", "what is 17 * 23?", "what time is it?"];

export function Welcome({ ask }: { ask(text: string): void }) {
  return (
    <div id="empty">
      <Mark size={52} />
      <h2>What shall be done?</h2>
      <p>Answers run on in the gateway. Close the lid, lose the network, come back: nothing is lost.</p>
      <div className="tries">
        {TRIES.map((text) => (
          <button type="button" className="quiet" key={text} onClick={() => ask(text)}>
            {text}
          </button>
        ))}
      </div>
    </div>
  );
}
