import type { TaskEvent } from "@holdfast/client";
import { expect, test } from "vitest";
import { ALL, rowsOf } from "./rows";

const told = (seq: number, event: string, data: object) => ({ task_id: "T", seq, ts: seq, event, data }) as TaskEvent;
const EVENTS = [
  told(1, "token", { text: "a" }),
  told(2, "token", { text: "é" }),
  told(3, "thinking", { text: "t" }),
  told(4, "token", { text: "b" }),
  told(5, "progress", { progress: 1 }),
];
const shown = (wanted: Partial<Parameters<typeof rowsOf>[1]>) =>
  rowsOf(EVENTS, { lane: ALL, text: "", joins: false, ...wanted }).map(({ event, first, last }) => [event.from ?? event.seq, event.seq, first, last]);

test("pieces of text that follow each other are one row, found by what they say together", () => {
  expect(shown({})).toEqual([1, 2, 3, 4, 5].map((seq) => [seq, seq, seq - 1, seq - 1]));
  expect(shown({ joins: true })).toEqual([[1, 2, 0, 1], [3, 3, 2, 2], [4, 4, 3, 3], [5, 5, 4, 4]]);
  expect(shown({ joins: true, text: "aÉ" })).toEqual([[1, 2, 0, 1]]);
  expect(shown({ text: "aé" })).toEqual([]);
  expect(shown({ joins: true, lane: "text" })).toEqual([[1, 2, 0, 1], [4, 4, 3, 3]]);
});

test("a row's size is that of its lines on the wire", () => {
  const line = '{"type":"event","task_id":"T","seq":1,"ts":1,"event":"token","data":{"text":"a"}}\n';
  const rows = rowsOf(EVENTS, { lane: ALL, text: "", joins: true });
  expect(rows[0]!.bytes).toBe(2 * line.length + 1); // é takes two
  expect(rows[0]!.event.data).toEqual({ text: "aé" });
});
