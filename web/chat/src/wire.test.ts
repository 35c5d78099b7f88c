import { expect, test } from "vitest";
import { median, WireLog } from "./wire";

test("lines are counted each way, and cursors follow the events", () => {
  const log = new WireLog();
  log.add("connecting", 1);
  log.add("live", 2);
  log.add('> {"type":"resume","id":"a1","task_id":"T"}', 3, 100);
  log.add('< {"type":"resumed","id":"a1"}', 4, 112);
  log.add('< {"type":"event","task_id":"T","seq":7,"from":3,"event":"token","data":{"text":"é"}}', 5);
  log.add('< {"type":"caught_up","task_id":"T","seq":7}', 6);
  log.add('< {"type":"event","task_id":"T","seq":8,"event":"task.completed","data":{}}', 7);
  expect(log.entries.map(({ way, name }) => `${way} ${name}`)).toEqual([
    "state connecting", "state live", "out resume", "in resumed", "in token", "in caught_up", "in task.completed",
  ]);
  expect(log.sums.out).toEqual({ lines: 1, bytes: 42 });
  expect(log.entries[4]!.bytes).toBe(log.entries[4]!.text.length + 2); // é takes two, and the line's end
  expect(log.latencies).toEqual([12]);
  expect([...log.cursors.values()]).toEqual([{ task_id: "T", seq: 8, events: 2, merged: 1, isLive: true, hasEnded: true }]);
});

test("an answer over another connection is no latency, and old entries go", () => {
  const log = new WireLog();
  log.add('> {"type":"ping","id":"a1"}', 1, 0);
  log.add("waiting, again in 5 ms: unknown, 1006 closed with 1006", 2);
  log.add('< {"type":"pong","id":"a1"}', 3, 9_000);
  expect(log.latencies).toEqual([]);
  for (let n = 0; n < 3_000; n++) log.add("live");
  expect(log.entries.length).toBe(3_003);
  for (let n = 0; n < 3_000; n++) log.add("live");
  expect(log.entries.length).toBe(2_003);
  expect(log.entries.at(-1)!.n).toBe(6_003);
  expect(median([])).toBe(undefined);
  expect(median([5, 1, 3])).toBe(3);
});
