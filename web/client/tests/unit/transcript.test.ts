import { describe, expect, it } from "vitest";
import { BLANK, endingOf, tell, tellAll, type Transcript } from "../../src/transcript.js";
import { event } from "../support/script.js";

/** The transcript of these events, numbered from 1. */
function told(...events: [name: string, data?: object][]): Transcript {
  return events.reduce((so, [name, data], at) => tell(so, event(at + 1, name, data) as any), BLANK);
}

describe("transcript", () => {
  it("joins tokens and thoughts", () => {
    const so = told(
      ["thinking", { text: "h" }],
      ["token", { text: "a" }],
      ["thinking", { text: "m" }],
      ["token", { text: "b" }],
    );
    expect(so).toMatchObject({ last: 4, text: "ab", thinking: "hm" });
  });

  it("puts the final answer in the place of what was said; the last one counts", () => {
    const so = told(
      ["token", { text: "draft" }],
      ["final_answer", { output: "A" }],
      ["final_answer", { output: "B" }],
    );
    expect(so.text).toBe("B");
  });

  it("cuts what a restart has withdrawn, by characters, and keeps all else", () => {
    const call = { call_id: "1", name: "clock", arguments: {} };
    const before = [
      ["token", { text: "a👍" }],
      ["tool_call", call],
      ["tool_result", { call_id: "1", name: "clock", output: "noon" }],
      ["thinking", { text: "hm" }],
      ["token", { text: "b👍c" }],
      ["token", { text: "d" }],
    ] as const;
    const keep = { text: 4, thinking: 0 };
    const so = told(
      ...(before as any),
      ["task.resumed", { attempt: 2, why: "restart", retracts: 5, keep }],
      ["token", { text: "!" }],
    );
    expect(so).toMatchObject({ text: "a👍b👍!", thinking: "", resumed: 1, last: 8 });
    expect(so.parts).toMatchObject([
      { seq: 1, type: "text", text: "a👍" },
      { seq: 2, type: "tool", tool: { output: "noon" } },
      { seq: 5, type: "text", text: "b👍!" },
    ]);
    const all = told(...(before as any), ["task.resumed", { attempt: 2, why: "restart" }]);
    expect(all).toMatchObject({ text: "a👍b👍cd", thinking: "hm", resumed: 1 });
  });

  it("brings calls and results together", () => {
    const call = { call_id: "1", name: "clock", arguments: { zone: "UTC" } };
    const result = { call_id: "1", name: "clock", output: "noon", is_error: false };
    expect(told(["tool_call", call]).tools).toEqual([{ ...call, calledAt: 1 }]);
    expect(told(["tool_call", call], ["tool_result", result]).tools).toEqual([
      { ...call, ...result, calledAt: 1, returnedAt: 2 },
    ]);
    expect(told(["tool_result", result]).tools).toEqual([
      { arguments: {}, ...result, returnedAt: 1 },
    ]);
  });

  it("tells calls apart that have one id", () => {
    const call = (n: number) => ["tool_call", { call_id: "0", name: "sum", arguments: { n } }] as const;
    const result = (output: string) => ["tool_result", { call_id: "0", name: "sum", output }] as const;
    const outputs = (...events: any[]) => told(...events).tools.map((tool) => tool.output);
    expect(outputs(call(1), result("a"), call(2))).toEqual(["a", undefined]);
    expect(outputs(call(1), result("a"), call(2), result("b"))).toEqual(["a", "b"]);
    expect(outputs(call(1), call(2), result("a"), result("b"))).toEqual(["a", "b"]);
  });

  it("opens and closes questions", () => {
    const ask = { input_id: "q", kind: "question", prompt: "Which?" };
    const open = told(["input_required", ask]);
    expect(open.questions).toEqual([{ ...ask, open: true }]);
    expect(
      tell(open, event(2, "input_received", { input_id: "q", answer: "red" }) as any).questions,
    ).toEqual([{ ...ask, open: false, answer: "red" }]);
    const ended = tell(open, event(2, "task.completed", { output: "" }) as any);
    expect(ended.questions).toMatchObject([{ open: false }]);
  });

  it("keeps progress, children, inbox messages, and ignores what it does not know", () => {
    const so = told(
      ["progress", { progress: 0.5, note: "half" }],
      ["child", { task_id: "t2", name: "friend" }],
      ["message", { from: "user", content: "hi" }],
      ["custom", { event_type: "x", payload: 1 }],
      ["from_the_future", { x: 1 }],
    );
    expect(so).toMatchObject({
      last: 5,
      progress: 0.5,
      note: "half",
      children: [{ task_id: "t2", name: "friend" }],
      inbox: [{ from: "user", content: "hi" }],
    });
  });

  it("changes nothing that was given out before", () => {
    const before = told(["tool_call", { call_id: "1", name: "a", arguments: {} }]);
    const copy = structuredClone(before);
    tell(before, event(2, "tool_result", { call_id: "1", name: "a", output: "x" }) as any);
    expect(before).toEqual(copy);
  });

  it("knows how it ended", () => {
    const error = { code: "cancelled", message: "cancelled" };
    const so = told(
      ["token", { text: "ab" }],
      ["task.failed", { status: "cancelled", error, output: "ab" }],
    );
    expect(so.ending).toEqual({ status: "cancelled", error, output: "ab" });
    expect(so.text).toBe("ab");
    expect(endingOf(event(1, "token") as any)).toBeNull();
  });
});

describe("parts", () => {
  const ask = { input_id: "q", kind: "approval", prompt: "Delete it?" };
  const call = (call_id: string) => ["tool_call", { call_id, name: "look", arguments: {} }] as const;
  const result = (call_id: string) => ["tool_result", { call_id, name: "look", output: "x" }] as const;
  /** The kind of each, with the text of those that have one. */
  const order = (so: Transcript) =>
    so.parts.map((part) => ("text" in part ? `${part.type} ${part.text}` : part.type));

  it("stand in the order of the stream; text joins the text right before it", () => {
    const so = told(
      ["thinking", { text: "h" }],
      ["thinking", { text: "m" }],
      ["token", { text: "I " }],
      ["progress", { progress: 0.5 }],
      ["token", { text: "look." }],
      call("1") as any,
      result("1") as any,
      ["token", { text: "Shall I?" }],
      ["input_required", ask],
      ["input_received", { input_id: "q", answer: true }],
      ["child", { task_id: "t2" }],
      ["message", { from: "user", content: "hi" }],
      ["custom", { event_type: "price", payload: { euro: 3 } }],
      ["file", { file_id: "01F", name: "a.csv", media_type: "text/csv", size: 3 }],
      ["token", { text: "Done." }],
    );
    expect(order(so)).toEqual([
      "thinking hm",
      "text I look.",
      "tool",
      "text Shall I?",
      "question",
      "child",
      "message",
      "custom",
      "file",
      "text Done.",
    ]);
    expect(so.parts.map(({ seq }) => seq)).toEqual([1, 3, 6, 8, 9, 11, 12, 13, 14, 15]);
    expect(so.text).toBe("I look.Shall I?Done.");
    expect(so.parts[2]).toMatchObject({ tool: { output: "x" } });
    expect(so.parts[4]).toMatchObject({ question: { open: false, answer: true } });
    expect(so.parts[7]).toMatchObject({ custom: { event_type: "price", payload: { euro: 3 } } });
    expect(so.parts[8]).toMatchObject({ file: { file_id: "01F", name: "a.csv" } });
  });

  it("hold the very tools and questions that the lists hold", () => {
    const so = told(call("1") as any, call("1") as any, result("1") as any, ["input_required", ask]);
    const ended = tell(so, event(5, "task.completed", { output: "" }) as any);
    const inParts = ended.parts.flatMap((part) => (part.type === "tool" ? [part.tool] : []));
    expect(inParts).toEqual(ended.tools);
    expect(ended.tools.map(({ output }) => output)).toEqual(["x", undefined]);
    expect(ended.parts[2]).toMatchObject({ type: "question", question: { open: false } });
  });

  it("a final answer that is what was said changes nothing", () => {
    const so = told(["token", { text: "a" }], call("1") as any, ["token", { text: "b" }]);
    const final = tell(so, event(4, "final_answer", { output: "ab" }) as any);
    expect(final.parts).toBe(so.parts);
  });

  it("a final answer that differs stands for all text, and the last one counts", () => {
    const so = told(
      ["token", { text: "draft" }],
      call("1") as any,
      ["token", { text: "more" }],
      ["final_answer", { output: "A" }],
      ["final_answer", { output: "B" }],
    );
    expect(order(so)).toEqual(["tool", "text B"]);
  });

  it("of a task whose beginning is gone have the whole answer at its end", () => {
    const so = told(["reset", { after: 0, first: 9 }], ["token", { text: "end" }]);
    const ended = tell(so, event(10, "task.completed", { output: "beginning and end" }) as any);
    expect(order(ended)).toEqual(["text beginning and end"]);
  });

  it("of merged pieces have the seq of the first, as when they came one by one", () => {
    const merged = tell(BLANK, event(8, "token", { text: "abc" }, { from: 3 }) as any);
    expect(merged.parts).toEqual([{ seq: 3, type: "text", text: "abc" }]);
  });
});

it("is the same from many events at once as from each by itself, and leaves the former as it was", () => {
  const call = (n: number) => ({ call_id: `${n}`, name: "look", arguments: { n } });
  const events = Array.from({ length: 20 }, (_, n) => [
    ["thinking", { text: "hm" }],
    ["tool_call", call(n)],
    ["token", { text: `said ${n} ` }],
    ["tool_result", { call_id: `${n}`, name: "look", output: "seen", is_error: n === 7 }],
    ["input_required", { input_id: `q${n}`, kind: "approval", prompt: "?" }],
    ["input_received", { input_id: `q${n}`, answer: true }],
    ["progress", { progress: n / 20 }],
    ["token", { text: "and more" }],
    ["custom", { event_type: "mine", payload: n }],
  ])
    .flat()
    .map(([name, data], at) => event(at + 1, name as string, data as object) as any);
  const states = events.reduce((all, each) => [...all, tell(all.at(-1)!, each)], [BLANK] as Transcript[]);
  for (const at of [0, 1, 50, 99]) {
    const former = states[at]!;
    const was = JSON.stringify(former);
    expect(tellAll(former, events.slice(at))).toEqual(states.at(-1));
    expect(JSON.stringify(former)).toBe(was);
  }
});
