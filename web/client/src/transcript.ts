/** transcript.ts -- a task's state so far, from its events.  A new object for each event. */

import { isTerminal, type EventData, type TaskError, type TaskEvent } from "./wire.js";

export type ToolCall = EventData["tool_call"] &
  Partial<EventData["tool_result"]> & { calledAt?: number; returnedAt?: number };
export type Question = EventData["input_required"] & {
  open: boolean;
  answer?: boolean | string | null;
};

/** One output or action of a task.  `seq` is that of its first event, the same in each replay. */
export type Part = { seq: number } & (
  | { type: "text" | "thinking"; text: string }
  | { type: "tool"; tool: ToolCall }
  | { type: "question"; question: Question }
  | { type: "child"; child: EventData["child"] }
  | { type: "file"; file: EventData["file"] }
  | { type: "message"; message: EventData["message"] }
  | { type: "custom"; custom: EventData["custom"] }
);

export interface Ending {
  status: "completed" | "failed" | "cancelled";
  /** The answer, or the text until it failed or was cancelled. */
  output: string;
  result?: unknown;
  error?: TaskError;
}

export interface Transcript {
  /** Seq of the newest event in it; 0 before the first. */
  readonly last: number;
  /** Seq of the oldest: above 1 when the beginning is no longer kept. */
  readonly first: number;
  readonly agent: string | null;
  readonly input: string | null;
  readonly started: boolean;
  /** How often it went on after a restart of the gateway. */
  readonly resumed: number;
  /** Everything in the order of the stream: what a page shows. */
  readonly parts: readonly Part[];
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
  resumed: 0,
  parts: [],
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

/** The transcript with one more event, which must be the next one. */
export const tell = (so: Transcript, event: TaskEvent): Transcript => tellAll(so, [event]);

/** The same with several at once, for one copy of its lists. */
export function tellAll(so: Transcript, events: readonly TaskEvent[]): Transcript {
  const draft = new Draft(so);
  for (const event of events) {
    Object.assign(draft.so, news(draft, event));
    draft.so.last = event.seq;
  }
  return draft.so;
}

type Lists = { [K in keyof Transcript as Transcript[K] extends readonly unknown[] ? K : never]: Transcript[K] };
type Writable<T> = { -readonly [K in keyof T]: T[K] };

/** A new transcript in the making.  Its lists are copied before they are first written to. */
class Draft {
  so: Writable<Transcript>;
  #own = new Set<unknown>();

  constructor(so: Transcript) {
    this.so = { ...so };
  }

  list<K extends keyof Lists>(name: K): Writable<Lists[K]> & unknown[] {
    let list: any = this.so[name];
    if (!this.#own.has(list)) this.#own.add((list = this.so[name] = [...list] as any));
    return list;
  }

  /** One more part, whose member has the name of its type, and an item of that list. */
  add(seq: number, type: Part["type"], its: object, list?: keyof Lists): void {
    if (list) this.list(list).push(its as never);
    this.list("parts").push({ seq, type, [type]: its } as never);
  }

  /** One more piece of text or thoughts: it joins a part that it directly follows. */
  say(type: "text" | "thinking", seq: number, text: string): void {
    this.so[type] += text;
    const parts = this.list("parts") as Part[];
    const last = parts.at(-1);
    if (last?.type === type) parts[parts.length - 1] = { ...last, text: last.text + text };
    else parts.push({ seq, type, text });
  }
}

function news(draft: Draft, told: TaskEvent): Partial<Transcript> | void {
  const { so } = draft;
  const { event, data, ts, seq, from = seq } = told;
  switch (event) {
    case "reset":
      return { ...BLANK, first: data.first, started: data.first > 1 };
    case "task.created":
      return { agent: data.agent, input: data.input };
    case "task.started":
      return { started: true };
    case "task.resumed":
      return { resumed: so.resumed + 1, ...withdrawn(so, data.keep) };
    case "thinking":
      return draft.say(event, from, data.text);
    case "token":
      return draft.say("text", from, data.text);
    case "tool_call":
      return draft.add(seq, "tool", { ...data, calledAt: ts }, "tools");
    case "tool_result":
      return withResult(draft, seq, { ...data, returnedAt: ts });
    case "progress":
      return { progress: data.progress, note: data.note ?? "" };
    case "message":
      return draft.add(seq, event, data, "inbox");
    case "child":
      return draft.add(seq, event, data, "children");
    case "custom":
    case "file":
      return draft.add(seq, event, data);
    case "input_required":
      return draft.add(seq, "question", { ...data, open: true }, "questions");
    case "input_received":
      return answered(so, (one) => closed(one, data.input_id, data.answer));
    case "final_answer":
      return final(so, seq, data.output);
    case "task.completed":
    case "task.failed":
      return end(so, seq, endingOf(told)!);
  }
}

/** Without the text that is said anew: what remains is counted, in characters of either kind. */
function withdrawn(so: Transcript, keep = { text: Infinity, thinking: Infinity }) {
  const kept = { text: "", thinking: "" };
  const parts = so.parts.flatMap((part): Part | Part[] => {
    if (!("text" in part)) return part;
    const text = [...part.text].slice(0, keep[part.type] - [...kept[part.type]].length).join("");
    kept[part.type] += text;
    return text ? { ...part, text } : [];
  });
  return { parts, ...kept };
}

/** The answer replaces all text so far, unless it equals that text. */
function final({ text, parts }: Transcript, seq: number, output: string): Partial<Transcript> {
  if (text === output) return {};
  const others = parts.filter(({ type }) => type !== "text");
  return { text: output, parts: [...others, { seq, type: "text", text: output }] };
}

/** How the task ended, if this event says so. */
export function endingOf(event: TaskEvent): Ending | null {
  return isTerminal(event) ? { status: "completed", output: "", ...(event.data as object) } : null;
}

function end(so: Transcript, seq: number, ending: Ending): Partial<Transcript> {
  const said = so.first > 1 ? final(so, seq, ending.output) : {};
  return {
    ending,
    ...said,
    ...answered({ ...so, ...said }, (one) => closed(one, one.input_id)),
  };
}

const closed = (one: Question, id: string, answer = one.answer): Question =>
  one.open && one.input_id === id ? { ...one, open: false, answer } : one;

function answered(so: Transcript, of: (one: Question) => Question): Partial<Transcript> {
  return {
    questions: so.questions.map(of),
    parts: so.parts.map((one) => {
      if (one.type !== "question") return one;
      const question = of(one.question);
      return question === one.question ? one : { ...one, question };
    }),
  };
}

/**
 * Agents may reuse a call_id, and some models do in each turn: a result belongs to the oldest open
 * call.
 */
function withResult(draft: Draft, seq: number, result: Omit<ToolCall, "arguments">): void {
  const { tools, parts } = draft.so;
  const same = tools.filter(({ call_id }) => call_id === result.call_id);
  const call = same.find(({ output }) => output === undefined) ?? same.at(-1);
  const tool = { arguments: {}, ...call, ...result };
  if (!call) return draft.add(seq, "tool", tool, "tools");
  const at = parts.findIndex((one) => one.type === "tool" && one.tool === call);
  draft.list("tools")[tools.indexOf(call)] = tool;
  draft.list("parts")[at] = { seq: parts[at]!.seq, type: "tool", tool };
}
