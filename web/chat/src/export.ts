/** export.ts -- a conversation as a file: Markdown for people, JSON lines for gateways, which take it in again. */

import type { Message } from "@holdfast/client";
import { exportFile } from "@holdfast/client/export";
import { token } from "./files";
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

/** The current branch, as Markdown. */
export async function saveText(conversation_id: string, title: string) {
  const messages = await messagesOf(conversation_id);
  save(`${fileNameOf(title)}.md`, new Blob([asMarkdown(title, messages)], { type: "text/markdown" }));
}

/** All branches, tasks and events, as lines. */
export async function saveAll(conversation_id: string, title: string) {
  save(`${fileNameOf(title)}.jsonl`, await exportFile(gateway, gateway.conversation(conversation_id)));
}

/** Makes a conversation of such lines; returns its id. */
export async function takeIn(file: File): Promise<string> {
  const lines = (await file.text()).split("\n").filter((line) => line.trim() !== "" && !line.startsWith('{"type":"event"'));
  const its = await token();
  const reply = await fetch("v1/import", {
    method: "POST",
    headers: { "Content-Type": "application/x-ndjson", ...(its && { Authorization: `Bearer ${its}` }) },
    body: lines.join("\n"),
  });
  const { conversation_id, error } = await reply.json().catch(() => ({}));
  if (!reply.ok) throw error ?? { code: "internal", message: `HTTP ${reply.status}` };
  return conversation_id;
}
