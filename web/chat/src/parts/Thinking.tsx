/** Thinking.tsx -- the agent's thoughts, folded. */

import { memo } from "react";
import { Icon } from "./Icon";

export const Thinking = memo(({ text, busy }: { text: string; busy: boolean }) => {
  if (text === "") return null;
  return (
    <details className="thinking">
      <summary>
        <Icon name="think" />
        <span className={busy ? "shimmer" : ""}>{busy ? "Thinking" : "Thoughts"}</span>
        <Icon name="chevron" />
      </summary>
      <div className="thoughts">{text}</div>
    </details>
  );
});
