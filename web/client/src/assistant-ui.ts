"use client";

/**
 * @holdfast/client/assistant-ui -- a conversation as the store of assistant-ui's
 * `useExternalStoreRuntime`.
 */

import { useMemo, useRef } from "react";
import { edit, messagesOf, regenerate } from "./branches.js";
import type { Client } from "./client.js";
import type { Conversation, Turn } from "./conversation.js";
import type { Outgoing } from "./outbox.js";
import { useConversation } from "./react.js";
import { sentenceOf, type Wrong } from "./sentences.js";
import type { Task } from "./task.js";
import type { Part, Question, ToolCall } from "./transcript.js";
import type { ChatOptions } from "./wire.js";

type Option = { id: string; kind: string; label: string };

interface Approval {
  id: string;
  prompt: string;
  display?: "text" | "select";
  allowFreeform?: boolean;
  options?: Option[];
  approved?: boolean;
  optionId?: string;
  text?: string;
  resolution?: "expired";
}

/** A part of an answer, as assistant-ui has them. */
export type UiPart =
  | { type: "text" | "reasoning"; text: string }
  | { type: "tool-call"; toolCallId: string; toolName: string; args: any; result?: string; isError?: boolean; approval?: Approval }
  | { type: `data-${string}`; data: unknown };

type Status =
  | { type: "running" }
  | { type: "requires-action"; reason: "interrupt" }
  | { type: "complete"; reason: "stop" }
  | { type: "incomplete"; reason: "cancelled" | "error"; error?: string };

export interface UiMessage {
  id: string;
  role: "user" | "assistant";
  content: UiPart[];
  createdAt?: Date;
  status?: Status;
  metadata?: { isOptimistic: boolean };
}

export interface StoreOptions {
  /** Fields of `chat` for every message: `agent`, `when_busy`, `metadata` … */
  chat?: Omit<ChatOptions, "request_key" | "reply_to" | "edit"> | undefined;
  /** The words for an error; by default a sentence for people. */
  errorText?(error: Wrong): string;
}

/** As much of a message that the user has written as is read here. */
interface Written {
  content: readonly { type: string }[];
  sourceId: string | null;
}

interface Responded {
  approvalId: string;
  approved: boolean;
  optionId?: string;
  text?: string;
}

/** A conversation, open as long as it is shown; without an id a new one. */
export function useHoldfastStore(client: Client, id?: string, options: StoreOptions = {}) {
  const { conversation, turns, loaded, hasEarlier } = useConversation(client, id);
  const names = useRef(new Names()).current;
  const { chat, errorText = sentenceOf } = options;
  const messages = turns.flatMap((turn) => messagesIn(conversation, turn, names, errorText));
  const isRunning = turns.some(({ task, outgoing }) => task?.live || (outgoing && outgoing.state !== "failed"));
  const does = useMemo(() => actions(client, conversation, names, chat), [client, conversation, names, chat]);
  const suggestions = loaded && turns.length === 0 ? suggestionsOf(client, chat?.agent) : [];
  return { messages, isRunning, isLoading: !loaded, hasEarlier, suggestions, convertMessage, ...does };
}

const convertMessage = (message: UiMessage): UiMessage => message;

const suggestionsOf = ({ agents }: Client, name?: string) => {
  const agent = agents.find((one) => (name === undefined ? one.default : one.name === name)) ?? agents[0];
  return (agent?.examples ?? []).map((prompt) => ({ prompt }));
};

function actions(client: Client, conversation: Conversation, names: Names, chat: ChatOptions | undefined) {
  const turnOf = (id: string | null) => {
    const turn = conversation.turns.find((one) => names.of(conversation, one) === id || one.key === id);
    if (!turn) throw new Error("there is no such message");
    return turn;
  };
  const live = () => conversation.tasks.filter((task) => task.live);
  return {
    async onNew(message: Written) {
      conversation.ask(textOf(message), chat);
    },
    async onEdit(message: Written) {
      edit(conversation, turnOf(message.sourceId), textOf(message), chat);
    },
    async onReload(parentId: string | null) {
      const turn = turnOf(parentId);
      if (turn.outgoing) turn.outgoing.retry();
      else await regenerate(client, conversation, turn, chat);
    },
    async onCancel() {
      for (const outgoing of conversation.outgoing) outgoing.discard();
      await Promise.all(live().map((task) => task.cancel({ tree: true })));
    },
    async onRespondToToolApproval({ approvalId, approved, optionId, text }: Responded) {
      const asks = ({ transcript }: Task) => transcript.questions.some((one) => one.open && one.input_id === approvalId);
      await live().find(asks)?.respond(approvalId, text ?? optionId ?? approved);
    },
    async onLoadEarlier() {
      await conversation.earlier();
    },
  };
}

const textOf = ({ content }: Written): string =>
  content.flatMap((part) => (part.type === "text" ? [(part as { text: string } & typeof part).text] : [])).join("\n");

/** The ids of questions stay the same from the first stroke on, while the gateway gives them its own. */
class Names {
  #outgoing = new Set<Outgoing>();
  #byMessage = new Map<string, string>();

  of(conversation: Conversation, turn: Turn): string {
    if (turn.outgoing) this.#outgoing.add(turn.outgoing);
    const { question } = messagesOf(conversation, turn);
    const known = question && this.#byMessage.get(question.message_id);
    if (known) return known;
    const its = [...this.#outgoing].find((one) => one === turn.outgoing || (one.task && one.task === turn.task));
    const name = `asked ${its?.key ?? turn.key}`;
    if (question) this.#byMessage.set(question.message_id, name);
    return name;
  }
}

function messagesIn(conversation: Conversation, turn: Turn, names: Names, errorText: (error: Wrong) => string): UiMessage[] {
  const { key, input, text, task, outgoing } = turn;
  const messages: UiMessage[] = [];
  const { question } = messagesOf(conversation, turn);
  const at = question?.created_at ?? outgoing?.askedAt;
  if (input !== null) {
    const createdAt = at === undefined ? {} : { createdAt: new Date(at) };
    messages.push({ id: names.of(conversation, turn), role: "user", content: [{ type: "text", text: input }], ...createdAt });
  }
  if (outgoing?.state === "failed") {
    const status: Status = { type: "incomplete", reason: "error", error: errorText(outgoing.error!) };
    messages.push({ id: key, role: "assistant", content: [], status });
  }
  if (outgoing) return messages;
  const parts = task && task.transcript.last > 0 ? task.transcript.parts : [];
  const content = parts.length > 0 ? partsOf(parts) : text ? [{ type: "text" as const, text }] : [];
  messages.push({ id: key, role: "assistant", content, status: statusOf(turn, errorText) });
  return messages;
}

function statusOf({ task, partial }: Turn, errorText: (error: Wrong) => string): Status {
  const status = task?.status ?? (partial ? "failed" : "completed");
  if (task?.live) {
    const asks = task.transcript.questions.some(({ open }) => open);
    return asks ? { type: "requires-action", reason: "interrupt" } : { type: "running" };
  }
  if (status === "completed") return { type: "complete", reason: "stop" };
  if (status === "cancelled") return { type: "incomplete", reason: "cancelled" };
  const error = task?.transcript.ending?.error ?? task?.summary.error ?? { code: "agent_error" };
  return { type: "incomplete", reason: "error", error: errorText(error) };
}

/** Parts in order; an approval belongs to the call that it is about. */
function partsOf(parts: readonly Part[]): UiPart[] {
  const asked = new Map<string, Question>();
  const calls = new Set(parts.flatMap((part) => (part.type === "tool" ? [part.tool.call_id] : [])));
  for (const part of parts) {
    if (part.type === "question" && calls.has(part.question.call_id ?? "")) asked.set(part.question.call_id!, part.question);
  }
  return parts.flatMap((part): UiPart | UiPart[] => {
    switch (part.type) {
      case "text":
        return { type: "text", text: part.text };
      case "thinking":
        return { type: "reasoning", text: part.text };
      case "tool":
        return callOf(part.tool, asked.get(part.tool.call_id));
      case "question":
        return calls.has(part.question.call_id ?? "") ? [] : askedOf(part.question);
      default:
        return { type: `data-${part.type}`, data: (part as Record<string, unknown>)[part.type] };
    }
  });
}

function callOf({ call_id, name, arguments: args, output, is_error }: ToolCall, question: Question | undefined): UiPart {
  const result = output === undefined ? {} : { result: output, isError: is_error === true };
  const approval = question && { approval: approvalOf(question) };
  return { type: "tool-call", toolCallId: call_id, toolName: name, args: args ?? {}, ...result, ...approval };
}

/** A question that belongs to no call that was shown. */
function askedOf(question: Question): UiPart {
  const { input_id, tool, kind, arguments: args = {}, open, answer } = question;
  const result = open ? {} : { result: String(answer ?? "") };
  return { type: "tool-call", toolCallId: input_id, toolName: tool ?? kind, args, ...result, approval: approvalOf(question) };
}

function approvalOf({ input_id: id, kind, prompt, options, open, answer }: Question): Approval {
  const choices = options?.map((one): Option => {
    const { id, name = id, kind = "_choice" } = typeof one === "string" ? { id: one } : one;
    return { id, kind, label: name };
  });
  const display = kind !== "question" ? {} : choices ? { display: "select" as const, allowFreeform: true } : { display: "text" as const };
  const approval: Approval = { id, prompt, ...display, ...(choices && { options: choices }) };
  if (open) return approval;
  if (answer === null || answer === undefined) return { ...approval, resolution: "expired" };
  if (typeof answer === "boolean") return { ...approval, approved: answer };
  const isChoice = choices?.some((one) => one.id === answer);
  return { ...approval, approved: true, ...(isChoice ? { optionId: answer } : { text: answer }) };
}
