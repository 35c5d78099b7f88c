/** export.ts -- a whole conversation as a file: Markdown for people, JSON for programs. */

import type { Message } from "@holdfast/client";
import { gateway } from "./gateway";
import { save } from "./save";
import { plural } from "./words";

const PAGE = 200; // messages of a request

/** All messages of the current branch, oldest first. */
async function messagesOf(conversation_id: string): Promise<Message[]> {
  const all: Message[] = [];
  for (;;) {
    const { messages, more } = await gateway.request("history", {
      conversation_id,
      limit: PAGE,
      ...(all.length > 0 && { before: all[0]!.message_id }),
    });
    all.unshift(...messages);
    if (!more || messages.length === 0) return all;
  }
}

const roles = { user: "Question", assistant: "Answer", system: "Notice" };

function asText({ role, content, parts = [], created_at, partial }: Message): string {
  const files = parts.flatMap((part) => (part.type === "file" ? [`- File: ${part.name ?? part.media_type ?? "without a name"}`] : []));
  const head = `## ${roles[role]}, ${new Date(created_at).toISOString().slice(0, 16).replace("T", " ")} UTC`;
  return [head, files.join("\n"), content.trim(), partial ? "*This is a part of the answer.*" : ""].filter(Boolean).join("\n\n");
}

export const asMarkdown = (title: string, messages: readonly Message[]): string =>
  `# ${title}\n\n*${plural(messages.length, "message")}*\n\n${messages.map(asText).join("\n\n")}\n`;

/** A title as the name of a file. */
export function fileNameOf(title: string): string {
  const plain = title.replaceAll(/[^\p{L}\p{N}._-]+/gu, " ").replace(/^[ .]+/, "").trim();
  return plain.slice(0, 60).trim() || "conversation";
}

export type Form = "markdown" | "json";

export async function exportConversation(conversation_id: string, title: string, form: Form) {
  const messages = await messagesOf(conversation_id);
  const name = fileNameOf(title);
  if (form === "markdown") return save(`${name}.md`, new Blob([asMarkdown(title, messages)], { type: "text/markdown" }));
  const all = JSON.stringify({ conversation_id, title, messages }, null, 2);
  save(`${name}.json`, new Blob([`${all}\n`], { type: "application/json" }));
}
