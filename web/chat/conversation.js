/**
 * conversation.js -- one conversation as a list of turns: what was asked, and what came of it.
 *
 * A turn is fed from both sides, the stored messages and the tasks' events; where a task's events
 * are known they are what is shown, so that no text stands there twice.
 */

/** @typedef {import("./tasks.js").Task} Task */

/**
 * @typedef {object} Turn
 * @property {string} key
 * @property {string} order      turns stand in the order of this text
 * @property {string|null} input what the user asked
 * @property {string|null} notice what the gateway said instead
 * @property {object|null} reply the assistant's stored message
 * @property {Task|null} task
 * @property {Ask|null} ask      not answered by `started` yet
 */

/** @typedef {{key: string, conversationId: string, askedAt: number, message: string, agent?: string,
 *             error: Error|null}} Ask */

const LAST = "~"; // behind every ULID

export class Conversation {
  /** @type {Map<string, Turn>} */
  #turns = new Map();
  /** Ids of stored messages. @type {Set<string>} */
  #messages = new Set();
  oldestMessage = null;

  /** @param {string} id */
  constructor(id) {
    this.id = id;
  }

  /** @returns {Turn[]} */
  turns() {
    return [...this.#turns.values()].sort(
      (a, b) => Number(a.order > b.order) - Number(a.order < b.order),
    );
  }

  /** Takes the newest messages; what is known already is kept if these join on to it. */
  takeNewest(messages) {
    const joins = messages.some(({ message_id }) => this.#messages.has(message_id));
    if (!joins) this.#forgetMessages();
    for (const message of messages) this.takeMessage(message);
  }

  #forgetMessages() {
    this.#messages.clear();
    this.oldestMessage = null;
    for (const [key, turn] of this.#turns) {
      if (!turn.ask && !turn.task?.heard) this.#turns.delete(key);
    }
  }

  /** @returns {Turn} the turn that it belongs to */
  takeMessage({ message_id, role, content, task_id, partial }) {
    this.#messages.add(message_id);
    if (this.oldestMessage === null || message_id < this.oldestMessage) {
      this.oldestMessage = message_id;
    }
    const turn = this.#turn(task_id ?? message_id);
    if (role === "user") turn.input = content;
    else if (role === "system") turn.notice = content;
    else turn.reply = { content, partial: Boolean(partial) };
    return turn;
  }

  /** @param {Task} task @returns {Turn|null} none for a task that does not speak in the conversation */
  takeTask(task) {
    const { type } = task.summary;
    if (type !== "chat" && type !== "notice") return null;
    const turn = this.#turn(task.id);
    turn.task = task;
    if (task.input !== null && type === "chat") turn.input ??= task.input;
    if (task.input !== null && type === "notice") turn.notice ??= task.input;
    return turn;
  }

  /** @param {Ask} ask */
  takeAsk(ask) {
    const turn = this.#turn(`ask:${ask.key}`, LAST + ask.askedAt);
    turn.input = ask.message;
    turn.ask = ask;
    return turn;
  }

  /** @param {Ask} ask */
  dropAsk(ask) {
    this.#turns.delete(`ask:${ask.key}`);
  }

  #turn(key, order = key) {
    let turn = this.#turns.get(key);
    if (!turn) {
      turn = { key, order, input: null, notice: null, reply: null, task: null, ask: null };
      this.#turns.set(key, turn);
    }
    return turn;
  }
}
