/** A long question is folded, and what is shown of it is its beginning. */

import { expect, it } from "vitest";
import { beginningOf } from "./fold";

it("shows what people write whole", () => {
  for (const text of ["", "How deep is the sea?", "a".repeat(1_600), "line\n".repeat(19)]) expect(beginningOf(text)).toBe(null);
});

it("folds many lines, and many characters in few lines", () => {
  const log = Array.from({ length: 300 }, (_, n) => `line ${n}`).join("\n");
  expect(beginningOf(log)!.split("\n").at(-1)).toBe("line 13");
  expect(beginningOf("a".repeat(1_601))).toBe("a".repeat(1_100));
  expect(beginningOf(`${"a".repeat(1_099)}🌊${"b".repeat(900)}`)).toBe("a".repeat(1_099));
});
