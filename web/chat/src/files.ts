/**
 * files.ts -- files that go with a message: uploads begin as soon as they are added, a few at a
 * time, and are kept for their conversation while another one is open.
 */

import type { Conversation, FilePart, HoldfastError, Message, Outgoing, Turn } from "@holdfast/client";
import { messagesOf } from "@holdfast/client/branches";
import { giveFile, guestToken, readFile } from "@holdfast/client/files";
import { drop, hasFiles, keep, load } from "./fieldfiles";
import { address, gateway } from "./gateway";
import { keptToken } from "./identity";
import { Observable } from "./inspector/changing";
import { sentenceOf } from "./trouble";

const AT_ONCE = 3; // uploads: the gateway takes eight of an owner
export const MOST = 63; // of a message: 64 parts, one of which is the text (PROTOCOL.md 3)

export interface Attachment {
  readonly key: string;
  readonly name: string;
  readonly type: string;
  readonly size: number;
  readonly sent: number;
  /** Missing for what came back from a message that was not sent. */
  readonly file?: File;
  /** It was added by an earlier page, which may have begun to send it. */
  readonly isOld?: boolean;
  /** The gateway has it. */
  readonly part?: FilePart;
  /** The gateway refused it, and why. */
  readonly wrong?: string;
}

/** The owner's token for requests over HTTP; "" where a cookie says who asks. */
export async function token(): Promise<string> {
  await new Promise<void>((resolve) => {
    const look = () => gateway.welcome && (end(), resolve());
    const end = gateway.subscribe(look);
    look();
  });
  return keptToken() || (await guestToken(address).catch(() => undefined)) || gateway.welcome!.token || "";
}

const options = { url: new URL(".", document.baseURI).href, token };

const sentences: Record<string, string> = {
  too_large: "It is larger than this gateway takes.",
  unsupported: "This gateway takes no files.",
  overloaded: "There is no room for it at the moment.",
};

export class Attachments extends Observable {
  items: readonly Attachment[] = [];
  #isLoading: boolean;
  #running = new Map<string, AbortController>();

  constructor(readonly conversationId: string) {
    super();
    this.#isLoading = hasFiles(conversationId);
    if (this.#isLoading) void this.#load();
  }

  async #load() {
    const kept = await load(this.conversationId).catch(() => []);
    this.#isLoading = false;
    this.#set([...kept.map((its) => ({ ...its, sent: its.part ? its.size : 0, isOld: true })), ...this.items]);
  }

  get isBusy(): boolean {
    return this.#isLoading || this.items.some(({ part, wrong }) => !part && wrong === undefined);
  }

  /** Those that the gateway has. */
  get parts(): FilePart[] {
    return this.items.flatMap(({ part }) => part ?? []);
  }

  add(files: Iterable<File>) {
    const more = [...files].slice(0, Math.max(0, MOST - this.items.length));
    const items = more.map((file) => {
      const { name, type, size } = file;
      return { key: newKey(), name: name || "file", type, size, sent: 0, file };
    });
    for (const one of items) keep(this.conversationId, one);
    this.#set([...this.items, ...items]);
  }

  /** Puts back what went with a message that was not sent. */
  putBack(parts: readonly FilePart[]) {
    const items = parts.map((part) => {
      const { file_id: key, name = "file", media_type: type = "", size = 0 } = part;
      return { key, name, type, size, sent: size, part };
    });
    for (const one of items) keep(this.conversationId, one);
    this.#set([...items, ...this.items]);
  }

  remove(key: string) {
    this.#running.get(key)?.abort();
    drop(this.conversationId, [key]);
    this.#set(this.items.filter((one) => one.key !== key));
  }

  clear() {
    drop(
      this.conversationId,
      this.items.map(({ key }) => key),
    );
    this.#set([]);
  }

  #set(items: readonly Attachment[]) {
    this.items = items;
    this.changed();
    const waiting = items.filter(({ key, part, wrong }) => !part && wrong === undefined && !this.#running.has(key));
    for (const one of waiting.slice(0, Math.max(0, AT_ONCE - this.#running.size))) void this.#upload(one);
  }

  #change(key: string, more: Partial<Attachment>) {
    this.#set(this.items.map((one) => (one.key === key ? { ...one, ...more } : one)));
  }

  async #upload({ key, name, file, isOld }: Attachment) {
    const ending = new AbortController();
    this.#running.set(key, ending);
    const onProgress = (sent: number) => this.#change(key, { sent });
    const given = await giveFile(this.conversationId, file!, { ...options, key, isNew: !isOld, name, signal: ending.signal, onProgress }).then(
      (part): Partial<Attachment> => ({ part }),
      ({ code = "", message = "" }: HoldfastError) => ({ wrong: sentences[code] ?? sentenceOf({ code, message }) }),
    );
    this.#running.delete(key);
    this.#change(key, given); // and begins the next one
    const its = this.items.find((one) => one.key === key);
    if (its?.part) keep(this.conversationId, its);
    else drop(this.conversationId, [key]); // refused, or removed
  }
}

const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const all = new Map<string, Attachments>();

export function attachmentsOf(conversationId: string): Attachments {
  let its = all.get(conversationId);
  if (!its) all.set(conversationId, (its = new Attachments(conversationId)));
  return its;
}

/** A text and its files, as a message. */
export function messageOf(text: string, parts: readonly FilePart[]): Outgoing["request"]["message"] {
  if (parts.length === 0) return text;
  return text.trim() === "" ? parts : [{ type: "text", text }, ...parts];
}

type Parts = Message["parts"];

const filesAmong = (parts: Parts): FilePart[] => (parts ?? []).filter((part): part is FilePart => part.type === "file" && "file_id" in part);

/** The files that go with an unsent message. */
export function filesOfOutgoing({ request: { message } }: Outgoing): FilePart[] {
  return typeof message === "string" ? [] : filesAmong(message);
}

/** The files of a turn's question. */
export function filesOf(conversation: Conversation, turn: Turn): FilePart[] {
  if (turn.outgoing) return filesOfOutgoing(turn.outgoing);
  return filesAmong(messagesOf(conversation, turn).question?.parts);
}

export const bytesOf = (conversationId: string, { file_id }: FilePart) => readFile(conversationId, file_id, options);
