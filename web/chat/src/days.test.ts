/** The list's groups: each once, in their order, whatever the rows'. */

import { expect, it } from "vitest";
import { byDay } from "./days";

const now = new Date(2026, 2, 30, 12).getTime(); // the day after the clocks of Europe went forward
const at = (daysAgo: number, hour = 12) => new Date(2026, 2, 30 - daysAgo, hour).getTime();
const row = (id: string, ms: number, isPinned = false) => ({ id, at: ms, isPinned });
const shape = (rows: ReturnType<typeof row>[]) => byDay(rows, now).map(({ name, rows }) => `${name}: ${rows.map(({ id }) => id).join(" ")}`);

it("keeps the order of the rows within their groups", () => {
  const rows = [row("a", at(0)), row("b", at(0, 1)), row("c", at(1, 23)), row("d", at(1, 0)), row("e", at(5)), row("f", at(20)), row("g", at(99))];
  expect(shape(rows)).toEqual(["Today: a b", "Yesterday: c d", "Last 7 days: e", "Last 30 days: f", "Older: g"]);
});

it("makes one group of those that do not stand together", () => {
  const rows = [row("waits", at(1)), row("a", at(0)), row("b", at(1)), row("ahead", at(-1)), row("c", at(2)), row("d", at(1))];
  expect(shape(rows)).toEqual(["Today: a ahead", "Yesterday: waits b d", "Last 7 days: c"]);
});

it("puts pinned ones first, whenever they changed", () => {
  expect(shape([row("a", at(0)), row("b", at(40), true), row("c", at(0), true)])).toEqual(["Pinned: b c", "Today: a"]);
  expect(shape([])).toEqual([]);
});
