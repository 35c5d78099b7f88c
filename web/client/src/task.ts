/**
 * task.ts -- one task: its output, over any number of connections, and the requests to it.
 *
 * Readers take its events, each from the seq that it took last: the task's own transcript while
 * somebody follows it, and one for each `events()`.  They share one subscription.  An event goes to
 * the readers for which it is next; those that have it drop it; when a reader misses one, the task
 * resumes after the reader that lags the most.
 */

import type { Client } from "./client.js";
import { HoldfastError, TaskFailed } from "./errors.js";
import { Observable } from "./observable.js";
import { BLANK, endingOf, tellAll, type Ending, type Transcript } from "./transcript.js";
import { isTerminal, type Replies, type TaskEvent, type TaskRecord } from "./wire.js";
import type { TaskStatus, TaskSummary } from "./wire.js";

const QUEUE = 4_096; // events that are held; beyond this, an iterator asks again later

interface Reader {
  /** Seq of the newest event that it has taken. */
  last: number;
  /** Its beginning, if the caller gave it: that may have been after the end. */
  readonly after?: number;
  /** It takes no more until it asks again. */
  full?: boolean;
  /** It wants pieces of text unmerged. */
  readonly exact?: boolean;
  take(event: TaskEvent): void;
  /** Nothing more comes. */
  finish(error?: HoldfastError): void;
}

export interface EventsOptions {
  /** The seq after which it begins; 0 is the beginning. */
  after?: number | undefined;
  /** Pieces of text unmerged. */
  exact?: boolean | undefined;
  /** Ends the loop, even while nothing arrives: it throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

export const isLive = (status: TaskStatus): boolean => status === "pending" || status === "running";

export class Task extends Observable {
  /** The newest one from a reply or a push; before the first, most members are missing. */
  summary: Partial<TaskSummary> = {};
  /** Why it cannot be followed. */
  error: HoldfastError | null = null;

  #client: Client;
  #readers = new Set<Reader>();
  #followers = new Set<unknown>();
  #cursor = -1; // seq of the last event of the subscription; -1: there is none
  #takeBack: (() => void) | undefined; // the newest resume or unsubscribe
  #asked = Infinity; // the seq after which it asked, until it is answered
  #over = false; // the answer was that the task has ended
  #restarted = false;
  #epoch = 0; // of the history that the readers' numbers are of: PROTOCOL.md 4
  #transcript = BLANK;
  #untold: TaskEvent[] = []; // events that are not in the transcript yet: all of a message at once
  #ending: Ending | null = null;

  /** @internal */
  constructor(
    client: Client,
    readonly conversationId: string,
    readonly id: string,
  ) {
    super();
    this.#client = client;
  }

  /** The state from its events; grows while the task is followed. */
  get transcript(): Transcript {
    const events = this.#untold;
    if (events.length > 0) {
      this.#untold = [];
      this.#transcript = tellAll(this.#transcript, events);
    }
    return this.#transcript;
  }

  get text(): string {
    return this.transcript.text;
  }

  /** From its events; for a task that is not followed, the gateway's last word. */
  get status(): TaskStatus {
    const { ending, last, started } = this.transcript;
    if (ending) return ending.status;
    if (last > 0) return started ? "running" : "pending";
    return this.summary.status ?? "pending";
  }

  get live(): boolean {
    return isLive(this.status);
  }

  /** A cancel was requested, and it has not ended yet. */
  get cancelling(): boolean {
    return this.live && Boolean(this.summary.cancel_requested_at);
  }

  // ---- reading

  /** Keeps the transcript up to date until the task ends, or all followers have let go. */
  follow(who: unknown = this): this {
    this.#followers.add(who);
    if (!this.transcript.ending) this.#attach(this.#own);
    return this;
  }

  /** @internal */
  isFollowedBy(who: unknown): boolean {
    return this.#followers.has(who);
  }

  unfollow(who: unknown = this): void {
    this.#followers.delete(who);
    if (this.#followers.size === 0) this.#detach(this.#own);
  }

  /**
   * All events after `after`, each once, to the last one.  Replayed pieces of text come merged,
   * which is the same text in a fraction of the bytes, unless `exact` is set.
   */
  async *events({
    after = 0,
    exact = false,
    signal,
  }: EventsOptions = {}): AsyncGenerator<TaskEvent, void, void> {
    let queue: TaskEvent[] = [];
    let finished: { error?: HoldfastError } | undefined;
    let wake = () => {};
    const reader: Reader = {
      last: after,
      after,
      exact,
      take(event) {
        this.full = queue.push(event) >= QUEUE;
        wake();
      },
      finish(error) {
        finished = { error };
        wake();
      },
    };
    const stop = () => reader.finish(signal!.reason);
    signal?.throwIfAborted();
    signal?.addEventListener("abort", stop);
    this.#attach(reader);
    try {
      for (;;) {
        const batch = queue;
        queue = [];
        for (const event of batch) {
          yield event;
          if (isTerminal(event)) return;
        }
        if (queue.length > 0) continue;
        if (finished?.error) throw finished.error;
        if (finished) return;
        const more = new Promise<void>((resolve) => (wake = resolve));
        if (reader.full) {
          reader.full = false;
          this.#attach(reader);
        }
        await more;
      }
    } finally {
      signal?.removeEventListener("abort", stop);
      this.#detach(reader);
    }
  }

  /** How it ended; rejects with `TaskFailed` when it failed or was cancelled. */
  async result(): Promise<Ending> {
    const ending = this.#ending ?? (await this.#end());
    const { status, error, output } = ending;
    if (status === "completed") return ending;
    throw new TaskFailed(status, error!, output);
  }

  #end(): Promise<Ending> {
    return new Promise((resolve, reject) =>
      this.#attach({
        last: this.transcript.last,
        take(event) {
          const ending = endingOf(event);
          if (ending) resolve(ending);
        },
        finish: reject,
      }),
    );
  }

  // ---- asking

  get #ref() {
    return { task_id: this.id, conversation_id: this.conversationId };
  }

  /** Asks it, and with `tree` its descendants, to stop; the end comes as an event. */
  async cancel({ tree }: { tree?: boolean } = {}): Promise<Replies["cancel"]> {
    const { cancel_requested_at } = this.summary;
    this.meet({ ...this.summary, cancel_requested_at: cancel_requested_at ?? Date.now() });
    try {
      return await this.#client.request("cancel", { ...this.#ref, tree });
    } catch (error) {
      this.meet({ ...this.summary, cancel_requested_at });
      throw error;
    }
  }

  /**
   * Puts a message into its inbox.  Rejects with `connection_lost` when it is unknown whether it
   * arrived.
   */
  async send(content: string): Promise<void> {
    await this.#client.request("send", { ...this.#ref, content }, { kept: false });
  }

  /** Answers a question of the transcript. */
  async respond(input_id: string, answer: boolean | string): Promise<void> {
    await this.#client.request("respond", { ...this.#ref, input_id, answer });
  }

  /** Its whole record. */
  async record(): Promise<TaskRecord> {
    const { task } = await this.#client.request("task", this.#ref);
    this.meet(task);
    return task;
  }

  // ---- from the gateway

  /** @internal */
  meet(summary: Partial<TaskSummary>): void {
    this.summary = summary;
    this.changed();
  }

  /** @internal The gateway sends events from the first on: the answer to `chat`. */
  begun(): void {
    this.#cursor = this.transcript.last;
    this.#epoch = this.#client.welcome?.epoch ?? 0;
    this.follow();
  }

  /** @internal Its connection is lost, and perhaps there is another one. */
  reconnected(live: boolean): void {
    this.#unsubscribed();
    if (live) this.#resume();
  }

  /** @internal No connection will come back. */
  closed(error: HoldfastError): void {
    for (const reader of this.#readers) if (reader !== this.#own) this.#finish(reader, error);
  }

  /** @internal */
  take(event: TaskEvent): void {
    const first = event.from ?? event.seq;
    this.#ending ??= endingOf(event);
    this.#cursor = event.seq;
    let missed = false;
    for (const reader of [...this.#readers]) {
      if (reader.full || event.seq <= reader.last) continue;
      if (first === reader.last + 1) {
        this.#give(reader, event);
        if (isTerminal(event)) this.#drop(reader);
      } else missed = true;
    }
    if (isTerminal(event)) this.#cursor = -1;
    if (missed && this.#asked === Infinity) this.#resume();
  }

  /** @internal All existing events were sent. */
  caughtUp(): void {
    if (this.#asked < Infinity || !this.#over) return;
    this.#cursor = -1;
    for (const reader of this.#reading()) if (reader.last === reader.after) this.#finish(reader);
    if (this.#reading().length === 0) return;
    // It has ended and everything was sent, but its end was not seen: these are not the events we
    // know.
    if (this.#restarted) return this.#fail(new HoldfastError("internal", "no end"));
    this.#restarted = true;
    this.#restart();
  }

  // ---- the subscription

  #own: Reader = {
    last: 0,
    take: (event) => {
      if (this.#untold.push(event) >= QUEUE) void this.transcript; // nobody looks: hold no more
      this.changed();
    },
    finish: (error) => {
      this.error = error ?? null;
      this.changed();
    },
  };

  #reading(): Reader[] {
    return [...this.#readers].filter((reader) => !reader.full);
  }

  #attach(reader: Reader): void {
    this.#readers.add(reader);
    this.#client.following.set(this.id, this);
    if (this.#client.state === "closed") this.closed(this.#client.reason);
    else if (reader.last !== this.#cursor && (reader.exact || reader.last < this.#asked)) {
      this.#resume(); // unless a pending one brings it
    }
  }

  #drop(reader: Reader): void {
    this.#readers.delete(reader);
    if (this.#readers.size === 0) this.#client.following.delete(this.id);
  }

  #finish(reader: Reader, error?: HoldfastError): void {
    this.#drop(reader);
    reader.finish(error);
  }

  #detach(reader: Reader): void {
    if (!this.#readers.has(reader)) return;
    this.#drop(reader);
    if (this.#readers.size > 0 || (this.#cursor < 0 && this.#asked === Infinity)) return;
    this.#unsubscribed();
    if (this.#client.state !== "live") return;
    this.#takeBack = this.#client.ask("unsubscribe", this.#ref, { kept: false });
  }

  #unsubscribed(): void {
    this.#cursor = -1;
    this.#takeBack?.();
    this.#asked = Infinity;
  }

  #resume(): void {
    const reading = this.#reading();
    if (reading.length === 0 || this.#client.state !== "live") return;
    const after = (this.#asked = Math.min(...reading.map(({ last }) => last)));
    this.#takeBack?.();
    this.#takeBack = this.#client.ask(
      "resume",
      {
        ...this.#ref,
        after,
        epoch: this.#epoch || undefined,
        coalesce: !reading.some(({ exact }) => exact),
        ...this.#client.rollup,
      },
      {
        kept: false,
        onReply: (reply) => this.#resumed(reply),
        onError: (error) => this.#refused(error),
      },
    );
  }

  #resumed({ task, after, first = 0, epoch = 0 }: Replies["resume"]): void {
    this.#asked = Infinity;
    this.#epoch = epoch;
    this.#over = !isLive(task.status);
    this.#cursor = Math.max(after, first - 1);
    this.error = null;
    this.meet(task);
    for (const reader of this.#reading()) if (reader.last + 1 < first) this.#reset(reader, first);
  }

  #refused(error: HoldfastError): void {
    const asked = this.#asked;
    this.#asked = Infinity;
    if (error.code === "connection_lost" || this.#client.state === "closed") return;
    // A number that exists and is refused is of another history: so are those of all readers.
    const isLost = asked <= (error.head ?? 0);
    if (error.code === "out_of_range") this.#restart(isLost ? 0 : error.head, isLost);
    else this.#fail(error);
  }

  /** Readers that have seen more than exists start again; with `all`, also those that take nothing now. */
  #restart(head = 0, all = false): void {
    const readers = all ? [...this.#readers] : this.#reading();
    for (const reader of readers) if (reader.last > head) this.#reset(reader, 1);
    this.#resume();
  }

  #reset(reader: Reader, first: number): void {
    const data = { after: reader.last, first };
    this.#give(reader, { event: "reset", seq: first - 1, ts: Date.now(), task_id: this.id, data });
  }

  #give(reader: Reader, event: TaskEvent): void {
    reader.last = event.seq;
    reader.take(event);
  }

  #fail(error: HoldfastError): void {
    this.#cursor = -1;
    for (const reader of this.#readers) this.#finish(reader, error);
  }
}
