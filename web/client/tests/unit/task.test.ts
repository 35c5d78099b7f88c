// Tasks: dense events over any number of connections, for any number of readers.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { TaskFailed, type Task } from "../../src/index.js";
import {
  comeBack,
  completed,
  event,
  gather,
  liveScene,
  settle,
  summary,
  token,
} from "../support/script.js";
import type { Scene, ScriptedSocket } from "../support/script.js";

let its: Scene;
let socket: ScriptedSocket;
let task: Task;

beforeEach(async () => {
  vi.useFakeTimers();
  its = await liveScene();
  socket = its.socket;
  task = its.client.task("c1", "t1");
});
afterEach(() => vi.useRealTimers());

const resumed = (after: number, more = {}) => ({
  type: "resumed",
  task: summary(),
  after,
  head: after,
  ...more,
});
const begin = () => [
  event(1, "task.created", { agent: "a", input: "hi" }),
  event(2, "task.started"),
];

const BUSY = { type: "error", code: "overloaded", message: "later", retry_after_ms: 2_000 };

/** Follows, as if three events had come. */
function followed(): void {
  task.follow();
  socket.answer("resume", resumed(0));
  socket.say(...begin(), token(3, "one "));
}

describe("following", () => {
  it("resumes from the start, and grows", () => {
    followed();
    expect(socket.asked("resume")).toMatchObject({
      task_id: "t1",
      conversation_id: "c1",
      after: 0,
      coalesce: true,
    });
    expect(task.transcript).toMatchObject({ last: 3, input: "hi", started: true, text: "one " });
    expect(task.status).toBe("running");
    socket.say(token(4, "two"));
    expect(task.text).toBe("one two");
  });

  it("drops what it has", () => {
    followed();
    socket.say(...begin(), token(3, "one "), token(4, "two"), token(4, "two"));
    expect(task.text).toBe("one two");
    expect(socket.all("resume")).toHaveLength(1);
  });

  it("resumes behind what it has when events are missing, once", () => {
    followed();
    socket.say(token(5, "three"), token(6, "four"));
    expect(task.text).toBe("one ");
    expect(socket.all("resume").map(({ after }) => after)).toEqual([0, 3]);
    socket.answer("resume", resumed(3));
    socket.say(token(4, "two "), token(5, "three"));
    expect(task.text).toBe("one two three");
  });

  it("takes merged events, and asks again when they begin before the end of what it has", () => {
    followed();
    socket.say(token(5, "two three ", { from: 4 }));
    expect(task.transcript.last).toBe(5);
    socket.say(token(8, "three four five ", { from: 5 }));
    expect(task.text).toBe("one two three ");
    expect(socket.asked("resume")["after"]).toBe(5);
  });

  it("resumes from its last seq on a new connection", async () => {
    followed();
    const second = await comeBack(its);
    expect(second.asked("resume")["after"]).toBe(3);
    second.answer("resume", resumed(3));
    second.say(token(4, "two"));
    expect(task.text).toBe("one two");
  });

  it("resumes again when the reply was lost", async () => {
    task.follow();
    const second = await comeBack(its);
    expect(second.all("resume")).toHaveLength(1);
  });

  it("starts again from 0 on out_of_range", () => {
    followed();
    socket.say(token(9, "?"));
    socket.answer("resume", { type: "error", code: "out_of_range", message: "beyond", head: 2 });
    expect(task.text).toBe("");
    expect(socket.asked("resume")["after"]).toBe(0);
    socket.answer("resume", resumed(0));
    socket.say(...begin(), token(3, "ONE "));
    expect(task.text).toBe("ONE ");
  });

  it("tells the epoch of its numbers, and starts again when their history is lost", async () => {
    followed();
    const second = await comeBack(its);
    expect(second.asked("resume")["epoch"]).toBeUndefined();
    second.answer("resume", resumed(3, { epoch: 5 }));
    const third = await comeBack(its);
    expect(third.asked("resume")).toMatchObject({ after: 3, epoch: 5 });
    third.answer("resume", { type: "error", code: "out_of_range", message: "lost", head: 90 });
    expect(task.text).toBe("");
    expect(third.all("resume")).toHaveLength(2); // not again and again
    expect(third.asked("resume")["after"]).toBe(0);
    third.answer("resume", resumed(0, { epoch: 6 }));
    third.say(...begin(), token(3, "ANEW"));
    expect(task.text).toBe("ANEW");
    expect((await comeBack(its)).asked("resume")).toMatchObject({ after: 3, epoch: 6 });
  });

  it("reads a task again that ended while away and whose ending it never saw", async () => {
    followed();
    const second = await comeBack(its);
    second.answer("resume", resumed(3, { task: summary({ status: "completed", head: 3 }) }));
    second.say({ type: "caught_up", task_id: "t1", seq: 3 });
    expect(second.asked("resume")["after"]).toBe(0);
    second.answer("resume", resumed(0, { task: summary({ status: "completed", head: 3 }) }));
    second.say(event(1, "task.created"), token(2, "new"), completed(3, "new"));
    expect(task.status).toBe("completed");
    expect(task.text).toBe("new");
  });

  it("gives up on a task that has no end however often it is read", async () => {
    followed();
    const second = await comeBack(its);
    for (let n = 0; n < 2; n++) {
      second.answer("resume", resumed(0, { task: summary({ status: "completed" }) }));
      second.say({ type: "caught_up", task_id: "t1", seq: 3 });
    }
    expect(second.all("resume")).toHaveLength(2);
    expect(task.error?.code).toBe("internal");
  });

  it("does not take caught_up for the end when the task ends behind it", () => {
    task.follow();
    socket.answer("resume", resumed(0, { head: 2 }));
    socket.say(...begin(), { type: "task", task: summary({ status: "completed" }) });
    socket.say({ type: "caught_up", task_id: "t1", seq: 2 }, token(3, "x"), completed(4, "x"));
    expect(task.status).toBe("completed");
    expect(socket.all("resume")).toHaveLength(1);
  });

  it("tells that the beginning is no longer kept", () => {
    task.follow();
    socket.answer("resume", resumed(0, { first: 151, head: 152 }));
    socket.say(token(151, "late "), completed(152, "early and late"));
    expect(task.transcript).toMatchObject({ first: 151, last: 152, text: "early and late" });
  });

  it("is not told of what it does not follow", () => {
    socket.say(token(1), event(1, "token", {}, { task_id: "t2" }));
    expect(task.transcript.last).toBe(0);
    expect(socket.all("resume")).toHaveLength(0);
  });

  it("unsubscribes when the last follower lets go, and resumes when one comes back", () => {
    followed();
    task.follow("somebody");
    task.unfollow();
    expect(socket.all("unsubscribe")).toHaveLength(0);
    task.unfollow("somebody");
    expect(socket.asked("unsubscribe")).toMatchObject({ task_id: "t1", conversation_id: "c1" });
    task.follow();
    expect(socket.asked("resume")["after"]).toBe(3);
  });

  it("has an error when it does not exist", async () => {
    task.follow();
    const result = task.result();
    socket.answer("resume", { type: "error", code: "not_found", message: "no such task" });
    expect(task.error).toMatchObject({ code: "not_found" });
    await expect(result).rejects.toMatchObject({ code: "not_found" });
  });

  it("waits when the gateway has no room", async () => {
    task.follow();
    socket.answer("resume", BUSY);
    await vi.advanceTimersByTimeAsync(1_999);
    expect(socket.all("resume")).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(socket.all("resume")).toHaveLength(2);
    expect(task.error).toBeNull();
  });

  it("asks no more for what nobody follows while it waits for room", async () => {
    task.follow();
    socket.answer("resume", BUSY);
    task.unfollow();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(socket.sent.at(-1)!["type"]).toBe("unsubscribe");
  });

  it("ends nothing by an unsubscribe that had to wait when it is followed again", async () => {
    followed();
    task.unfollow();
    socket.answer("unsubscribe", BUSY);
    task.follow();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(socket.sent.at(-1)!["type"]).toBe("resume");
  });

  it("asks again for all when one of them was deleted", async () => {
    followed();
    socket.say({ type: "error", code: "not_found", message: "a followed task was deleted" });
    await vi.advanceTimersByTimeAsync(1_000);
    socket.answer("resume", { type: "error", code: "not_found", message: "no such task" });
    expect(task.error?.code).toBe("not_found");
  });

  it("tells a change once for each message, however many lines it has", async () => {
    followed();
    await settle();
    const listener = vi.fn();
    task.subscribe(listener);
    socket.say(token(4), token(5), token(6));
    await settle();
    expect(listener).toHaveBeenCalledTimes(1);
  });
});

describe("events()", () => {
  it("gives each event once, from the first to the last", async () => {
    const all = gather(task.events());
    await settle();
    socket.answer("resume", resumed(0));
    socket.say(...begin(), token(3));
    socket.say(token(3), token(4), completed(5));
    expect((await all).map(({ seq, event }) => [seq, event])).toEqual([
      [1, "task.created"],
      [2, "task.started"],
      [3, "token"],
      [4, "token"],
      [5, "task.completed"],
    ]);
    expect(its.client.following.size).toBe(0);
  });

  it("gives those of the past to who comes late, and doubles none for the others", async () => {
    followed();
    const late = gather(task.events());
    await settle();
    expect(socket.asked("resume")["after"]).toBe(0);
    socket.answer("resume", resumed(0));
    socket.say(...begin(), token(3, "one "), completed(4, "one "));
    expect((await late).map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
    expect(task.text).toBe("one ");
  });

  it("gives those of the past to who comes while the others are asked for", async () => {
    followed();
    const second = await comeBack(its);
    const late = gather(task.events());
    await settle();
    expect(second.all("resume").map(({ after }) => after)).toEqual([3, 0]);
    second.answer("resume", resumed(0));
    second.say(...begin(), token(3, "one "), completed(4, "one "));
    expect((await late).map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
  });

  it("ends when its signal says so, also while nothing comes, and lets go of everything", async () => {
    const ending = new AbortController();
    const added = vi.spyOn(ending.signal, "addEventListener");
    const removed = vi.spyOn(ending.signal, "removeEventListener");
    const all = gather(task.events({ signal: ending.signal }));
    const outcome = expect(all).rejects.toThrow("enough");
    await settle();
    socket.answer("resume", resumed(0));
    ending.abort(new Error("enough"));
    await outcome;
    expect(socket.all("unsubscribe")).toHaveLength(1);
    expect(removed.mock.calls).toEqual(added.mock.calls);
    await expect(gather(task.events({ signal: ending.signal }))).rejects.toThrow("enough");
    expect(socket.all("resume")).toHaveLength(1);
  });

  it("begins behind `after`, over a lost connection", async () => {
    const all = gather(task.events({ after: 2 }));
    await settle();
    expect(socket.asked("resume")["after"]).toBe(2);
    socket.answer("resume", resumed(2));
    socket.say(token(3));
    await settle();
    const second = await comeBack(its);
    expect(second.asked("resume")["after"]).toBe(3);
    second.answer("resume", resumed(3));
    second.say(token(4), completed(5));
    expect((await all).map(({ seq }) => seq)).toEqual([3, 4, 5]);
  });

  it("asks for pieces as they came when it shall be exact", async () => {
    followed();
    void gather(task.events({ exact: true }));
    await settle();
    expect(socket.all("resume").map(({ coalesce }) => coalesce)).toEqual([true, false]);
  });

  it("ends at once when all of it had been read", async () => {
    const all = gather(task.events({ after: 5 }));
    await settle();
    socket.answer("resume", resumed(5, { task: summary({ status: "completed", head: 5 }) }));
    socket.say({ type: "caught_up", task_id: "t1", seq: 5 });
    expect(await all).toEqual([]);
    expect(socket.all("resume")).toHaveLength(1);
  });

  it("says `reset` where the beginning is gone", async () => {
    const all = gather(task.events({ after: 10 }));
    await settle();
    socket.answer("resume", resumed(10, { first: 151, head: 152 }));
    socket.say(token(151), completed(152));
    expect(await all).toMatchObject([
      { event: "reset", seq: 150, data: { after: 10, first: 151 } },
      { event: "token", seq: 151 },
      { event: "task.completed", seq: 152 },
    ]);
  });

  it("unsubscribes when the loop is left", async () => {
    const loop = (async () => {
      for await (const { seq } of task.events()) if (seq === 2) break;
    })();
    await settle();
    socket.answer("resume", resumed(0));
    socket.say(...begin(), token(3));
    await loop;
    expect(socket.all("unsubscribe")).toHaveLength(1);
  });

  it("holds a bounded number for a slow reader, and reads the rest again later", async () => {
    const events = task.events();
    const first = events.next();
    await settle();
    socket.answer("resume", resumed(0));
    socket.say(...Array.from({ length: 10_000 }, (_, at) => token(at + 1)));
    socket.say(completed(10_001));
    const seqs = [(await first).value!.seq];
    for (let want = 4_096; seqs.length < 10_001; want += 4_096) {
      while (seqs.length < Math.min(want, 10_001)) seqs.push((await events.next()).value!.seq);
      if (seqs.length === 10_001) break;
      const more = events.next();
      await settle();
      const { after } = socket.asked("resume");
      expect(after).toBe(want);
      socket.answer("resume", resumed(after));
      socket.say(...Array.from({ length: 10_000 - after }, (_, at) => token(after + at + 1)));
      socket.say(completed(10_001));
      seqs.push((await more).value!.seq);
    }
    expect(seqs).toEqual(Array.from({ length: 10_001 }, (_, at) => at + 1));
    expect(await events.next()).toEqual({ done: true, value: undefined });
  });

  it("fails when the client is closed, for good, and fails at once after that", async () => {
    const before = gather(task.events());
    await settle();
    its.client.close();
    await expect(before).rejects.toMatchObject({ code: "closed" });
    await expect(gather(task.events())).rejects.toMatchObject({ code: "closed" });
    await expect(task.result()).rejects.toMatchObject({ code: "closed" });
    await expect(its.client.request("ping", {})).rejects.toMatchObject({ code: "closed" });
  });

  it("fails with the reason when the gateway wants us never back, and follows again after retry()", async () => {
    followed();
    const result = task.result();
    socket.break(1008);
    await expect(result).rejects.toMatchObject({ code: "closed" });
    its.client.retry();
    await settle();
    its.script.socket.welcome();
    expect(its.script.socket.asked("resume")["after"]).toBe(3);
  });
});

describe("result()", () => {
  it("is how it ended", async () => {
    const result = task.result();
    socket.answer("resume", resumed(0));
    socket.say(...begin(), event(3, "task.completed", { output: "done", result: { n: 1 } }));
    expect(await result).toEqual({ status: "completed", output: "done", result: { n: 1 } });
    expect(await task.result()).toMatchObject({ output: "done" });
  });

  it("rejects when it failed, with what it had said", async () => {
    const result = task.result();
    socket.answer("resume", resumed(0));
    const error = { code: "timeout", message: "timeout: too slow" };
    socket.say(...begin(), event(3, "task.failed", { status: "failed", error, output: "half" }));
    const failure = await result.catch((reason) => reason);
    expect(failure).toBeInstanceOf(TaskFailed);
    expect(failure).toMatchObject({ code: "timeout", status: "failed", output: "half" });
  });
});

describe("requests", () => {
  it("cancel() marks it at once, is sent again until answered, and unmarks it when refused", async () => {
    followed();
    const cancel = task.cancel({ tree: true });
    expect(task.cancelling).toBe(true);
    const second = await comeBack(its);
    second.answer("resume", resumed(3));
    expect(second.asked("cancel")).toMatchObject({ task_id: "t1", tree: true });
    second.answer("cancel", { type: "ok", cancelled: 1, task_ids: ["t1"] });
    expect(await cancel).toMatchObject({ cancelled: 1 });

    const refused = task.cancel().catch((error) => error.code);
    second.answer("cancel", { type: "error", code: "not_found", message: "no" });
    expect(await refused).toBe("not_found");
  });

  it("send() is not repeated: it fails when its connection is lost", async () => {
    const sent = task.send("hello");
    const lost = expect(sent).rejects.toMatchObject({ code: "connection_lost" });
    const second = await comeBack(its);
    await lost;
    expect(second.all("send")).toHaveLength(0);
  });

  it("send() waits for a connection", async () => {
    socket.break();
    const sent = task.send("hello");
    await vi.advanceTimersByTimeAsync(its.client.retryAt - Date.now());
    its.script.socket.welcome();
    expect(its.script.socket.asked("send")).toMatchObject({ content: "hello", task_id: "t1" });
    its.script.socket.answer("send", { type: "ok" });
    await sent;
  });

  it("respond() answers, and record() reads all", async () => {
    const answered = task.respond("q1", true);
    expect(socket.asked("respond")).toMatchObject({ input_id: "q1", answer: true });
    socket.answer("respond", { type: "error", code: "conflict", message: "answered" });
    await expect(answered).rejects.toMatchObject({ code: "conflict" });

    const record = task.record();
    socket.answer("task", { type: "task", task: summary({ status: "completed", output: "x" }) });
    expect(await record).toMatchObject({ output: "x" });
    expect(task.status).toBe("completed");
  });

  it("refuses here what is too large for the gateway", async () => {
    await expect(task.send("é".repeat(600))).rejects.toMatchObject({ code: "too_large" });
    expect(socket.all("send")).toHaveLength(0);
  });
});

it("asks for text in fewer lines where it is told to", async () => {
  const its = await liveScene({ rollupMs: 250 });
  const outgoing = its.client.conversation("c1").ask("hi");
  await settle();
  expect(its.socket.asked("chat")).toMatchObject({ rollup_ms: 250 });
  its.socket.answer("chat", { type: "started", task: summary({ request_key: outgoing.key }) });
  const task = await outgoing.started;
  void gather(task.events());
  await settle();
  its.socket.say(event(1, "task.created"), token(2, "a"), token(4, "bc", { from: 3 }));
  await settle();
  const socket = await comeBack(its);
  expect(socket.asked("resume")).toMatchObject({ after: 4, rollup_ms: 250 });
});
