/** ToolCards.tsx -- the agent's tool calls: arguments, results, duration. */

import type { Question, Task, ToolCall } from "@holdfast/client";
import { memo } from "react";
import { duration, pretty } from "../words";
import { CopyButton } from "./CopyButton";
import { Icon } from "./Icon";

type State = "running" | "waits for you" | "done" | "failed" | "not answered";

function stateOf({ output, is_error }: ToolCall, live: boolean, asked: boolean): State {
  if (output === undefined) return !live ? "not answered" : asked ? "waits for you" : "running";
  return is_error ? "failed" : "done";
}

const ToolCard = memo(({ tool, live, asked }: { tool: ToolCall; live: boolean; asked: boolean }) => {
  const state = stateOf(tool, live, asked);
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

/** The user must approve it first. */
const isAsked = (tool: ToolCall, questions: readonly Question[]) =>
  tool.output === undefined &&
  questions.some((one) => one.open && one.tool === tool.name && pretty(one.arguments) === pretty(tool.arguments));

/** `from`: how many calls before these are not shown; a card stays the same one while others before it go. */
export function ToolCards({ tools, from, task }: { tools: readonly ToolCall[]; from: number; task: Task }) {
  const { questions } = task.transcript;
  return (
    <div className="cards">
      {tools.map((tool, at) => (
        <ToolCard key={from + at} tool={tool} live={task.live} asked={isAsked(tool, questions)} />
      ))}
    </div>
  );
}
