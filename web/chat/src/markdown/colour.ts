/** colour.ts -- colours blocks of code whose language is named and known. */

import type { ElementContent, Nodes, Element } from "hast";
import { createLowlight } from "lowlight";
import { languages } from "./languages";

const lowlight = createLowlight(languages);
const LONG = 50_000; // beyond this, colours are not worth the wait

const languageOf = ({ properties }: Element): string | undefined => {
  const names = Array.isArray(properties.className) ? properties.className : [];
  return /^language-(.+)/.exec(names.map(String).find((name) => name.startsWith("language-")) ?? "")?.[1];
};

export function colourCode() {
  return walk;
}

function walk(node: Nodes) {
  if (!("children" in node)) return;
  for (const child of node.children) {
    const isCode = child.type === "element" && child.tagName === "code";
    if (isCode && node.type === "element" && node.tagName === "pre") colour(child);
    else walk(child);
  }
}

function colour(code: Element) {
  const language = languageOf(code);
  const text = code.children[0];
  if (!language || !lowlight.registered(language) || text?.type !== "text" || text.value.length > LONG) return;
  code.children = lowlight.highlight(language, text.value).children as ElementContent[];
}
