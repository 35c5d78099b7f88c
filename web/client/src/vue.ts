/** @holdfast/client/vue -- conversations and tasks as refs, as long as their scope lives. */

import { customRef, markRaw, onScopeDispose, type Ref } from "vue";
import type { Client } from "./client.js";
import type { Conversation } from "./conversation.js";
import type { ConversationList } from "./list.js";
import type { Observable } from "./observable.js";
import type { Task } from "./task.js";

/** The same object in a ref that triggers when it has changed. */
function watched<T extends Observable>(its: T): Readonly<Ref<T>> {
  return customRef((track, trigger) => {
    onScopeDispose(its.subscribe(trigger));
    return { get: () => (track(), markRaw(its)), set() {} };
  });
}

/** The connection: `state`, `trouble`, `owner`, `agents`, `outbox` … */
export const useClient = (client: Client): Readonly<Ref<Client>> => watched(client);

/** A conversation, open as long as the scope lives; without an id a new one. */
export function useConversation(client: Client, id?: string): Readonly<Ref<Conversation>> {
  const conversation = client.conversation(id);
  void conversation.open().catch(() => {});
  onScopeDispose(() => conversation.close());
  return watched(conversation);
}

/** A task, followed as long as the scope lives. */
export function useTask(task: Task): Readonly<Ref<Task>> {
  const who = {};
  task.follow(who);
  onScopeDispose(() => task.unfollow(who));
  return watched(task);
}

/** The list of conversations, kept up to date as long as the scope lives. */
export function useConversationList({ conversations }: Client): Readonly<Ref<ConversationList>> {
  conversations.open();
  onScopeDispose(() => conversations.close());
  return watched(conversations);
}
