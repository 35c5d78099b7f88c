/** conversation.ts -- one conversation: its messages, its tasks, and its unsent questions. */

import type { Client } from "./client.js";
import { Observable } from "./observable.js";
import type { Outgoing } from "./outbox.js";
import { isLive, Task } from "./task.js";
import type {
  BackgroundResult,
  Branch,
  ChatOptions,
  Message,
  Replies,
  RequestFields,
  TaskStatus,
  TaskSummary,
} from "./wire.js";


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
  /** Those of the current branch that are loaded, and all later ones; oldest first. */
  messages: readonly Message[] = [];
  /** There are older ones: `earlier()` loads them. */
  hasEarlier = false;
  /** The end of the current branch, as it was opened; undefined when it has grown since. */
  branch: Branch | undefined;
  /** The first snapshot has arrived. */
  loaded = false;

  #client: Client;
  #tasks = new Map<string, Task>();
  #users = 0; // callers that opened it and did not close it yet
  #opening: Promise<this> | undefined;
  #loading = false;
  #newest = ""; // task of the snapshot: older ones without a message are of other branches
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
    let open = ""; // the turn at the end that has no answer yet
    const answered = (key: string, more?: Partial<Turn>) => {
      const asked = turns.get(open);
      turns.delete(open); // by another task, if its answer was made again
      turn(key, { ...asked, ...more, key });
      open = "";
    };
    for (const message of this.messages) {
      const { message_id, task_id, role, content, partial = false, created_at } = message;
      const key = task_id ?? message_id;
      if (!times.has(key)) times.set(key, created_at);
      if (role === "assistant") answered(key, { text: content, partial });
      else turn((open = key), { [role === "user" ? "input" : "notice"]: content });
    }
    const task_id = this.branch?.task_id;
    if (task_id) answered(task_id);
    for (const task of this.tasks) {
      const { last, input, text } = task.transcript;
      const { type, question_id } = task.summary;
      if (type !== "chat" && type !== "notice") continue;
      if (!turns.has(task.id) && (question_id || task.id <= this.#newest)) continue;
      turn(task.id, { task });
      times.set(task.id, task.summary.created_at ?? times.get(task.id) ?? 0);
      if (last === 0) continue;
      const said = type === "chat" ? "input" : "notice";
      const partial = task.status === "failed" || task.status === "cancelled";
      turn(task.id, { text, partial, [said]: input ?? turns.get(task.id)![said] });
    }
    const all = [...turns.values()];
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
      this.#client.ask("open", { conversation_id: this.id }, { kept: true, onReply, onError });
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
  async earlier(limit?: number): Promise<boolean> {
    const before = this.messages[0]?.message_id;
    const page = await this.history({ limit, before });
    if (before === this.messages[0]?.message_id) {
      this.messages = [...page.messages, ...this.messages];
      this.hasEarlier = !!page.more;
      this.changed();
    }
    return this.hasEarlier;
  }

  // ---- asking

  /** Asks a question, a text or parts with files; works without a network and over reloads, and exactly once. */
  ask(message: RequestFields["chat"]["message"], options: ChatOptions = {}): Outgoing {
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

  #snapshot({ messages, tasks, branch }: Replies["open"]): this {
    const parent_id = messages[0]?.parent_id;
    const before = this.messages.slice(0, this.#find(parent_id) + 1);
    if (!before.length) this.hasEarlier = !!parent_id; // else they are contiguous
    this.messages = [...before, ...messages];
    this.branch = branch;
    this.#newest = tasks.at(-1)?.task_id ?? "";
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

  #find(id: string | undefined): number {
    return this.messages.findIndex((one) => one.message_id === id);
  }

  /** @internal A task that is new or has changed. */
  pushed(summary: TaskSummary): void {
    const isNew = !this.#tasks.has(summary.task_id);
    const task = this.#client.meet(summary);
    // A live one may be known by its id alone: from the list of its parent's children.
    if ((isNew || (task.live && !task.isFollowedBy(this))) && this.#users > 0) task.follow(this);
  }

  /** @internal A new message; undefined: another branch was chosen. */
  said(message?: Message): void {
    const { message_id, parent_id } = message ?? {};
    if (this.#find(message_id) >= 0) return;
    // It is of another branch, or came between.
    if (!message || (parent_id && this.#find(parent_id) < this.messages.length - 1)) return this.reconnected();
    this.branch = undefined;
    this.messages = [...this.messages, message];
    this.changed();
  }
}

interface Page {
  limit?: number;
  before?: string;
}
