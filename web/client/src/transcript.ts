/** transcript.ts -- what a task has said so far, told by its events.  A new object for each event. */

import { isTerminal, type EventData, type TaskError, type TaskEvent } from "./wire.js";

export type ToolCall = EventData["tool_call"] &
  Partial<EventData["tool_result"]> & { calledAt?: number; returnedAt?: number };
export type Question = EventData["input_required"] & {
  open: boolean;
  answer?: boolean | string | null;
};

export interface Ending {
  status: "completed" | "failed" | "cancelled";
  /** The answer, or what had been said before it failed or was cancelled. */
  output: string;
  result?: unknown;
  error?: TaskError;
}

export interface Transcript {
  /** Seq of the newest event that is told here; 0 before the first. */
  readonly last: number;
  /** Seq of the oldest: above 1 when the beginning is no longer kept. */
  readonly first: number;
  readonly agent: string | null;
  readonly input: string | null;
  readonly started: boolean;
  /** The answer: all tokens, or the final answer in their place. */
  readonly text: string;
  readonly thinking: string;
  readonly progress: number | null;
  readonly note: string;
  readonly tools: readonly ToolCall[];
  readonly questions: readonly Question[];
  readonly inbox: readonly EventData["message"][];
  readonly children: readonly EventData["child"][];
  readonly ending: Ending | null;
}

export const BLANK: Transcript = {
  last: 0,
  first: 1,
  agent: null,
  input: null,
  started: false,
  text: "",
  thinking: "",
  progress: null,
  note: "",
  tools: [],
  questions: [],
  inbox: [],
  children: [],
  ending: null,
};

/** The transcript with one more event, whose turn it must be. */
export function tell(so: Transcript, event: TaskEvent): Transcript {
  return { ...so, ...news(so, event), last: event.seq };
}

function news(so: Transcript, { event, data, ts }: TaskEvent): Partial<Transcript> | undefined {
  switch (event) {
    case "reset":
      return { ...BLANK, first: data.first, started: data.first > 1 };
    case "task.created":
      return { agent: data.agent, input: data.input };
    case "task.started":
      return { started: true };
    case "thinking":
      return { thinking: so.thinking + data.text };
    case "token":
      return { text: so.text + data.text };
    case "tool_call":
      return { tools: [...so.tools, { ...data, calledAt: ts }] };
    case "tool_result":
      return { tools: withResult(so.tools, { ...data, returnedAt: ts }) };
    case "progress":
      return { progress: data.progress, note: data.note ?? "" };
    case "message":
      return { inbox: [...so.inbox, data] };
    case "child":
      return { children: [...so.children, data] };
    case "input_required":
      return { questions: [...so.questions, { ...data, open: true }] };
    case "input_received":
      return { questions: so.questions.map((one) => closed(one, data.input_id, data.answer)) };
    case "final_answer":
      return { text: data.output };
    case "task.completed":
    case "task.failed":
      return end(so, endingOf({ event, data } as TaskEvent)!);
  }
}

/** How the task ended, if this is the event that says so. */
export function endingOf(event: TaskEvent): Ending | null {
  return isTerminal(event) ? { status: "completed", output: "", ...(event.data as object) } : null;
}

function end(so: Transcript, ending: Ending): Partial<Transcript> {
  return {
    ending,
    text: so.first > 1 ? ending.output : so.text,
    questions: so.questions.map((one) => closed(one, one.input_id)),
  };
}

const closed = (one: Question, id: string, answer = one.answer): Question =>
  one.open && one.input_id === id ? { ...one, open: false, answer } : one;

/** Agents may use a call_id again, and some models do in each turn: a result is that of the oldest open call. */
function withResult(tools: readonly ToolCall[], result: Omit<ToolCall, "arguments">): ToolCall[] {
  const same = tools.filter(({ call_id }) => call_id === result.call_id);
  const call = same.find(({ output }) => output === undefined) ?? same.at(-1);
  if (!call) return [...tools, { arguments: {}, ...result }];
  return tools.map((tool) => (tool === call ? { ...tool, ...result } : tool));
}
