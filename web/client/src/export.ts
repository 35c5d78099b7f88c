/** @holdfast/client/export -- a conversation as JSON lines, and a new one of such lines. */

import type { Client } from "./client.js";
import type { Conversation } from "./conversation.js";
import type { ExportLine } from "./wire.js";

/** Every line of a conversation, oldest last, read as they are asked for. */
export async function* exportLines(client: Client, { id }: Conversation): AsyncGenerator<ExportLine, void> {
  let from: string | undefined;
  do {
    const page = await client.request("export", { conversation_id: id, ...(from && { from }) });
    yield* page.lines;
    from = page.more ? page.from : undefined;
  } while (from);
}

/** The same as a file: one line of JSON for each. */
export async function exportFile(client: Client, conversation: Conversation): Promise<Blob> {
  const parts: string[] = [];
  for await (const line of exportLines(client, conversation)) parts.push(`${JSON.stringify(line)}\n`);
  return new Blob(parts, { type: "application/x-ndjson" });
}

/**
 * A new conversation of the lines of an export, within the gateway's longest message; a longer one
 * goes over HTTP (`POST /v1/import`).  Events are left out: no import needs them.
 */
export async function importFile(client: Client, file: Blob, title?: string): Promise<Conversation> {
  const rows = (await file.text()).split("\n").filter((row) => row.trim() !== "");
  const lines = rows.map((row) => JSON.parse(row) as ExportLine).filter(({ type }) => type !== "event");
  const reply = await client.request("import", { lines, ...(title && { title }) }, { kept: false });
  return client.conversation(reply.conversation_id);
}
