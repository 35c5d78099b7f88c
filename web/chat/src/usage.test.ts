import { expect, test } from "vitest";
import { usageIn } from "./usage";
import { price } from "./words";

test("tokens and price are read in every form, and what is none is none", () => {
  expect(usageIn({ usage: { prompt_tokens: 1_200, completion_tokens: 34 } })).toEqual({ tokens: 1_234, dollars: 0 });
  expect(usageIn({ usage: { total_tokens: 7, prompt_tokens: 1 } })).toEqual({ tokens: 7, dollars: 0 });
  expect(usageIn({ usage: { input_tokens: 3, output_tokens: 4 }, total_cost_usd: 0.0123 })).toEqual({ tokens: 7, dollars: 0.0123 });
  expect(usageIn({ usage: { inputTokens: 3, outputTokens: 4, cost: 2 } })).toEqual({ tokens: 7, dollars: 2 });
  for (const none of [null, undefined, "x", { usage: null }, { usage: { prompt_tokens: "many" } }]) {
    expect(usageIn(none)).toEqual({ tokens: 0, dollars: 0 });
  }
});

test("a price keeps two digits that say something", () => {
  expect(price(1.234)).toBe("$1.23");
  expect(price(0.0123)).toBe("$0.012");
  expect(price(0.000001)).toBe("under $0.001");
});
