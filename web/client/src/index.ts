/** @holdfast/client -- conversations and tasks that survive every lost connection. */

import { Client, type Options } from "./client.js";

/** A client of the gateway at `url` (`wss://host/v1/ws`); it connects, and stays connected, by itself. */
export function connect(url: string | URL, options: Options = {}): Client {
  return new Client(String(url), options);
}

export type { Client, Options };
export type { BackoffOptions } from "./backoff.js";
export type { State } from "./connection.js";
export type { Conversation, Turn } from "./conversation.js";
export { HoldfastError, TaskFailed } from "./errors.js";
export type { Faults } from "./faults.js";
export type { ConversationList } from "./list.js";
export type { Outgoing, OutgoingState } from "./outbox.js";
export { IndexedStore, MemoryStore, type Store } from "./store.js";
export type { EventsOptions, Task } from "./task.js";
export type { FetchToken } from "./token.js";
export { BLANK, tell } from "./transcript.js";
export type { Ending, Part, Question, ToolCall, Transcript } from "./transcript.js";
export type { Cause, Trouble } from "./trouble.js";
export type * from "./wire.js";
