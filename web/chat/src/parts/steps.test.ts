/** Events are shown in the order in which they happened. */

import type { Part } from "@holdfast/client";
import { expect, test } from "vitest";
import { inPieces, isSame, isSettled, stepsOf, stretchesOf } from "./steps";

let seq = 0;
const text = (words: string): Part => ({ seq: ++seq, type: "text", text: words });
const thought = (words: string): Part => ({ seq: ++seq, type: "thinking", text: words });
const call = (name = "look"): Part => ({ seq: ++seq, type: "tool", tool: { call_id: name, name, arguments: {} } });
const child = (task_id: string): Part => ({ seq: ++seq, type: "child", child: { task_id } });

const shape = (parts: Part[], all = false) =>
  stepsOf(parts, all).map((step) => {
    if (step.type === "calls") return `${step.calls.length} calls`;
    if (step.type === "earlier") return `${step.count} earlier`;
    return "text" in step ? step.text : step.type;
  });

test("steps stand in the order of the parts; calls in a row are one group, and children too", () => {
  const parts = [text("a"), call(), call(), text("b"), child("1"), child("2"), thought("c"), call()];
  expect(shape(parts)).toEqual(["a", "2 calls", "b", "children", "c", "1 calls"]);
});

test("files in a row stand together, where they were made", () => {
  const file = (file_id: string): Part => ({ seq: ++seq, type: "file", file: { file_id, name: `${file_id}.csv` } });
  const steps = stepsOf([text("Here."), file("1"), file("2"), text("And: "), file("3")], false);
  const files = steps.map((step) => (step.type === "files" ? step.files.map(({ file_id }) => file_id).join() : step.type));
  expect(files).toEqual(["text", "1,2", "text", "3"]);
});

test("of very many calls the newest are shown, and all text", () => {
  const parts = Array.from({ length: 30 }, (_, n) => [thought(`t${n}`), call(), text(`${n}`)]).flat();
  const shown = shape(parts);
  expect(shown.slice(0, 3)).toEqual(["10 earlier", "0", "1"]);
  expect(shown.filter((each) => each === "1 calls")).toHaveLength(20);
  expect(shown.filter((each) => /^\d+$/.test(each))).toHaveLength(30);
  expect(shape(parts, true).filter((each) => each === "1 calls")).toHaveLength(30);
});

test("what comes in the middle of a sentence does not tear it, and stands after it", () => {
  const message: Part = { seq: ++seq, type: "message", message: { from: "child", content: "done" } };
  expect(shape([text("Deep – very"), thought("hm"), message, text(" deep."), text("Yes.")])).toEqual([
    "Deep – very deep.",
    "hm",
    "message",
    "Yes.",
  ]);
  expect(shape([text("I look"), call(), text(" further.")])).toEqual(["I look", "1 calls", " further."]);
  expect(shape([text("Let me think."), thought("hm"), text("So.")])).toEqual(["Let me think.", "hm", "So."]);
});

test("thoughts between every few words are one, and so are the words", () => {
  const parts = Array.from({ length: 40 }, (_, n) => [text(`${n} `), thought(`t${n}`)]).flat();
  const all = Array.from({ length: 40 }, (_, n) => n);
  expect(shape(parts)).toEqual([all.map((n) => `${n} `).join(""), all.map((n) => `t${n}`).join("")]);
});

test("keys stay while a task goes on, and are no two's", () => {
  const parts = Array.from({ length: 60 }, (_, n) => (n % 3 === 1 ? call() : text(`${n}`)));
  let before: string[] = [];
  for (let n = 1; n <= parts.length; n++) {
    const keys = stepsOf(parts.slice(0, n), true).map(({ key }) => key);
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys.slice(0, before.length)).toEqual(before);
    before = keys;
  }
});

test("calls keep their group and their number while older ones are hidden, in one group or in many", () => {
  for (const between of [1, 7, 100]) {
    const parts = Array.from({ length: 60 }, (_, n) => (n % between === 0 ? [text(`${n}.`)] : []).concat(call(`c${n}`))).flat();
    const places = new Map<string, string>();
    for (let n = 1; n <= parts.length; n++) {
      const shown = stepsOf(parts.slice(0, n), false).flatMap((step) =>
        step.type === "calls" ? step.calls.map(({ name }, at) => [name, `${step.key} ${step.from + at}`]) : [],
      );
      expect(shown.length).toBeLessThanOrEqual(20);
      for (const [name, place] of shown) {
        expect(place).toBe(places.get(name!) ?? place);
        places.set(name!, place!);
      }
    }
    expect(places.size).toBe(60);
  }
});

test("a thought keeps its key while older ones are hidden with their calls", () => {
  const parts = Array.from({ length: 40 }, (_, n) => [thought(`t${n}`), call(), text(`${n}`)]).flat();
  const keys = new Map<string, string>();
  for (let n = 3; n <= parts.length; n += 3) {
    for (const step of stepsOf(parts.slice(0, n), false)) {
      if (step.type !== "thinking") continue;
      expect(step.key).toBe(keys.get(step.text) ?? step.key);
      keys.set(step.text, step.key);
    }
  }
  expect(new Set(keys.values()).size).toBe(40);
});

test("much is shown piece by piece, and no piece ends within a character", () => {
  const all = [text("abcd"), call(), thought("ef"), text("gh🌊i")];
  const shown: string[] = [];
  let now: readonly Part[] = [];
  while (inPieces.fresh(now, all) > 0) {
    now = inPieces.more(now, all, 3);
    shown.push(now.map((part) => ("text" in part ? part.text : "*")).join("|"));
  }
  expect(shown).toEqual(["abc", "abcd|*|ef", "abcd|*|ef|gh", "abcd|*|ef|gh🌊i"]);
});

test("what takes the place of other parts is new", () => {
  expect(inPieces.fresh([{ seq: 3, type: "text", text: "abc" }], [{ seq: 9, type: "text", text: "abcd" }])).toBe(4);
});

test("stretches keep their beginnings while a task continues, so that all but the last stay as drawn", () => {
  const parts: Part[] = [];
  const drawn = new Map<string, string>();
  for (let n = 0; n < 100; n++) {
    parts.push(call(), text(`Said ${n}.\n\n`));
    const stretches = stretchesOf(stepsOf(parts, true));
    for (const { key, steps } of stretches.slice(0, -1)) {
      const keys = steps.map((step) => step.key).join();
      expect(drawn.get(key) ?? keys).toBe(keys);
      drawn.set(key, keys);
    }
  }
  expect(drawn.size).toBe(6);
});

test("a step is the same while its parts are, and settled once nothing can change it", () => {
  const done = call();
  if (done.type === "tool") done.tool = { ...done.tool, output: "1", is_error: false };
  const parts = [text("Said.\n\n"), done, thought("hm"), text("More"), call("open")];
  const [before, now] = [stepsOf(parts, true), stepsOf([...parts.slice(0, 3), text("More words")], true)];
  expect(now.map((step, at) => isSame(step, before[at]!))).toEqual([true, true, true, false]);
  expect(before.map(isSettled)).toEqual([true, true, true, true, false]);
});
