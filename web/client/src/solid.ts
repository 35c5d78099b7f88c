/** @holdfast/client/solid -- conversations and tasks as signals, as long as their owner lives. */

import { createSignal, onCleanup, type Accessor } from "solid-js";
import type { Client } from "./client.js";
import type { Conversation } from "./conversation.js";
import type { ConversationList } from "./list.js";
import type { Observable } from "./observable.js";
import type { Task } from "./task.js";

/** The same object, in a signal that fires when it has changed. */
function watched<T extends Observable>(its: T): Accessor<T> {
  const [value, set] = createSignal(its, { equals: false });
  onCleanup(its.subscribe(() => set(() => its)));
  return value;
}

/** The connection: `state`, `trouble`, `owner`, `agents`, `outbox` … */
export const createClient = (client: Client): Accessor<Client> => watched(client);

/** A conversation, open as long as its owner lives; without an id a new one. */
export function createConversation(client: Client, id?: string): Accessor<Conversation> {
  const conversation = client.conversation(id);
  void conversation.open().catch(() => {});
  onCleanup(() => conversation.close());
  return watched(conversation);
}

/** A task, followed as long as its owner lives. */
export function createTask(task: Task): Accessor<Task> {
  const who = {};
  task.follow(who);
  onCleanup(() => task.unfollow(who));
  return watched(task);
}

/** The list of conversations, kept up to date as long as its owner lives. */
export function createConversationList({ conversations }: Client): Accessor<ConversationList> {
  conversations.open();
  onCleanup(() => conversations.close());
  return watched(conversations);
}
