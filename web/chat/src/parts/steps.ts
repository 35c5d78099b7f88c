/**
 * steps.ts -- a task's parts in the page's form: in order, with whole sentences, consecutive calls
 * in one group, and only the newest of very many calls.
 */

import type { Part, Question, ToolCall } from "@holdfast/client";

const CALLS = 20; // shown; a task may make thousands

type Of<T extends Part["type"]> = Extract<Part, { type: T }>;

export type Step =
  /** The n-th of its type. */
  | { key: string; type: "text" | "thinking"; n: number; text: string }
  /** Consecutive ones; `from` of them, the oldest, are not shown. */
  | { key: string; type: "calls"; calls: ToolCall[]; from: number }
  | { key: string; type: "children"; ids: string[] }
  | { key: string; type: "question"; question: Question }
  | { key: string; type: "files"; files: Of<"file">["file"][] }
  | { key: string; type: "message"; message: Of<"message">["message"] }
  | { key: string; type: "custom"; custom: Of<"custom">["custom"] }
  /** That many calls are not shown. */
  | { key: string; type: "earlier"; count: number };

/** The parts as steps; keys stay the same while a task continues. */
export function stepsOf(parts: readonly Part[], all: boolean): Step[] {
  const calls = parts.reduce((n, { type }) => n + Number(type === "tool"), 0);
  const steps: Step[] = [];
  const said = { text: 0, thinking: 0 };
  for (const part of whole(parts)) put(steps, part, said);
  return all || calls <= CALLS ? steps : withoutOldest(steps, calls - CALLS);
}

/** The steps without so many of the oldest calls, and without the thoughts among them. */
function withoutOldest(steps: readonly Step[], count: number): Step[] {
  const shown: Step[] = [];
  let left = count;
  let isTold = false; // that some are not shown
  for (const step of steps) {
    if (left === 0 || (step.type !== "calls" && step.type !== "thinking")) {
      shown.push(step);
      continue;
    }
    if (!isTold) shown.push({ key: "earlier", type: "earlier", count });
    isTold = true;
    if (step.type !== "calls") continue;
    const from = Math.min(left, step.calls.length);
    left -= from;
    if (from < step.calls.length) shown.push({ ...step, calls: step.calls.slice(from), from });
  }
  return shown;
}

const TEXTS = 16; // of a stretch

/** The steps in stretches: where one begins stays the same while the task continues. */
export function stretchesOf(steps: readonly Step[]): { key: string; steps: Step[] }[] {
  const all: { key: string; steps: Step[] }[] = [];
  for (const step of steps) {
    const begins = step.type === "text" && step.n > 0 && step.n % TEXTS === 0;
    if (all.length === 0) all.push({ key: "text 0", steps: [step] });
    else if (begins) all.push({ key: step.key, steps: [step] });
    else all.at(-1)!.steps.push(step);
  }
  return all;
}

/** It says the same as long as its parts are the same. */
export function isSettled(step: Step): boolean {
  if (step.type === "calls") return step.calls.every(({ output }) => output !== undefined);
  return step.type !== "children" && step.type !== "question";
}

const isEach = (one: readonly unknown[], other: readonly unknown[]) =>
  one.length === other.length && one.every((each, at) => each === other[at]);

/** Both are the same settled step, of the same parts. */
export function isSame(one: Step, other: Step): boolean {
  if (one.key !== other.key) return false;
  if (one.type === "calls" && other.type === "calls") return one.from === other.from && isEach(one.calls, other.calls);
  if (one.type === "files" && other.type === "files") return isEach(one.files, other.files);
  if ("text" in one && "text" in other) return one.text === other.text;
  if (one.type === "message" && other.type === "message") return one.message === other.message;
  if (one.type === "custom" && other.type === "custom") return one.custom === other.custom;
  return one.type === "earlier" && other.type === "earlier" && one.count === other.count;
}

/** A text has its number as its key, which is the same from either source: a message, and later events. */
function put(steps: Step[], part: Part, said: { text: number; thinking: number }) {
  const { type } = part;
  if (type === "text" || type === "thinking") {
    const n = said[type]++;
    return steps.push({ key: `${type} ${n}`, type, n, text: part.text });
  }
  const last = steps.at(-1);
  const key = `${type} ${part.seq}`;
  switch (part.type) {
    case "tool":
      if (last?.type === "calls") return last.calls.push(part.tool);
      return steps.push({ key, type: "calls", calls: [part.tool], from: 0 });
    case "child":
      if (last?.type === "children") return last.ids.push(part.child.task_id);
      return steps.push({ key, type: "children", ids: [part.child.task_id] });
    case "file":
      if (last?.type === "files") return last.files.push(part.file);
      return steps.push({ key, type: "files", files: [part.file] });
    case "question":
      return steps.push({ key, type: "question", question: part.question });
    case "message":
      return steps.push({ key, type: "message", message: part.message });
    case "custom":
      return steps.push({ key, type: "custom", custom: part.custom });
  }
}

/** Whether it ends at the end of a sentence, a line or a block. */
const isEnded = (text: string) => text.endsWith("\n") || /[\n.!?:…。！？)\]}"'”’*`|>][^\S\n]*$/.test(text.slice(-40));

/** Parts that may come at any time, even between two words of a sentence. */
const isAside = ({ type }: Part) => type === "thinking" || type === "message" || type === "custom";

/** The parts with whole sentences: a part that came in the middle of one follows it. */
export function whole(parts: readonly Part[]): readonly Part[] {
  const all: Part[] = [];
  let torn = -1; // a text in the middle of a sentence, with only asides after it
  for (const part of parts) {
    const last = all.at(-1);
    const open = all[torn];
    if (part.type === "text" && open?.type === "text") {
      all[torn] = { ...open, text: open.text + part.text };
    } else if (part.type === "thinking" && last?.type === "thinking") {
      all[all.length - 1] = { ...last, text: last.text + part.text };
    } else {
      all.push(part);
    }
    if (part.type === "text") torn = isEnded(part.text) ? -1 : Math.max(torn, all.findLastIndex(({ type }) => type === "text"));
    else if (!isAside(part)) torn = -1;
  }
  return all;
}

const lengthOf = (parts: readonly Part[]) => parts.reduce((n, part) => n + ("text" in part ? part.text.length : 0), 0);

/** The characters of those that are a continuation of others. */
const before = (former: readonly Part[], now: readonly Part[]) => (former[0]?.seq === now[0]?.seq ? lengthOf(former) : 0);

/** Parts that still grow are shown piece by piece. */
export const inPieces = {
  few: 8_000, // some frames show them
  fresh: (former: readonly Part[], now: readonly Part[]) => lengthOf(now) - before(former, now),

  more(former: readonly Part[], now: readonly Part[], characters: number): readonly Part[] {
    let room = before(former, now) + characters;
    const some: Part[] = [];
    for (const part of now) {
      if (room <= 0) break;
      if ("text" in part && part.text.length > room) {
        const isPair = /[\uD800-\uDBFF]/.test(part.text[room - 1]!);
        some.push({ ...part, text: part.text.slice(0, isPair ? room - 1 : room) });
        break;
      }
      some.push(part);
      if ("text" in part) room -= part.text.length;
    }
    return some;
  },
};

/** Parts that grow no more are shown all together. */
export const atOnce = { ...inPieces, few: 0, more: (_: readonly Part[], now: readonly Part[]) => now };
