/**
 * @holdfast/client/ai-sdk -- a chat transport for `useChat` of the AI SDK, over our own wire.
 *
 * The chat's id is the conversation, an assistant message is a task.  A connection that is lost
 * does not end the stream: it goes on where it was.  Stop cancels the task; whoever only goes away
 * does not.
 */

import { aiChunks, type Chunk } from "./ai-chunks.js";
import { messagesOf } from "./branches.js";
import type { Client } from "./client.js";
import type { Conversation } from "./conversation.js";
import { HoldfastError } from "./errors.js";
import { newId } from "./id.js";
import { sentenceOf, type Wrong } from "./sentences.js";
import type { Task } from "./task.js";
import type { ChatOptions, RequestFields } from "./wire.js";

export type { Chunk } from "./ai-chunks.js";

/** As much of a message of the AI SDK as is read here. */
export interface UiMessage {
  id: string;
  role: "system" | "user" | "assistant";
  parts: readonly { type: string }[];
}

export interface TransportOptions {
  /** Fields of `chat` for every message: `agent`, `when_busy`, `metadata` … */
  chat?: Omit<ChatOptions, "request_key" | "reply_to" | "edit"> | undefined;
  /** The text of the chat's error when a task fails; by default a sentence for people. */
  errorText?(error: Wrong): string;
}

interface Sending {
  trigger: "submit-message" | "regenerate-message";
  chatId: string;
  messageId: string | undefined;
  messages: readonly UiMessage[];
  abortSignal: AbortSignal | undefined;
  /** Fields of `chat` for this message; `model` is another name of `agent`. */
  body?: object;
}

export class HoldfastChatTransport {
  /** A stream that is taken up again begins with its first chunk. */
  readonly resumeStreamIsReplay = true;
  #client: Client;
  #options: TransportOptions;
  #asked = new Map<string, string>(); // tasks, by the id of the chat's message

  constructor(client: Client, options: TransportOptions = {}) {
    this.#client = client;
    this.#options = options;
  }

  async sendMessages(sending: Sending): Promise<ReadableStream<Chunk>> {
    const { trigger, chatId, messages, abortSignal } = sending;
    const last = messages.at(-1);
    if (trigger === "submit-message" && last?.role === "assistant") {
      const task = this.#client.task(chatId, last.id);
      return this.#stream(task, abortSignal, await answer(task, last));
    }
    const task = await (trigger === "submit-message" ? this.#ask(sending, last) : this.#again(sending));
    return this.#stream(task, abortSignal);
  }

  /** The answer that is under way; null when there is none. */
  async reconnectToStream({ chatId, abortSignal }: { chatId: string; abortSignal?: AbortSignal }): Promise<ReadableStream<Chunk> | null> {
    const conversation = this.#client.conversation(chatId);
    const open = await conversation.open();
    const waiting = conversation.outgoing.find(({ state }) => state !== "failed");
    const task = waiting ? await waiting.started : open.tasks.filter(isAnswering).at(-1);
    const stream = task ? this.#stream(task, abortSignal) : null;
    conversation.close();
    return stream;
  }

  #fields({ body = {} }: Sending): ChatOptions {
    const { model, ...fields } = body as ChatOptions & { model?: string };
    return { ...this.#options.chat, ...(model !== undefined && { agent: model }), ...fields };
  }

  async #ask(sending: Sending, message: UiMessage | undefined): Promise<Task> {
    const { chatId, messageId, abortSignal } = sending;
    if (!message) throw new HoldfastError("bad_request", "there is no message");
    abortSignal?.throwIfAborted();
    const place = messageId === undefined ? { request_key: message.id } : { edit: this.#asked.get(messageId) ?? messageId };
    const outgoing = this.#client.conversation(chatId).ask(textOf(message), { ...this.#fields(sending), ...place });
    const discard = () => outgoing.discard();
    abortSignal?.addEventListener("abort", discard);
    try {
      const task = await outgoing.started;
      this.#asked.set(message.id, task.id);
      return task;
    } catch (error) {
      discard(); // the chat has it still, and sends it again if its user wants that
      throw abortSignal?.aborted ? abortSignal.reason : error;
    } finally {
      abortSignal?.removeEventListener("abort", discard);
    }
  }

  async #again(sending: Sending): Promise<Task> {
    const { chatId, messageId } = sending;
    const conversation = this.#client.conversation(chatId);
    const named = messageId && (this.#asked.get(messageId) ?? messageId);
    const regenerate = named ?? (await newest(conversation));
    const fields = { request_key: newId(), ...this.#fields(sending), conversation_id: chatId, regenerate };
    const { task } = await this.#client.request("chat", fields as unknown as RequestFields["chat"]);
    const again = this.#client.task(chatId, task.task_id);
    const asked = sending.messages.at(-1);
    if (asked) this.#asked.set(asked.id, again.id);
    return again;
  }

  /** @param answered the question after whose answer it goes on */
  #stream(task: Task, signal: AbortSignal | undefined, answered?: string): ReadableStream<Chunk> {
    const { errorText = sentenceOf } = this.#options;
    const ending = new AbortController();
    const stop = () => {
      ending.abort(signal!.reason);
      void task.cancel({ tree: true }).catch(() => {});
    };
    const chunks = aiChunks(task, { signal: ending.signal, answered, errorText });
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop);
    const over = () => signal?.removeEventListener("abort", stop);
    return new ReadableStream<Chunk>({
      async pull(controller) {
        try {
          const { value, done } = await chunks.next();
          if (!done) return controller.enqueue(value);
          controller.close();
        } catch (error) {
          controller.error(error);
        }
        over();
      },
      cancel() {
        over();
        ending.abort();
      },
    });
  }
}

const isAnswering = ({ live, summary: { type } }: Task) => live && (type === "chat" || type === "notice");

function textOf({ parts }: UiMessage): string {
  const texts = parts.flatMap((part) => (part.type === "text" ? [(part as unknown as { text: string }).text] : []));
  if (parts.some(({ type }) => type === "file")) throw new HoldfastError("unsupported", "files are given by giveFile");
  return texts.join("\n");
}

interface Answered {
  type: string;
  state?: string;
  approval?: { id: string; approved?: boolean };
  data?: { input_id: string; answer: string | boolean };
}

/** Gives the answers in the chat's last message to the task; returns the id of the last one. */
async function answer(task: Task, { parts }: UiMessage): Promise<string> {
  let last: string | undefined;
  const open = new Set(task.transcript.questions.flatMap((one) => (one.open ? [one.input_id] : [])));
  for (const { type, state, approval, data } of parts as readonly Answered[]) {
    const given =
      state === "approval-responded" && approval
        ? { input_id: approval.id, answer: approval.approved === true }
        : type === "data-answer" && data;
    if (!given) continue;
    last = given.input_id;
    if (task.transcript.last === 0 || open.has(last)) await task.respond(last, given.answer);
  }
  if (last === undefined) throw new HoldfastError("bad_request", "the last message answers no question");
  return last;
}

/** The task of the newest answer, or of a question that has none. */
async function newest(conversation: Conversation): Promise<string> {
  const { messages } = await conversation.history({ limit: 1 });
  const { task_id, message_id } = messages.at(-1) ?? {};
  const id = task_id ?? message_id;
  if (!id) throw new HoldfastError("bad_request", "there is no answer");
  return id;
}

/**
 * The conversation so far as messages for `useChat`, without the answer that is under way: `resume`
 * brings that.
 */
export function uiMessages(conversation: Conversation) {
  return conversation.turns.flatMap((turn) => {
    const { key, input, text, task } = turn;
    const { question } = messagesOf(conversation, turn);
    const said = (id: string, role: "user" | "assistant", text: string) => ({ id, role, parts: [{ type: "text" as const, text }] });
    const asked = input === null ? [] : [said(question?.message_id ?? key, "user", input)];
    return task?.live || text === "" ? asked : [...asked, said(key, "assistant", text)];
  });
}
