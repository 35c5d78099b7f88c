/** conversation.ts -- one conversation: its messages, its tasks, and its unsent questions. */

import type { Client } from "./client.js";
import { Observable } from "./observable.js";
import type { Outgoing } from "./outbox.js";
import { isLive, Task } from "./task.js";
import type {
  BackgroundResult,
  ChatOptions,
  Message,
  Replies,
  TaskStatus,
  TaskSummary,
} from "./wire.js";

const PAGE = 50;
const LARGE = 65_536; // a snapshot with this many characters may have been cut

/** One step of the conversation: a question and its outcome. */
export interface Turn {
  /** The id of the task, or of the unsent message. */
  key: string;
  /** The user's question. */
  input: string | null;
  /** The gateway's text in place of the user's. */
  notice: string | null;
  /** The answer: from the task's events if they are followed, otherwise the stored one. */
  text: string;
  /** The text is incomplete: the task failed or was cancelled. */
  partial: boolean;
  task: Task | null;
  outgoing: Outgoing | null;
}

const BLANK = { input: null, notice: null, text: "", partial: false, task: null, outgoing: null };

export class Conversation extends Observable {
  /** The loaded ones, and all later ones; oldest first. */
  messages: readonly Message[] = [];
  /** There are older ones: `earlier()` loads them. */
  hasEarlier = false;
  /** The first snapshot has arrived. */
  loaded = false;

  #client: Client;
  #tasks = new Map<string, Task>();
  #users = 0; // callers that opened it and did not close it yet
  #opening: Promise<this> | undefined;
  #loading = false;
  #takeBack: (() => void) | undefined; // takes back the newest close

  /** @internal */
  constructor(
    client: Client,
    readonly id: string,
  ) {
    super();
    this.#client = client;
  }

  /** In order of creation. */
  get tasks(): readonly Task[] {
    return [...this.#tasks.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** Questions asked here that are not known to have started. */
  get outgoing(): readonly Outgoing[] {
    return this.#client.outbox.filter(({ conversationId }) => conversationId === this.id);
  }

  /** Messages, `chat` and `notice` tasks, and unsent questions, combined. */
  get turns(): readonly Turn[] {
    const turns = new Map<string, Turn>();
    const times = new Map<string, number>();
    const turn = (key: string, more: Partial<Turn>) =>
      turns.set(key, { ...BLANK, key, ...turns.get(key), ...more });
    for (const message of this.messages) {
      const { message_id, task_id, role, content, partial = false, created_at } = message;
      const key = task_id ?? message_id;
      if (!times.has(key)) times.set(key, created_at);
      if (role === "user") turn(key, { input: content });
      else if (role === "system") turn(key, { notice: content });
      else turn(key, { text: content, partial });
    }
    const { task_id, message_id } = this.messages[0] ?? {};
    const oldest = task_id ?? message_id ?? ""; // earlier tasks come with their messages
    for (const task of this.tasks) {
      const { last, input, text } = task.transcript;
      const { type } = task.summary;
      if (type !== "chat" && type !== "notice") continue;
      if (this.hasEarlier && !task.live && !turns.has(task.id) && task.id < oldest) continue;
      turn(task.id, { task });
      times.set(task.id, task.summary.created_at ?? times.get(task.id) ?? 0);
      if (last === 0) continue;
      const said = type === "chat" ? "input" : "notice";
      const partial = task.status === "failed" || task.status === "cancelled";
      turn(task.id, { text, partial, [said]: input ?? turns.get(task.id)![said] });
    }
    const all = [...turns.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
    for (const outgoing of this.outgoing) {
      // Unsent questions come last; refused ones stay where they were asked.
      const isLater = ({ key }: Turn) => (times.get(key) ?? 0) > outgoing.askedAt;
      const at = outgoing.state === "failed" ? all.findIndex(isLater) : -1;
      const one = { ...BLANK, key: outgoing.key, input: outgoing.text, outgoing };
      all.splice(at < 0 ? all.length : at, 0, one);
      times.set(one.key, outgoing.askedAt);
    }
    return all;
  }

  // ---- looking

  /**
   * Loads the newest messages and tasks, and keeps them up to date until it was closed as often as
   * opened.
   */
  open(): Promise<this> {
    if (this.#users++ === 0) this.#load();
    return this.#opening!;
  }

  #load(): void {
    this.#loading = true;
    this.#takeBack?.();
    this.#opening = new Promise<this>((resolve, onError) => {
      const onReply = (reply: Replies["open"]) => resolve(this.#snapshot(reply));
      const fields = { conversation_id: this.id, limit: PAGE };
      this.#client.ask("open", fields, { kept: true, onReply, onError });
    }).finally(() => (this.#loading = false));
    this.#opening.catch(() => {});
  }

  close(): void {
    if (this.#users > 0 && --this.#users === 0) this.#leave();
  }

  #leave(): void {
    this.#takeBack?.();
    // Kept, so that it comes after an `open` that still waits for a connection.
    this.#takeBack = this.#client.ask("close", { conversation_id: this.id }, { kept: true });
    for (const task of this.#tasks.values()) task.unfollow(this);
  }

  /** Loads messages older than the oldest; returns whether there are still older ones. */
  async earlier(limit = PAGE): Promise<boolean> {
    const before = this.messages[0]?.message_id;
    const page = await this.history({ limit, before });
    if (before === this.messages[0]?.message_id) {
      this.#merge(page.messages);
      this.hasEarlier = Boolean(page.more);
      this.changed();
    }
    return this.hasEarlier;
  }

  // ---- asking

  /** Asks a question; works without a network and over reloads, and exactly once. */
  ask(message: string, options: ChatOptions = {}): Outgoing {
    return this.#client.outgoing.add({ ...options, message, conversation_id: this.id });
  }

  /** Asks every live task of the conversation to stop. */
  cancelAll(): Promise<Replies["cancel_all"]> {
    return this.#client.request("cancel_all", { conversation_id: this.id });
  }

  async rename(title: string): Promise<void> {
    await this.#client.request("title", { conversation_id: this.id, title });
  }

  /** Deletes the conversation: tasks are cancelled, then everything is removed. */
  async delete(): Promise<void> {
    await this.#client.request("delete", { conversation_id: this.id });
    this.forget();
  }

  /** Answers of background tasks that were not acknowledged. */
  async results(page: Page = {}): Promise<{ results: BackgroundResult[]; more?: boolean }> {
    return this.#client.request("results", { conversation_id: this.id, ...page });
  }

  /** Acknowledges these results, so that they are not offered again. */
  async acknowledge(task_ids: string[]): Promise<number> {
    return (await this.#client.request("ack", { conversation_id: this.id, task_ids })).acked;
  }

  history(page: Page = {}): Promise<Replies["history"]> {
    return this.#client.request("history", { conversation_id: this.id, ...page });
  }

  /** Tasks in the gateway's list. */
  async listTasks(page: Page & { status?: TaskStatus } = {}) {
    const { tasks, more } = await this.#client.request("tasks", {
      conversation_id: this.id,
      ...page,
    });
    return { tasks: tasks.map((summary) => this.#client.meet(summary)), more: Boolean(more) };
  }

  // ---- from the gateway

  /** @internal */
  task(id: string): Task {
    let task = this.#tasks.get(id);
    if (!task) {
      task = new Task(this.#client, this.id, id);
      task.subscribe(() => this.changed());
      this.#tasks.set(id, task);
      this.changed();
    }
    return task;
  }

  /** @internal */
  reconnected(): void {
    if (this.#users > 0 && !this.#loading) this.#load();
  }

  /** @internal */
  forget(): void {
    this.messages = [];
    this.hasEarlier = this.loaded = false;
    this.#tasks.clear();
    if (this.#users > 0) this.#load();
    this.changed();
  }

  #snapshot({ messages, tasks }: Replies["open"]): this {
    const known = new Set(this.messages.map(({ message_id }) => message_id));
    if (!messages.some(({ message_id }) => known.has(message_id))) {
      this.messages = []; // these are not contiguous with the loaded ones
      this.hasEarlier = messages.length >= PAGE;
      if (!this.hasEarlier && JSON.stringify(messages).length > LARGE) this.#lookBefore(messages[0]!);
    }
    this.#merge(messages);
    for (const summary of tasks) {
      const task = this.#client.meet(summary);
      if (isLive(summary.status) && this.#users > 0) task.follow(this);
    }
    // Closed meanwhile; the gateway may have processed `close` before an `open` that waited for
    // room.
    if (this.#users === 0) this.#leave();
    this.loaded = true;
    this.changed();
    return this;
  }

  /** Asks whether there are older ones: the snapshot does not say whether it was cut. */
  #lookBefore({ message_id: before }: Message): void {
    const fields = { conversation_id: this.id, limit: 1, before };
    const onReply = ({ messages }: Replies["history"]) => {
      if (this.messages[0]?.message_id !== before) return;
      this.hasEarlier = messages.length > 0;
      this.changed();
    };
    this.#client.ask("history", fields, { kept: false, onReply });
  }

  /** @internal A task that is new or has changed. */
  pushed(summary: TaskSummary): void {
    const isNew = !this.#tasks.has(summary.task_id);
    const task = this.#client.meet(summary);
    // A live one may be known by its id alone: from the list of its parent's children.
    if ((isNew || (task.live && !task.isFollowedBy(this))) && this.#users > 0) task.follow(this);
  }

  /** @internal */
  said(message: Message): void {
    this.#merge([message]);
    this.changed();
  }

  #merge(messages: readonly Message[]): void {
    const all = new Map([...this.messages, ...messages].map((one) => [one.message_id, one]));
    this.messages = [...all.values()].sort((a, b) => (a.message_id < b.message_id ? -1 : 1));
  }
}

interface Page {
  limit?: number;
  before?: string;
}
