/** CodeBlock.tsx -- a block of code, with its language and a button that copies it. */

import { Children, isValidElement, useRef, type ReactNode } from "react";
import { CopyButton } from "../parts/CopyButton";

function languageOf(children: ReactNode): string {
  const code = Children.toArray(children)[0];
  if (!isValidElement<{ className?: string }>(code)) return "";
  return /language-(\S+)/.exec(code.props.className ?? "")?.[1] ?? "";
}

export function CodeBlock({ children }: { children: ReactNode }) {
  const code = useRef<HTMLPreElement>(null);
  return (
    <div className="code">
      <div className="code-bar">
        <span>{languageOf(children)}</span>
        <CopyButton label="Copy code" text={() => code.current?.textContent ?? ""} />
      </div>
      <pre ref={code} tabIndex={0}>
        {children}
      </pre>
    </div>
  );
}
