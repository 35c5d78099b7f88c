/** list.ts -- the owner's conversations, most recently changed first. */

import type { Client } from "./client.js";
import { Observable } from "./observable.js";
import type { ConversationSummary, Replies, RequestFields } from "./wire.js";

const PAGE = 50;
const MOST = 200;

export class ConversationList extends Observable {
  /** There are older ones: `older()` loads them. */
  hasOlder = false;
  loaded = false;

  #client: Client;
  #items = new Map<string, ConversationSummary>();
  #oldest: string | undefined; // of the pages: others below it may be known too
  #users = 0;

  /** @internal */
  constructor(client: Client) {
    super();
    this.#client = client;
  }

  get items(): readonly ConversationSummary[] {
    return [...this.#items.values()].sort((a, b) => b.updated_at - a.updated_at);
  }

  /** Loads the newest, and keeps them up to date until it was closed as often as opened. */
  open(): this {
    if (this.#users++ === 0) this.reconnected();
    return this;
  }

  close(): void {
    if (this.#users > 0) this.#users--;
  }

  async older(): Promise<boolean> {
    this.#add(await this.#client.request("conversations", { limit: PAGE, before: this.#oldest }));
    return this.hasOlder;
  }

  /** Loads those that are pinned, or archived, wherever they stand; until the next connection. */
  async also(which: Omit<RequestFields["conversations"], "limit">): Promise<Replies["conversations"]> {
    const reply = await this.#client.request("conversations", { limit: MOST, ...which });
    this.#keep(reply);
    this.changed();
    return reply;
  }

  /** @internal */
  forget(): void {
    this.#items.clear();
    this.loaded = this.hasOlder = false;
    this.changed();
  }

  /** @internal */
  reconnected(): void {
    if (this.#users === 0 || this.#client.state !== "live") return;
    const limit = Math.min(MOST, Math.max(PAGE, this.#items.size));
    this.#client.ask("watch", {}, { kept: false });
    this.#client.ask(
      "conversations",
      { limit },
      {
        kept: false,
        onReply: (reply) => {
          this.#items.clear();
          this.#oldest = undefined;
          this.#add(reply);
        },
      },
    );
  }

  /** @internal */
  pushed(conversation: ConversationSummary, deleted = false): void {
    const { conversation_id: id, updated_at } = conversation;
    if (id === this.#oldest && (deleted || updated_at > this.#items.get(id)!.updated_at)) {
      // Gone, or first now.
      const { items } = this;
      this.#oldest = items[items.findIndex(({ conversation_id }) => conversation_id === id) - 1]?.conversation_id;
    }
    if (deleted) this.#items.delete(id);
    else this.#items.set(id, conversation);
    this.changed();
  }

  #keep({ conversations }: Replies["conversations"]): void {
    for (const each of conversations) this.#items.set(each.conversation_id, each);
  }

  #add(reply: Replies["conversations"]): void {
    this.#keep(reply);
    this.#oldest = reply.conversations.at(-1)?.conversation_id ?? this.#oldest;
    this.hasOlder = Boolean(reply.more);
    this.loaded = true;
    this.changed();
  }
}
