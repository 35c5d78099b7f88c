/** @holdfast/client/branches -- edited questions, answers made again, the choice between them, and forks. */

import type { Client } from "./client.js";
import type { Conversation, Turn } from "./conversation.js";
import { HoldfastError } from "./errors.js";
import { newId } from "./id.js";
import type { Outgoing } from "./outbox.js";
import type { Task } from "./task.js";
import type { ChatOptions, Message, Replies, RequestFields } from "./wire.js";

/** The versions of a question or of an answer. */
export interface Versions {
  /** The `message_id` of each, in order of creation; `null` for an answer that is being made. */
  ids: readonly (string | null)[];
  /** The place of the one that is shown; -1: it is older than the newest 256. */
  at: number;
}

const versionsOf = (message: Message | undefined): Versions | null =>
  message?.siblings ? { ids: message.siblings, at: message.siblings.indexOf(message.message_id) } : null;

/** Pages look up every turn in each frame; a list of messages never changes, but is replaced. */
const indexes = new WeakMap<readonly Message[], Map<string, Message>>();

/** By id, and by task: the first question and the first answer of each. */
function indexOf(messages: readonly Message[]) {
  let its = indexes.get(messages);
  if (its) return its;
  indexes.set(messages, (its = new Map()));
  for (const one of [...messages].reverse()) {
    its.set(one.message_id, one).set(`${one.role === "assistant"} ${one.task_id}`, one);
  }
  return its;
}

/** The stored messages of a turn, as far as they are loaded. */
export function messagesOf({ messages }: Conversation, { key, task }: Turn) {
  const its = indexOf(messages);
  const answer = its.get(`true ${key}`);
  const asked = answer?.parent_id ?? task?.summary.question_id;
  return { question: its.get(asked || `false ${key}`), answer };
}

/** The versions of a turn's question and of its answer; null where there is one only. */
export function versions(
  conversation: Conversation,
  turn: Turn,
): { question: Versions | null; answer: Versions | null } {
  const { question, answer } = messagesOf(conversation, turn);
  const { branch } = conversation;
  const others = branch && branch.message_id === question?.message_id ? branch.siblings : undefined;
  const made = !answer && others ? { ids: [...others, null], at: others.length } : null;
  return { question: versionsOf(question), answer: versionsOf(answer) ?? made };
}

/** Asks the turn's question in other words; what came after it stays, on a branch of its own. */
export function edit(
  conversation: Conversation,
  turn: Turn,
  message: RequestFields["chat"]["message"],
  options: ChatOptions = {},
): Outgoing {
  const { question } = messagesOf(conversation, turn);
  return conversation.ask(message, { ...options, edit: question?.message_id ?? turn.key });
}

/** Has the turn's question answered once more; the first answer stays. */
export async function regenerate(
  client: Client,
  { id }: Conversation,
  turn: Turn,
  options: Omit<ChatOptions, "reply_to" | "edit"> = {},
): Promise<Task> {
  const fields = { request_key: newId(), ...options, conversation_id: id, regenerate: turn.key };
  const { task } = await client.request("chat", fields as unknown as RequestFields["chat"]);
  return client.task(id, task.task_id);
}

/** Makes the branch through that message the current one, for all devices. */
export function choose(
  client: Client,
  { id }: Conversation,
  message_id: string,
): Promise<Replies["branch"]> {
  return client.request("branch", { conversation_id: id, message_id });
}

export interface ForkOptions {
  /** The last message of the path, or a task, which stands for its answer; without it the current branch's. */
  message_id?: string | undefined;
  title?: string | undefined;
}

/** A new conversation of a path of this one, with copies of all that is on it. */
export async function fork(client: Client, { id }: Conversation, options: ForkOptions = {}): Promise<Conversation> {
  const to = newId();
  try {
    await client.request("fork", { ...options, conversation_id: id, to });
  } catch (error) {
    if (!(error instanceof HoldfastError && error.code === "conflict")) throw error; // it was made before a cut
  }
  return client.conversation(to);
}
