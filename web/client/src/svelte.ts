/** @holdfast/client/svelte -- conversations and tasks as stores, as long as somebody subscribes. */

import type { Client } from "./client.js";
import type { Conversation } from "./conversation.js";
import type { ConversationList } from "./list.js";
import type { Observable } from "./observable.js";
import type { Task } from "./task.js";

/** The contract of svelte/store: `$store` in a component. */
export interface Readable<T> {
  subscribe(run: (value: T) => void): () => void;
}

/** The same object, passed on again after each change. */
function readable<T extends Observable>(its: T, open = () => {}, close = () => {}): Readable<T> {
  let users = 0;
  return {
    subscribe(run) {
      if (users++ === 0) open();
      const end = its.subscribe(() => run(its));
      run(its);
      return () => {
        end();
        if (--users === 0) close();
      };
    },
  };
}

/** The connection: `state`, `trouble`, `owner`, `agents`, `outbox` … */
export const connection = (client: Client): Readable<Client> => readable(client);

/** A conversation, open as long as it is subscribed to; without an id a new one. */
export function conversation(client: Client, id?: string): Readable<Conversation> {
  const its = client.conversation(id);
  const open = () => void its.open().catch(() => {});
  return readable(its, open, () => its.close());
}

/** A task, followed as long as it is subscribed to. */
export function task(its: Task): Readable<Task> {
  const who = {};
  return readable(its, () => its.follow(who), () => its.unfollow(who));
}

/** The list of conversations, kept going as long as it is subscribed to. */
export const conversations = ({ conversations: its }: Client): Readable<ConversationList> =>
  readable(its, () => its.open(), () => its.close());
