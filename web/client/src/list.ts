/** list.ts -- the owner's conversations, most recently changed first. */

import type { Client } from "./client.js";
import { Observable } from "./observable.js";
import type { ConversationSummary, Replies } from "./wire.js";

const PAGE = 50;
const MOST = 200;

export class ConversationList extends Observable {
  /** There are older ones: `older()` loads them. */
  hasOlder = false;
  loaded = false;

  #client: Client;
  #items = new Map<string, ConversationSummary>();
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
    const before = this.items.at(-1)?.conversation_id;
    this.#add(await this.#client.request("conversations", { limit: PAGE, before }));
    return this.hasOlder;
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
          this.#add(reply);
        },
      },
    );
  }

  /** @internal */
  pushed(conversation: ConversationSummary, deleted = false): void {
    if (deleted) this.#items.delete(conversation.conversation_id);
    else this.#items.set(conversation.conversation_id, conversation);
    this.changed();
  }

  #add({ conversations, more }: Replies["conversations"]): void {
    for (const each of conversations) this.#items.set(each.conversation_id, each);
    this.hasOlder = Boolean(more);
    this.loaded = true;
    this.changed();
  }
}
