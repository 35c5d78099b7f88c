/** Pieces mean the same as the whole text, and stay unchanged while it grows. */

import { renderToStaticMarkup } from "react-dom/server";
import ReactMarkdown from "react-markdown";
import { expect, test } from "vitest";
import { Blocks } from "./blocks";
import { extras } from "./extras";
import { htmlAsText } from "./plain";

const html = (text: string) =>
  renderToStaticMarkup(<ReactMarkdown remarkPlugins={[[extras, { tables: true }], htmlAsText]}>{text}</ReactMarkdown>);

/** White space between blocks has no meaning. */
const meaning = (pieces: string[]) => pieces.map(html).join("\n").replaceAll(/>\s+</g, "><").trim();

const PARTS = [
  "A paragraph\nof two lines.\n",
  "# A title\n",
  "Under\n===\n",
  "- one\n- two\n",
  "- loose\n\n- list\n",
  "1. first\n\n   more of it\n2. second\n",
  "1. with code\n   ```c\n   int a;\n\n   int b;\n   ```\n",
  "```c\nint a;\n\nint b;\n```\n",
  "~~~\n```\n\nnot closed by that\n~~~\n",
  "    indented\n\n    code\n",
  "> quoted\n\n> again\n",
  "| a | b |\n| - | - |\n| 1 | 2 |\n",
  "---\n",
  "<div>\n\nafter html\n",
  "<!-- a\n\ncomment -->\n",
  "<script>\n\nalert(1)\n</script>\n",
  "See [it].\n",
  "[it]: https://example.org\n",
  "A note[^1].\n\n[^1]: here\n",
  "**bold** `code` <b>raw</b>\n",
  "* * *\n",
  "$$\na\n- b\n+ c\n$$\n",
  "\\[ x\n= y \\]\n",
  "In a line $a_1$, \\(b\\), $$c$$, $5 and $6.\n",
  "$$\nnot closed\n",
  "  ```\n  indented fence\n\n  goes on\n  ```\n",
];

/** A small generator of random numbers, always the same. */
function dice(seed: number) {
  return (n: number) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * n);
  };
}

test("pieces of random texts mean what the text means", { timeout: 60_000 }, () => {
  const roll = dice(7);
  for (let round = 0; round < 150; round++) {
    const parts = Array.from({ length: 1 + roll(6) }, () => PARTS[roll(PARTS.length)]!);
    const text = parts.join(roll(4) === 0 ? "" : "\n");
    const pieces = new Blocks(1 + roll(80)).of(text);
    expect(pieces.join("")).toBe(text);
    expect(meaning(pieces), text).toBe(meaning([text]));
  }
});

test("however a text arrives, its pieces are the same, and those before the last stay", () => {
  const roll = dice(11);
  for (let round = 0; round < 100; round++) {
    const text = Array.from({ length: 6 }, () => PARTS[roll(13)]!).join("\n");
    const blocks = new Blocks(1);
    let before: string[] = [];
    for (let end = 0; end <= text.length; end += 1 + roll(7)) {
      const now = blocks.of(text.slice(0, end));
      expect(now.slice(0, before.length - 1)).toEqual(before.slice(0, -1));
      before = now;
    }
    expect(blocks.of(text)).toEqual(new Blocks(1).of(text));
  }
});

test("another text begins anew", () => {
  const blocks = new Blocks(1);
  blocks.of("One.\n\nTwo.\n");
  expect(blocks.of("Other.\n\nText.\n")).toEqual(["Other.\n\n", "Text.\n"]);
});

/** The formulae that are drawn; `!` before those that stand alone. */
const formulae = (text: string) =>
  [...html(text).matchAll(/<tex( display="block")?>(.*?)<\/tex>/gs)].map(([, alone, tex]) => (alone ? "!" : "") + tex);

test("formulae are found where the field finds them, and prices are none", () => {
  expect(formulae("Let $a^2$ and \\(b_1 * c_2 * d\\).")).toEqual(["a^2", "b_1 * c_2 * d"]);
  expect(formulae("It costs $5, not $6. From $1 to 2$3. A $ b$ and $c $.")).toEqual([]);
  expect(formulae("an escaped \\$a$ b; `$code$`; $a\nb$; $\\$5$")).toEqual(["a\nb", "\\$5"]);
  expect(formulae("```\n$$a$$\n\\[b\\]\n```\n")).toEqual([]);
  expect(formulae("$$a$$\n\n\\[ b \\]\n\n$$\nc\n- d\n\n")).toEqual(["!a", "!b"]);
  expect(formulae("So\n$$\n\\begin{aligned}\na &= b \\\\\n- c\n\\end{aligned}\n$$\nand on")).toEqual([
    "!\\begin{aligned}\na &amp;= b \\\\\n- c\n\\end{aligned}",
  ]);
  expect(formulae("- in a list\n  $$\n  x\n  $$\n\n> $$y$$\n")).toEqual(["!x", "!y"]);
  expect(formulae("of one line $$a$$ within, \\[b\\] too")).toEqual(["!a", "!b"]);
  expect(html("\\(open and $open")).toBe("<p>(open and $open</p>");
});

test("footnotes stand at the end and lead back", () => {
  const shown = html("One[^a] two[^a].\n\n[^a]: The *note*.\n");
  expect(shown).toContain("The <em>note</em>.");
  expect(shown.match(/data-footnote-ref/g)?.length).toBe(2);
  expect(shown).toContain("data-footnote-backref");
});

test("tables, tasks, struck text and bare links are read", () => {
  expect(html("~~a~~ b")).toBe("<p><del>a</del> b</p>");
  expect(html("| a |\n| - |\n| 1 |")).toContain("<td>1</td>");
  expect(html("- [x] done")).toContain('type="checkbox"');
  expect(html("See https://example.org/a?b=c. (http://x.y)")).toBe(
    '<p>See <a href="https://example.org/a?b=c">https://example.org/a?b=c</a>. (<a href="http://x.y">http://x.y</a>)</p>',
  );
  expect(html("[https://a.b](https://c.d)")).toBe('<p><a href="https://c.d">https://a.b</a></p>');
  expect(html("`https://a.b` javascript:alert(1)")).not.toContain("<a");
});
