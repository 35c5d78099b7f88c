/** The worker against a scripted socket: what it says, and when. */

import { afterEach, expect, test, vi } from "vitest";
import { type Agent, type Run, Worker } from "../../src/index.js";

class Socket {
  static all: Socket[] = [];
  static opened: (() => void) | undefined;
  sent: Record<string, unknown>[] = [];
  readyState = 1;
  bufferedAmount = 0;
  onopen = () => {};
  onclose = () => {};
  onmessage: ((event: { data: string }) => void) | undefined;
  constructor(readonly url: string, readonly protocol: string) {
    Socket.all.push(this);
    queueMicrotask(() => {
      this.onopen();
      Socket.opened?.();
    });
  }
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.readyState = 3;
  }
  says(...lines: Record<string, unknown>[]) {
    this.onmessage?.({ data: lines.map((line) => JSON.stringify(line)).join("\n") });
  }
  cut() {
    this.readyState = 3;
    this.onclose();
  }
  of(run: string) {
    return this.sent.filter((line) => line["run"] === run && line["type"] !== "ack");
  }
}

const RUN = { type: "run", run: "r1", n: 1, agent: "a", input: "hello", history: [] };
const opened = () => new Promise<void>((done) => (Socket.opened = done));

async function started(agent: Agent, open = {}) {
  Socket.all = [];
  const first = opened();
  const worker = new Worker("ws://x/v1/worker", "gpu", "s3cret", { a: agent }, { runs: 2, WebSocket: Socket as never });
  const serving = worker.serve();
  await first;
  const socket = Socket.all[0]!;
  socket.says({ type: "welcome", grace_s: 30, open });
  return { worker, socket, serving };
}

afterEach(() => {
  vi.restoreAllMocks();
});

test("hello says who it is, and runs begin after welcome", async () => {
  const run = vi.fn<Agent>(async (run) => run.say("token", { text: run.input }));
  const { socket } = await started(run);
  expect(socket.protocol).toBe("holdfast.worker.v1");
  expect(socket.sent[0]).toMatchObject(
    { type: "hello", worker: "gpu", secret: "s3cret", agents: ["a"], runs: 2, open: {} });
  socket.says(RUN);
  expect(socket.sent[1]).toEqual({ type: "ack", run: "r1", n: 1 });
  await vi.waitFor(() => expect(socket.of("r1")).toEqual([
    { run: "r1", n: 1, event: "token", data: { text: "hello" } },
    { run: "r1", n: 2, end: "done" },
  ]));
});

test("a new connection gets what the old one did not bring to disk, once, and in order", async () => {
  let its!: Run;
  const { socket } = await started((run) => new Promise<void>(() => (its = run)));
  socket.says(RUN);
  await vi.waitFor(() => expect(its).toBeDefined());
  for (const text of ["1", "2", "3"]) void its.say("token", { text });
  socket.says({ type: "ack", run: "r1", n: 1 });
  const again = opened();
  socket.cut();
  void its.say("token", { text: "4" });
  await again;
  const second = Socket.all[1]!;
  expect(second.sent).toHaveLength(1);
  expect(second.sent[0]).toMatchObject({ type: "hello", open: { r1: 1 }, instance: socket.sent[0]!["instance"] });
  second.says({ type: "welcome", open: { r1: 2 } });
  void its.say("token", { text: "5" });
  expect(second.of("r1").map(({ n, data }) => [n, (data as { text: string }).text])).toEqual(
    [[3, "3"], [4, "4"], [5, "5"]]);
});

test("a run that welcome does not name is over", async () => {
  let its!: Run;
  const { socket } = await started((run) => new Promise<void>(() => (its = run)));
  socket.says(RUN);
  await vi.waitFor(() => expect(its).toBeDefined());
  const asked = expect(its.ask("?")).rejects.toThrow("abort");
  const again = opened();
  socket.cut();
  await again;
  Socket.all[1]!.says({ type: "welcome", open: {} });
  await asked;
  Socket.all[1]!.bufferedAmount = Infinity;
  await its.say("token", { text: "to nobody" }); // does not hang
});

test("calls, questions and messages find their answers; a cancel ends the waiting", async () => {
  const got: unknown[] = [];
  const { socket } = await started(async (run) => {
    got.push((await run.call("tool", { name: "clock" }))["output"], await run.ask("which?"),
      (await run.message())["content"]);
    await run.message();
  });
  socket.says(RUN);
  await vi.waitFor(() => expect(socket.of("r1")).toHaveLength(1));
  expect(socket.of("r1")[0]).toMatchObject({ n: 1, call: "tool", name: "clock" });
  socket.says({ type: "message", run: "r1", n: 2, content: "early" },
    { type: "tool_result", run: "r1", n: 3, call_id: socket.of("r1")[0]!["call_id"], output: "noon" });
  await vi.waitFor(() => expect(socket.of("r1")).toHaveLength(2));
  const { data } = socket.of("r1")[1] as unknown as { data: Record<string, unknown> };
  expect(data).toMatchObject({ kind: "question", prompt: "which?" });
  socket.says({ type: "input", run: "r1", n: 4, input_id: data["input_id"], answer: "this" });
  await vi.waitFor(() => expect(got).toEqual(["noon", "this", "early"]));
  socket.says({ type: "cancel", run: "r1" });
  await vi.waitFor(() => expect(socket.of("r1").at(-1)).toMatchObject({ n: 3, end: "failed" }));
});

test("say waits while the socket does not take bytes", async () => {
  let taken = false;
  const { socket } = await started(async (run) => {
    await run.say("token", { text: "x" });
    taken = true;
  });
  socket.bufferedAmount = 1 << 21;
  socket.says(RUN);
  await vi.waitFor(() => expect(socket.of("r1")).toHaveLength(1));
  expect(taken).toBe(false);
  socket.bufferedAmount = 0;
  await vi.waitFor(() => expect(taken).toBe(true));
});

test("a drained worker leaves when its last run has ended", async () => {
  let end!: () => void;
  const { worker, socket, serving } = await started(() => new Promise<void>((done) => (end = done)));
  socket.says(RUN);
  await vi.waitFor(() => expect(end).toBeDefined());
  worker.drain();
  expect(socket.sent.at(-1)).toEqual({ type: "drain" });
  end();
  await vi.waitFor(() => expect(socket.of("r1")).toHaveLength(1));
  socket.says({ type: "gone", run: "r1" });
  await serving;
  expect(socket.readyState).toBe(3);
});

test("an agent that throws fails its run alone, and a refusal is told", async () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  const { socket } = await started(() => Promise.reject(new Error("no GPU")));
  socket.says(RUN);
  await vi.waitFor(() => expect(socket.of("r1")).toEqual([{ run: "r1", n: 1, end: "failed", error: "Error: no GPU" }]));
  socket.says({ type: "error", code: "bad_request", message: "because" }, { type: "later", run: "r1" });
  expect(warn).toHaveBeenCalledWith("the gateway says: because");
});

test("silence of a minute is a dead path", async () => {
  vi.useFakeTimers();
  try {
    const { socket } = await started(async () => {});
    await vi.advanceTimersByTimeAsync(50_000);
    socket.says({ type: "later" });
    await vi.advanceTimersByTimeAsync(50_000);
    expect(Socket.all).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(socket.readyState).toBe(3);
    expect(Socket.all).toHaveLength(2);
  } finally {
    vi.useRealTimers();
  }
});

test("where there is no WebSocket, that is said at once", () => {
  vi.stubGlobal("WebSocket", undefined);
  expect(() => new Worker("ws://gateway", "gpu", "secret", {})).toThrow("no WebSocket: pass { WebSocket } of package ws");
  new Worker("ws://gateway", "gpu", "secret", {}, { WebSocket: Socket as never });
  vi.unstubAllGlobals();
});
