/**
 * extras.ts -- common extensions of CommonMark: tables, lists of tasks, struck text, bare links,
 * footnotes, formulae.
 *
 * Not all of remark-gfm: its search for addresses takes half a second for a paragraph of 50,000
 * characters, and a growing paragraph is parsed again and again.
 */

import type { Nodes, PhrasingContent, Text } from "mdast";
import { gfmFootnoteFromMarkdown } from "mdast-util-gfm-footnote";
import { gfmStrikethroughFromMarkdown } from "mdast-util-gfm-strikethrough";
import { gfmTableFromMarkdown } from "mdast-util-gfm-table";
import { gfmTaskListItemFromMarkdown } from "mdast-util-gfm-task-list-item";
import { gfmFootnote } from "micromark-extension-gfm-footnote";
import { gfmStrikethrough } from "micromark-extension-gfm-strikethrough";
import { gfmTable } from "micromark-extension-gfm-table";
import { gfmTaskListItem } from "micromark-extension-gfm-task-list-item";
import type { Processor } from "unified";
import { formulaFromMarkdown, formulaSyntax } from "./formula";

const ADDRESS = /\bhttps?:\/\/[^\s<>"'`)\]]*[^\s<>"'`)\].,;:!?]/g;

/** Tables cost a paragraph eight times its parsing, so texts without any skip them. */
export function extras(this: Processor, { tables }: { tables: boolean }) {
  const data = this.data() as { micromarkExtensions?: object[]; fromMarkdownExtensions?: object[] };
  (data.micromarkExtensions ??= []).push(gfmStrikethrough(), gfmTaskListItem(), gfmFootnote(), formulaSyntax);
  (data.fromMarkdownExtensions ??= []).push(
    gfmStrikethroughFromMarkdown(),
    gfmTaskListItemFromMarkdown(),
    gfmFootnoteFromMarkdown(),
    formulaFromMarkdown,
  );
  if (tables) {
    data.micromarkExtensions.push(gfmTable());
    data.fromMarkdownExtensions.push(gfmTableFromMarkdown());
  }
  return link;
}

function link(node: Nodes) {
  if (!("children" in node) || node.type === "link" || node.type === "linkReference") return;
  const children = node.children as Nodes[];
  node.children = children.flatMap<Nodes>((child) => {
    if (child.type === "text") return linked(child);
    link(child);
    return child;
  }) as never;
}

function linked({ value }: Text): PhrasingContent[] {
  const parts: PhrasingContent[] = [];
  let end = 0;
  for (const { 0: url, index } of value.matchAll(ADDRESS)) {
    parts.push({ type: "text", value: value.slice(end, index) });
    parts.push({ type: "link", url, children: [{ type: "text", value: url }] });
    end = index + url.length;
  }
  parts.push({ type: "text", value: value.slice(end) });
  return parts.filter((part) => part.type !== "text" || part.value !== "");
}
