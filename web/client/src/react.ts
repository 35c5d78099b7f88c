"use client";

/** @holdfast/client/react -- conversations and tasks as hooks. */

import { useCallback, useEffect, useRef, useSyncExternalStore } from "react";
import type { Client } from "./client.js";
import type { Conversation, Turn } from "./conversation.js";
import type { ConversationList } from "./list.js";
import type { Observable } from "./observable.js";
import type { Outgoing } from "./outbox.js";
import type { Task } from "./task.js";
import type { Transcript } from "./transcript.js";
import type { ChatOptions, TaskStatus } from "./wire.js";

/** Renders again when it changes. */
function useVersion(observed: Observable | null | undefined): void {
  const subscribe = useCallback(
    (listener: () => void) => observed?.subscribe(listener) ?? (() => {}),
    [observed],
  );
  const version = () => observed?.version;
  useSyncExternalStore(subscribe, version, version);
}

/** The state of the connection: `state`, `retryAt`, `error`, `trouble`, `owner`, `agents`. */
export function useClient(client: Client) {
  useVersion(client);
  const { state, retryAt, error, trouble, owner, agents } = client;
  return { state, retryAt, error, trouble, owner, agents };
}

export interface ConversationView {
  conversation: Conversation;
  loaded: boolean;
  hasEarlier: boolean;
  turns: readonly Turn[];
  tasks: readonly Task[];
  ask(message: string, options?: ChatOptions): Outgoing;
}

/**
 * A conversation, open as long as it is shown; without an id a new one, the same until it is
 * hidden.
 */
export function useConversation(client: Client, id?: string): ConversationView {
  const fresh = useRef<Conversation | null>(null);
  const conversation =
    id === undefined ? (fresh.current ??= client.conversation()) : client.conversation(id);
  useVersion(conversation);
  useEffect(() => {
    void conversation.open().catch(() => {});
    return () => conversation.close();
  }, [conversation]);
  const ask = useCallback(
    (message: string, options?: ChatOptions) => conversation.ask(message, options),
    [conversation],
  );
  const { loaded, hasEarlier, turns, tasks } = conversation;
  return { conversation, loaded, hasEarlier, turns, tasks, ask };
}

export type TaskView = Transcript & { status: TaskStatus; live: boolean; cancelling: boolean };

/** A task's output, followed as long as it is shown; null without a task. */
export function useTask(task: Task): TaskView;
export function useTask(task: Task | null | undefined): TaskView | null;
export function useTask(task: Task | null | undefined): TaskView | null {
  useVersion(task);
  useEffect(() => {
    const who = {};
    task?.follow(who);
    return () => task?.unfollow(who);
  }, [task]);
  if (!task) return null;
  const { transcript, status, live, cancelling } = task;
  return { ...transcript, status, live, cancelling };
}

export type ConversationListView = Pick<ConversationList, "items" | "loaded" | "hasOlder"> & {
  /** Loads older ones; returns whether there are still more. */
  older(): Promise<boolean>;
};

/** The list of conversations, kept up to date as long as it is shown. */
export function useConversationList({ conversations }: Client): ConversationListView {
  useVersion(conversations);
  useEffect(() => {
    conversations.open();
    return () => conversations.close();
  }, [conversations]);
  const { items, loaded, hasOlder } = conversations;
  const older = useCallback(() => conversations.older(), [conversations]);
  return { items, loaded, hasOlder, older };
}

/** Only its items. */
export const useConversations = (client: Client): ConversationList["items"] =>
  useConversationList(client).items;
