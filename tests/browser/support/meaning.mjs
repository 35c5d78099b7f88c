// meaning.mjs -- what a Markdown text says, by the reference implementation: words, without marks.

import { Parser } from "commonmark";

const parser = new Parser();

/** The words of a text, each after one space. */
export const words = (text) => text.split(/\s+/).filter(Boolean).join(" ");

/** The words that a reader of the rendered text sees.  HTML in it is text like any other. */
export function wordsOf(markdown) {
  let text = "";
  const walker = parser.parse(markdown).walker();
  for (let step = walker.next(); step; step = walker.next()) {
    const { type, literal } = step.node;
    if (literal && step.entering) text += literal;
    if (type === "softbreak" || type === "linebreak" || step.node.isContainer) text += inlines.has(type) ? "" : " ";
  }
  return words(text);
}

const inlines = new Set(["emph", "strong", "link", "image"]);
