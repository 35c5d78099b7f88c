/** fold.ts -- the beginning of a long question, such as a log, which would hide its answer. */

const MOST = { characters: 1_600, lines: 20 }; // shown whole
const ABOVE = { characters: 1_100, lines: 14 }; // shown of a longer one

/** Null for a text that is shown whole. */
export function beginningOf(text: string): string | null {
  const lines = text.split("\n");
  if (text.length <= MOST.characters && lines.length <= MOST.lines) return null;
  const some = lines.slice(0, ABOVE.lines).join("\n").slice(0, ABOVE.characters);
  return some.replace(/[\uD800-\uDBFF]$/, "").trimEnd(); // no half of a character
}
