/** ToolCards.tsx -- the tools that an agent has called: with what, what came back, how long it took. */

import type { ToolCall } from "@holdfast/client";
import { memo, useState } from "react";
import { duration, plural, pretty } from "../words";
import { CopyButton } from "./CopyButton";
import { Icon } from "./Icon";

const SHOWN = 20; // the newest; a task may call thousands

type State = "running" | "done" | "failed" | "not answered";

function stateOf({ output, is_error }: ToolCall, live: boolean): State {
  if (output === undefined) return live ? "running" : "not answered";
  return is_error ? "failed" : "done";
}

const ToolCard = memo(({ tool, live }: { tool: ToolCall; live: boolean }) => {
  const state = stateOf(tool, live);
  const { calledAt, returnedAt } = tool;
  const took = calledAt !== undefined && returnedAt !== undefined ? duration(returnedAt - calledAt) : "";
  return (
    <details className="tool card" data-state={state}>
      <summary>
        <Icon name="tool" />
        <code>{tool.name}</code>
        <span className="gist">{gistOf(tool)}</span>
        <span className="took">{took}</span>
        <span className="state">{state}</span>
        <Icon name="chevron" />
      </summary>
      <h4>Arguments</h4>
      <pre tabIndex={0}>{pretty(tool.arguments)}</pre>
      {tool.output !== undefined && (
        <>
          <h4>
            {tool.is_error ? "Error" : "Result"}
            <CopyButton label="Copy result" text={() => tool.output!} />
          </h4>
          <pre className="output" tabIndex={0}>
            {tool.output}
          </pre>
        </>
      )}
    </details>
  );
});

/** Its arguments in a few words. */
function gistOf({ arguments: given }: ToolCall): string {
  const values = Object.values(given ?? {}).map((value) =>
    typeof value === "string" ? value : JSON.stringify(value),
  );
  return values.join(", ").slice(0, 120);
}

export function ToolCards({ tools, live }: { tools: readonly ToolCall[]; live: boolean }) {
  const [all, setAll] = useState(false);
  if (tools.length === 0) return null;
  const hidden = all ? 0 : Math.max(0, tools.length - SHOWN);
  return (
    <div className="cards">
      {hidden > 0 && (
        <button type="button" className="quiet" onClick={() => setAll(true)}>
          Show {plural(hidden, "earlier call")}
        </button>
      )}
      {tools.slice(hidden).map((tool, i) => (
        <ToolCard key={hidden + i} tool={tool} live={live} />
      ))}
    </div>
  );
}
