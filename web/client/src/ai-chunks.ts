/**
 * ai-chunks.ts -- a task's events as chunks of the AI SDK, the same as the gateway's own face
 * makes.
 *
 * A run of text is a part, and so is a run of thoughts; any other event closes the run.  Each run
 * of text begins a step of its own, because `reset-step` is the only way to take text back.  An
 * approval ends the stream, as the SDK's own do: its client answers with the next request, whose
 * stream goes on after the answer.
 */

import type { Wrong } from "./sentences.js";
import type { Task } from "./task.js";
import { isTerminal, type EventData, type TaskEvent, type TaskSummary } from "./wire.js";

type ToolChunk = { toolCallId: string; dynamic: true; providerExecuted: true };

export type Chunk =
  | { type: "start"; messageId: string }
  | { type: "start-step" }
  | { type: "finish-step" }
  | { type: "reset-step" }
  | { type: "text-start" | "text-end" | "reasoning-start" | "reasoning-end"; id: string }
  | { type: "text-delta" | "reasoning-delta"; id: string; delta: string }
  | ({ type: "tool-input-available"; toolName: string; input: unknown } & ToolChunk)
  | ({ type: "tool-output-available"; output: unknown } & ToolChunk)
  | ({ type: "tool-output-error"; errorText: string } & ToolChunk)
  | { type: "tool-output-denied"; toolCallId: string }
  | { type: "tool-approval-request"; approvalId: string; toolCallId: string; reason?: string }
  | { type: "tool-approval-response"; approvalId: string; approved: boolean }
  | { type: `data-${string}`; id?: string; data: unknown }
  | { type: "finish"; finishReason: "stop" | "tool-calls"; messageMetadata?: { result: unknown } }
  | { type: "abort"; reason: string }
  | { type: "error"; errorText: string };

interface ChunkOptions {
  signal: AbortSignal;
  /** The question after whose answer the stream goes on. */
  answered?: string;
  errorText(error: Wrong): string;
}

const length = (text: string) => [...text].length; // in code points, as the wire counts

class Writer {
  chunks: Chunk[] = [];
  /** An approval was asked for, and not answered since. */
  asks: string | undefined;
  #run: "text" | "reasoning" | undefined;
  #runs = 0; // their ids
  #step: "text" | "other" | undefined;
  #text = ""; // of the whole message
  #before = ""; // of it, before the current step
  #last = ""; // of the current or the last run of text
  #calls = new Map<string, string>(); // of approvals
  #errorText: ChunkOptions["errorText"];

  constructor(errorText: ChunkOptions["errorText"]) {
    this.#errorText = errorText;
  }

  take({ event, data }: TaskEvent): void {
    switch (event) {
      case "token":
        return this.#say("text", data.text);
      case "thinking":
        return this.#say("reasoning", data.text);
      case "tool_call":
        return this.#call(data.call_id, data.name, data.arguments);
      case "tool_result":
        return this.#result(data);
      case "input_required":
        return data.kind === "question" ? this.#data("question", data) : this.#approval(data);
      case "input_received":
        return this.#answer(data);
      case "progress":
        return this.#data(event, data, event);
      case "child":
      case "file":
      case "message":
      case "custom":
        return this.#data(event, data);
      case "final_answer":
        return this.#final(data.output);
      case "task.resumed":
        return this.#resumed(data);
      case "task.completed":
        this.endStep();
        return this.#put({ type: "finish", finishReason: "stop", messageMetadata: { result: data.result ?? null } });
      case "task.failed":
        return this.#failed(data);
    }
  }

  #put(chunk: Chunk): void {
    this.chunks.push(chunk);
  }

  #endRun(): void {
    if (this.#run) this.#put({ type: `${this.#run}-end`, id: `${this.#run}-${this.#runs}` });
    this.#run = undefined;
  }

  endStep(): void {
    this.#endRun();
    if (this.#step) this.#put({ type: "finish-step" });
    this.#step = undefined;
  }

  #begin(step: "text" | "other"): void {
    if (this.#step === step) return;
    this.endStep();
    this.#put({ type: "start-step" });
    this.#step = step;
    this.#before = this.#text;
  }

  #say(run: "text" | "reasoning", text: string): void {
    if (text === "") return;
    if (this.#run !== run) {
      this.#endRun();
      this.#begin(run === "text" ? "text" : "other");
      this.#run = run;
      this.#runs++;
      this.#last = "";
      this.#put({ type: `${run}-start`, id: `${run}-${this.#runs}` });
    }
    if (run === "text") {
      this.#text += text;
      this.#last += text;
    }
    this.#put({ type: `${run}-delta`, id: `${run}-${this.#runs}`, delta: text });
  }

  /** Anything that is neither text nor thoughts. */
  #other(chunk: Chunk): void {
    this.#endRun();
    this.#begin("other");
    this.#put(chunk);
  }

  #data(name: string, data: unknown, id?: string): void {
    this.#other({ type: `data-${name}`, data, ...(id && { id }) });
  }

  #call(toolCallId: string, toolName: string, input: unknown): void {
    const given = { toolCallId, toolName, input: input ?? {} };
    this.#other({ type: "tool-input-available", ...given, dynamic: true, providerExecuted: true });
  }

  #result({ call_id: toolCallId, output, is_error }: EventData["tool_result"]): void {
    this.#endRun();
    const its = { toolCallId, dynamic: true, providerExecuted: true } as const;
    this.#put(is_error ? { type: "tool-output-error", errorText: output, ...its } : { type: "tool-output-available", output, ...its });
  }

  #approval({ input_id, call_id = input_id, tool, arguments: given, prompt }: EventData["input_required"]): void {
    if (call_id === input_id) this.#call(call_id, tool ?? "approval", given); // of no call that was shown
    this.#endRun();
    this.#put({ type: "tool-approval-request", approvalId: input_id, toolCallId: call_id, reason: prompt });
    this.#calls.set(input_id, call_id);
    this.asks = input_id;
  }

  #answer(data: EventData["input_received"]): void {
    const { input_id, answer } = data;
    const toolCallId = this.#calls.get(input_id);
    if (this.asks === input_id) this.asks = undefined;
    if (toolCallId === undefined || typeof answer !== "boolean") return this.#data("answer", data);
    this.#put({ type: "tool-approval-response", approvalId: input_id, approved: answer });
    if (!answer) this.#put({ type: "tool-output-denied", toolCallId });
  }

  /** Takes the text of the current step back, as far as the chunks can. */
  #reset(): boolean {
    if (this.#step !== "text") return false;
    this.#put({ type: "reset-step" });
    this.#run = undefined;
    this.#text = this.#before;
    return true;
  }

  /** Streamed text stays when it is the answer, as a whole or in its last run. */
  #final(output: string): void {
    if (output === this.#text || (this.#text !== "" && output === this.#last)) return;
    this.#reset();
    this.#text = "";
    this.#say("text", output);
  }

  #resumed({ keep }: EventData["task.resumed"]): void {
    this.#endRun();
    if (!keep || keep.text >= length(this.#text)) return;
    const kept = [...this.#text].slice(length(this.#before), keep.text).join("");
    if (this.#reset()) this.#say("text", kept);
  }

  #failed({ status, error }: EventData["task.failed"]): void {
    this.endStep();
    if (status === "cancelled") this.#put({ type: "abort", reason: "cancelled" });
    else this.#put({ type: "error", errorText: this.#errorText(error) });
  }
}

const LATER = Symbol("nothing in this turn");
const later = () => new Promise<typeof LATER>((resolve) => setTimeout(resolve, 0, LATER));

/** All events have arrived, and this question is open. */
const isWaiting = ({ transcript, summary }: Task, input_id: string): boolean =>
  transcript.last >= (summary.head ?? 0) &&
  transcript.questions.some((one) => one.open && one.input_id === input_id);

/** The chunks of a task, to its end or to an approval that waits for its user. */
export async function* aiChunks(task: Task, options: ChunkOptions): AsyncGenerator<Chunk, void, void> {
  const { signal, answered, errorText } = options;
  const writer = new Writer(errorText);
  const who = {};
  let withdrawn: TaskSummary["retracted"];
  let skips = answered !== undefined; // the chat has it already
  const events = task.follow(who).events({ signal });
  yield { type: "start", messageId: task.id };
  try {
    for (let next = events.next(); ; ) {
      const come = writer.asks && !skips ? await Promise.race([next, later()]) : await next;
      if (come === LATER) {
        if (isWaiting(task, writer.asks!)) break;
        await Promise.race([next, changed(task)]);
        continue;
      }
      const { value: event, done } = come;
      if (done) return;
      next = events.next();
      withdrawn ??= task.summary.retracted ?? []; // as `resumed` told before the first event
      if (isText(event) && withdrawn.some(([after, before]) => event.seq > after && event.seq < before)) continue;
      if (skips && isTheAnswer(event, answered!)) {
        skips = false;
        writer.endStep();
        writer.chunks = [];
      }
      writer.take(event);
      if (!skips) yield* writer.chunks;
      writer.chunks = [];
    }
    writer.endStep();
    yield* writer.chunks;
    yield { type: "finish", finishReason: "tool-calls" };
  } finally {
    task.unfollow(who);
    void events.return();
  }
}

const isText = ({ event }: TaskEvent): boolean => event === "token" || event === "thinking";

const isTheAnswer = (told: TaskEvent, input_id: string): boolean =>
  isTerminal(told) || (told.event === "input_received" && told.data.input_id === input_id);

const changed = (task: Task) =>
  new Promise<void>((resolve) => {
    const end = task.subscribe(() => (end(), resolve()));
  });
