// Every code and reason has a sentence; the machine's words are beside it, and never in it.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { TaskFailed } from "../../src/errors.js";
import { detailOf, mayRetry, sentenceOf, sentences } from "../../src/sentences.js";

const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");

/** The names in the first column of the table that begins with this head. */
function tableOf(head: string): string[] {
  const text = read("../../../../proto/PROTOCOL.md");
  const at = text.indexOf(`\n| ${head} | |\n| --- | --- |\n`);
  expect(at).toBeGreaterThan(0);
  const rows = text.slice(at).split("\n\n")[0]!.trim().split("\n").slice(2);
  return rows.flatMap((row) => [...row.split("|")[1]!.matchAll(/`(\w+)`/g)].map(([, name]) => name!));
}

it.each(["reason", "code"])("each %s of the protocol has a sentence of its own", (head) => {
  const names = tableOf(head);
  expect(names.length).toBeGreaterThan(5);
  expect(names.filter((name) => !sentences[name])).toEqual([]);
});

it("and so has each code of a task, and of the client", () => {
  const [, union] = /code: ("agent_error".*);/.exec(read("../../src/wire.ts"))!;
  const own = [...read("../../README.md").matchAll(/^\| `(\w+)` \| (?:from `send`|the client was|somebody|the message was|thrown)/gm)];
  const names = [...union!.matchAll(/"(\w+)"/g), ...own].map(([, name]) => name!);
  expect(names.length).toBe(7 + 5);
  expect(names.filter((name) => !sentences[name])).toEqual([]);
  const all = Object.values(sentences);
  expect(new Set(all).size).toBe(all.length);
});

it("a reason says more than a code, and an unknown one does not hide the code's sentence", () => {
  const wrong = { code: "agent_error", message: "agent_error: model: HTTP 429: slow down" };
  expect(sentenceOf({ ...wrong, reason: "model_busy" })).toBe("The model is busy. Try again in a moment.");
  expect(sentenceOf({ ...wrong, reason: "from_the_future" })).toBe("The assistant broke off.");
  expect(sentenceOf(wrong)).toBe("The assistant broke off.");
  expect(sentenceOf({ code: "from_the_future" })).toBe("Something went wrong.");
});

it("a task that failed tells its reason", () => {
  const error = { code: "agent_error", reason: "model_refused", message: "agent_error: HTTP 401" } as const;
  const failed = new TaskFailed("failed", error, "");
  expect(sentenceOf(failed)).toMatch(/^The model refuses/);
  expect(mayRetry(failed)).toBe(false);
});

it("a page may have sentences of its own", () => {
  const german = { ...sentences, model_busy: "Das Modell ist beschäftigt." };
  expect(sentenceOf({ code: "agent_error", reason: "model_busy" }, german)).toBe("Das Modell ist beschäftigt.");
});

it("the details do not repeat the code", () => {
  expect(detailOf({ code: "agent_error", message: "agent_error: exit status 3" })).toBe("exit status 3");
  expect(detailOf({ code: "orphaned", message: "orphaned" })).toBe("");
  expect(detailOf({ code: "internal", message: "the disk is full" })).toBe("the disk is full");
  expect(detailOf({ code: "internal" })).toBe("");
});

it("words of the gateway that say no more than the sentence are no details", () => {
  const reasons = [...read("../../../../proto/errors.h").matchAll(/^ +X\(\w+, "(\w+)", "(the [^"]+)"\)/gm)];
  const [, other] = /\[MODEL_FAULT_OTHER\] = \{"", "([^"]+)"\}/.exec(read("../../../../proto/errors.c"))!;
  const [, lost, broken] = /\? STR\("([^"]+)"\) : STR\("([^"]+)"\)/.exec(read("../../../../core/task_run.c"))!;
  expect(reasons.length).toBe(6);
  for (const [, reason, text] of reasons) {
    expect(detailOf({ code: "agent_error", reason: reason!, message: `agent_error: model: ${reason}: ${text}` })).toBe("");
  }
  expect(detailOf({ code: "agent_error", message: `agent_error: model: ${other}` })).toBe("");
  expect(detailOf({ code: "agent_error", message: `agent_error: ${broken}` })).toBe("");
  expect(detailOf({ code: "orphaned", message: `orphaned: ${lost}` })).toBe("");
  const full = "model: model_busy: HTTP 429: quota of org-1 used up";
  expect(detailOf({ code: "agent_error", message: `agent_error: ${full}` })).toBe(full);
});

it("what is too long is not sent again as it is", () => {
  expect(mayRetry({ code: "too_large" })).toBe(false);
  expect(mayRetry({ code: "agent_error", reason: "context_too_long" })).toBe(false);
  expect(mayRetry({ code: "overloaded" })).toBe(true);
});
