/** An error is shown as a sentence, with the machine's words at most once. */

import { expect, test } from "vitest";
import { detailOf, mayRetry, sentenceOf } from "./trouble";

test("a reason says more than a code, and an unknown one does not hide the code's sentence", () => {
  const wrong = { code: "agent_error", message: "agent_error: model: HTTP 429: slow down" };
  expect(sentenceOf({ ...wrong, reason: "model_busy" })).toBe("The model is busy. Try again in a moment.");
  expect(sentenceOf({ ...wrong, reason: "from_the_future" })).toBe("The assistant broke off.");
  expect(sentenceOf(wrong)).toBe("The assistant broke off.");
  expect(sentenceOf({ code: "from_the_future", message: "" })).toBe("Something went wrong.");
});

test("every code of a task has a sentence of its own", () => {
  const codes = ["agent_error", "timeout", "cancelled", "orphaned", "limit", "overloaded", "internal"];
  expect(new Set(codes.map((code) => sentenceOf({ code, message: "" }))).size).toBe(codes.length);
});

test("the details do not repeat the code", () => {
  expect(detailOf({ code: "agent_error", message: "agent_error: exit status 3" })).toBe("exit status 3");
  expect(detailOf({ code: "orphaned", message: "orphaned" })).toBe("");
  expect(detailOf({ code: "internal", message: "the disk is full" })).toBe("the disk is full");
});

test("what is too long is not sent again as it is", () => {
  expect(mayRetry({ code: "too_large", message: "" })).toBe(false);
  expect(mayRetry({ code: "overloaded", message: "" })).toBe(true);
});
