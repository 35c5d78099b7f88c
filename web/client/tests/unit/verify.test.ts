// A chain that was made by hand, whole and then not.

import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { verify } from "../../src/verify.js";

const line = (seq: number, event: string, data: object = {}) =>
  JSON.stringify({ type: "event", task_id: "t1", seq, ts: 1, event, data });
const told = (lines: string[]) =>
  lines.reduce((hash, one) => createHash("sha256").update(hash).update(one).digest(), Buffer.alloc(32)).toString("hex");
const said = [line(1, "task.created"), line(2, "token", { text: "\u00e4 \u{1F30A}" }), line(3, "token", { text: "b" })];
const end = line(4, "task.completed", { chain: told(said) });
const check = (lines: string[]) => verify(new Blob([`{"type":"task"}\n${lines.join("\n")}\n`]));

it("proves what is whole", async () => {
  expect(await check([...said, end])).toEqual([{ task_id: "t1", events: 4, state: "proved" }]);
});

it.each([
  ["changed", [said[0]!, said[1]!.replace("\u00e4", "a"), said[2]!, end], 4],
  ["lost", [said[0]!, said[2]!, end], 2],
  ["doubled", [said[0]!, said[1]!, said[1]!, said[2]!, end], 3],
  ["behind the end", [...said, end, line(5, "token")], 5],
])("tells what is broken: %s", async (_, lines, brokenAt) => {
  expect(await check(lines)).toMatchObject([{ state: "broken", brokenAt }]);
});

it.each([
  ["its end has none", [...said, line(4, "task.failed")]],
  ["it has no end", said],
  ["its first events were removed", [...said.slice(1), end]],
])("tells that there is no proof: %s", async (_, lines) => {
  expect(await check(lines)).toMatchObject([{ state: "none" }]);
});
