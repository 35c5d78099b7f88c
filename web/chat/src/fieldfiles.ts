/**
 * fieldfiles.ts -- files at the message field, kept over a reload: their bytes in IndexedDB, and in
 * the tab which of them belong to which conversation.
 */

import { IndexedStore, type FilePart } from "@holdfast/client";
import { shortOf, userOfTab } from "./identity";
import { ofTab, read, write } from "./kept";

export interface FieldFile {
  key: string;
  name: string;
  type: string;
  size: number;
  file?: File;
  /** The gateway has it. */
  part?: FilePart;
}

type Kept = FieldFile & { at: number; user?: string };

const LAST_MS = 86_400_000; // the gateway keeps a file that no message has for a day

const store = new IndexedStore("holdfast-files");
const nameOf = (conversationId: string) => `holdfast.files.${conversationId}`;

/** A tab that was closed leaves its files behind. */
async function sweep() {
  for (const { key, at } of await store.list<Kept>("")) if (at < Date.now() - LAST_MS) await store.put(key, undefined);
}
void sweep().catch(() => {});

function keysOf(conversationId: string): string[] {
  try {
    return JSON.parse(read(ofTab, nameOf(conversationId)));
  } catch {
    return [];
  }
}

export const hasFiles = (conversationId: string) => keysOf(conversationId).length > 0;

/** Those that were kept, in their order. */
export async function load(conversationId: string): Promise<FieldFile[]> {
  const found = await Promise.all(keysOf(conversationId).map((key) => store.list<Kept>(key)));
  return found.flat().filter(({ at }) => at >= Date.now() - LAST_MS);
}

export function keep(conversationId: string, { key, name, type, size, file, part }: FieldFile) {
  const keys = keysOf(conversationId);
  if (!keys.includes(key)) write(ofTab, nameOf(conversationId), JSON.stringify([...keys, key]));
  const kept: Kept = { key, name, type, size, file, part, at: Date.now(), user: shortOf(userOfTab()) };
  void store.put(key, kept).catch(() => {}); // or a reload loses it
}

/** Forgets the bytes of this user's files in all tabs, and of those whose user nobody knew. */
export async function forget(user: string) {
  const theirs = [undefined, shortOf(""), shortOf(user)];
  for (const { key, user: its } of await store.list<Kept>("")) if (theirs.includes(its)) await store.put(key, undefined);
}

export function drop(conversationId: string, dropped: readonly string[]) {
  const keys = keysOf(conversationId).filter((key) => !dropped.includes(key));
  write(ofTab, nameOf(conversationId), keys.length > 0 ? JSON.stringify(keys) : "");
  for (const key of dropped) void store.put(key, undefined).catch(() => {});
}
