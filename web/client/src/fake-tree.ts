/** fake-tree.ts -- the messages of a fake conversation: a tree, with one current branch. */

import type { Branch, Message } from "./wire.js";

/** `until` is the task under whose answer it goes as soon as there is one. */
type Kept = Omit<Message, "siblings"> & { until?: string };

export class FakeTree {
  #all: Kept[] = []; // in order of creation
  #end: string | undefined;

  /** The message of this id; or of this task, which stands for its answer, or its question. */
  find(ref: string, role?: Message["role"]): Kept | undefined {
    const its = this.#all.filter(({ task_id }) => task_id === ref);
    return this.#get(ref) ?? its.find((one) => one.role === role) ?? (role ? undefined : its.at(-1));
  }

  #get(id: string | undefined): Kept | undefined {
    return this.#all.find(({ message_id }) => message_id === id);
  }

  get end(): Kept | undefined {
    return this.#get(this.#end);
  }

  /** Adds a user's message, as the new end. */
  ask(message: Kept): void {
    this.#all.push(message);
    this.#end = message.message_id;
  }

  /** Adds an answer; what was asked meanwhile goes on behind it. */
  answer(message: Kept): void {
    this.#all.push(message);
    for (const one of this.#all) {
      if (one.until !== message.task_id) continue;
      one.parent_id = message.message_id;
      one.until = undefined;
    }
    if (this.#end === message.parent_id) this.#end = message.message_id;
  }

  /** The branch through this message, down to the newest below it, is the current one. */
  choose(id: string): boolean {
    if (!this.#get(id)) return false;
    const below = (parent: string) => this.#all.filter(({ parent_id }) => parent_id === parent).at(-1);
    for (let next: Kept | undefined = this.#get(id); next; next = below(next.message_id)) this.#end = next.message_id;
    return true;
  }

  /** The question that another answer is made to. */
  chooseQuestion(id: string): void {
    this.#end = id;
  }

  /** Messages of the current branch, oldest first. */
  path(): Message[] {
    const path: Message[] = [];
    for (let at = this.end; at; at = this.#get(at.parent_id)) path.unshift(this.told(at));
    return path;
  }

  all(): Message[] {
    return this.#all.map(({ until: _, ...message }) => message); // siblings are told in a branch alone
  }

  told({ until: _, ...message }: Kept): Message {
    const siblings = this.#under(message.parent_id);
    return siblings.length > 1 ? { ...message, siblings } : message;
  }

  #under(parent: string | undefined): string[] {
    return this.#all.filter(({ parent_id }) => parent_id === parent).map(({ message_id }) => message_id);
  }

  /** @param task_id the task that answers the end, if it is a question */
  branch(task_id: string | undefined): Branch | undefined {
    const { end } = this;
    if (!end) return;
    const isOpen = end.role !== "assistant";
    const siblings = this.#under(end.message_id);
    return {
      message_id: end.message_id,
      ...(isOpen && task_id && { task_id }),
      ...(isOpen && siblings.length > 0 && { siblings }),
    };
  }
}
