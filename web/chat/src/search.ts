/** search.ts -- goes to a message that was found. */

import type { Conversation, FoundMessage } from "@holdfast/client";
import { choose } from "@holdfast/client/branches";
import { marked } from "@holdfast/client/search";
import { gateway } from "./gateway";

export const MOST = 256; // bytes of a query

/** A query as far as the gateway takes it. */
export function queryOf(text: string): string {
  let query = text.trim();
  while (new TextEncoder().encode(query).length > MOST) query = [...query].slice(0, -1).join("");
  return query;
}

const PAGE = 200; // messages of a request
const WAIT_MS = 10_000;

const has = ({ messages }: Conversation, id: string) => messages.some(({ message_id }) => message_id === id);

/** Resolves once the conversation has the message, or after a while. */
const untilIt = (conversation: Conversation, id: string) =>
  new Promise<void>((resolve) => {
    const done = () => (end(), clearTimeout(timer), resolve());
    const timer = setTimeout(() => done(), WAIT_MS);
    const end = conversation.subscribe(() => has(conversation, id) && done());
    if (has(conversation, id)) done();
  });

async function loadUpTo(conversation: Conversation, id: string) {
  while (!has(conversation, id) && conversation.hasEarlier) await conversation.earlier(PAGE);
}

/** Loads a conversation up to this message, changes to its branch if need be, and names its turn. */
export async function bring(conversation: Conversation, messageId: string): Promise<string | null> {
  await conversation.open();
  conversation.close(); // the page has it open
  await loadUpTo(conversation, messageId);
  if (!has(conversation, messageId)) {
    await choose(gateway, conversation, messageId);
    await untilIt(conversation, messageId).then(() => loadUpTo(conversation, messageId));
  }
  const message = conversation.messages.find(({ message_id }) => message_id === messageId);
  return message ? (message.task_id ?? message.message_id) : null;
}

const WORDS = "found";

/** Marks the words of a query within an element, as far as the browser can. */
export function mark(element: Element | null, query: string) {
  if (!globalThis.CSS?.highlights) return;
  CSS.highlights.delete(WORDS);
  const words = query.toLowerCase().match(/"[^"]+"|[^\s"]+/g)?.map((word) => word.replaceAll('"', "")) ?? [];
  if (!element || words.length === 0) return;
  const marks = new Highlight();
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const text = node.nodeValue!.toLowerCase();
    if (text.length !== node.nodeValue!.length) continue; // some letters have another length in lower case
    for (const word of words) {
      for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + word.length);
        marks.add(range);
      }
    }
  }
  CSS.highlights.set(WORDS, marks);
}

const BEGIN = "\uE000"; // of a match, and its end: no text has these
const END = "\uE001";

/** Marks of whole lines and of links, each with what remains; a match may stand within. */
const lineMarks: [RegExp, string][] = [
  [/^[ \t]*(?:`{3,}|~{3,})[^`\n]*$/gm, ""], // a fence
  [/^[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)*\|?[ \t]*$/gm, ""], // the rule of a table
  [/^[ \t]*\|[ \t]*|[ \t]*\|[ \t]*$/gm, ""],
  [/[ \t]+\|[ \t]+/g, " · "],
  [/^[ \t]*(?:>[ \t]?)+/gm, ""],
  [/^ {0,3}#{1,6}[ \t]+/gm, ""],
  [/^[ \t]*[-+*][ \t]+(?:\[[ xX]\][ \t]+)?/gm, ""],
  [/!?\[([^\]\n]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:[ \t]+"[^"\n]*")?\)/g, "$1"],
];
const wordMarks: [RegExp, string][] = [
  [/(\*\*\*|\*\*|~~)(?=\S)([^\n]+?)(?<=\S)\1/g, "$2"],
  [/(?<!\w)(__|_)(?=\S)([^_\n]+?)(?<=\S)\1(?!\w)/g, "$2"],
  [/(?<![\w*\\])\*(?=\S)([^*\n]+?)(?<=[^\s\\])\*(?![\w*])/g, "$1"],
  [/(?<=\S)\*\*|\*\*(?=\S)/g, ""], // its other half is not in the snippet
  [/\\([*_#`~|>])/g, "$1"],
];

const without = (text: string, marks: [RegExp, string][]) => marks.reduce((so, [mark, rest]) => so.replace(mark, rest), text);

/** A find in pieces, as it reads on the page: without the marks of Markdown. */
export function snippetOf(text: string, matches: FoundMessage["matches"]) {
  const whole = marked(text, matches).map((piece) => (piece.isMatch ? BEGIN + piece.text + END : piece.text));
  const lines = without(whole.join(""), lineMarks);
  const isCode = (at: number) => at % 3 === 2;
  const plain = lines
    .split(/(`+)([^`\n]+)\1/) // text, ticks, code, text, …
    .map((piece, at) => (isCode(at) ? piece : at % 3 === 1 ? "" : without(piece, wordMarks)))
    .join("");
  return plain
    .split(BEGIN)
    .flatMap((piece, at) => {
      if (at === 0) return [{ text: piece, isMatch: false }];
      const [match = "", ...rest] = piece.split(END);
      return [{ text: match, isMatch: true }, { text: rest.join(""), isMatch: false }];
    })
    .map((piece) => ({ ...piece, text: piece.text.replaceAll(END, "") }))
    .filter(({ text }) => text !== "");
}
