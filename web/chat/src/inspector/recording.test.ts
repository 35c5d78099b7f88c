import type { TaskEvent } from "@holdfast/client";
import { expect, test } from "vitest";
import { Recording } from "./recording";

const event = (seq: number, text: string, more: object = {}) =>
  ({ task_id: "T", seq, ts: 1_000 + seq * 10, event: "token", data: { text }, ...more }) as TaskEvent;

const recorded = (n: number) => {
  const recording = new Recording();
  for (let seq = 1; seq <= n; seq++) recording.add(event(seq, `${seq} `));
  return recording;
};

test("the state at any place is what the events up to it say", () => {
  const recording = recorded(1_000);
  for (const count of [0, 1, 255, 256, 257, 999, 1_000]) {
    const text = Array.from({ length: count }, (_, at) => `${at + 1} `).join("");
    expect(recording.stateAt(count).text).toBe(text);
  }
});

test("a time finds the events that had come by then", () => {
  const recording = recorded(10);
  expect(recording.duration).toBe(90);
  expect([-1, 0, 9, 10, 89, 90, 500].map((ms) => recording.countAt(ms))).toEqual([0, 1, 1, 2, 9, 10, 10]);
});

test("events of one moment, or behind a clock that was set back, have places of their own, in order", () => {
  const recording = new Recording();
  for (const [at, ts] of [1_000, 1_000, 1_000, 400, 1_002].entries()) recording.add(event(at + 1, "x", { ts }));
  for (let at = 0; at < 5; at++) expect(recording.countAt(recording.timeOf(at))).toBe(at + 1);
  expect(recording.duration).toBe(2);
});

test("what is saved is what is opened", () => {
  const lines = recorded(3).toLines();
  expect(lines.split("\n")[0]).toBe('{"type":"event","task_id":"T","seq":1,"ts":1010,"event":"token","data":{"text":"1 "}}');
  expect(Recording.ofLines(lines).toLines()).toBe(lines);
});

test("a file that is no recording is refused, with the line", () => {
  const lines = recorded(3).toLines();
  expect(() => Recording.ofLines("")).toThrow("no event");
  expect(() => Recording.ofLines(`${lines}{`)).toThrow("line 4 is no event");
  expect(() => Recording.ofLines(`${lines}{"seq":5,"ts":1,"event":"token","data":null}`)).toThrow("line 4 is no event");
  expect(() => Recording.ofLines(lines.replace(/.*\n/, "") + lines)).toThrow("line 3 does not follow event 3");
  expect(Recording.ofLines(`${JSON.stringify(event(9, "x", { from: 4 }))}\n`).length).toBe(1);
});
