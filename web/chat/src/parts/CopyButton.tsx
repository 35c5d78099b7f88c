/** CopyButton.tsx -- copies a text, and confirms it. */

import { useEffect, useState } from "react";
import { Icon } from "./Icon";

const SAID_MS = 1_600;

export function CopyButton({ label, text }: { label: string; text: () => string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), SAID_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    await copyText(text());
    setCopied(true);
  };
  return (
    <button type="button" className="quiet copy" onClick={copy} aria-label={copied ? "Copied" : label} title={label}>
      <Icon name={copied ? "check" : "copy"} />
    </button>
  );
}

async function copyText(text: string) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // A page without TLS has no clipboard except this.
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
