import { describe, expect, it, vi } from "vitest";

vi.mock("./gateway", () => ({ gateway: {} }));
const { queryOf, snippetOf } = await import("./search");

it("shortens a query to what the gateway takes, between characters", () => {
  expect(queryOf("  sea ")).toBe("sea");
  expect(queryOf("ü".repeat(200))).toBe("ü".repeat(128));
});

describe("a find reads as on the page", () => {
  const plain = (text: string) => snippetOf(text, []).map((piece) => piece.text).join("");

  it.each([
    ["two **beacons** are *dark* and ~~lost~~", "two beacons are dark and lost"],
    ["## The sea\n\n- [x] deep\n- `a_b_c` and __wide__", "The sea\n\ndeep\na_b_c and wide"],
    ["see [the log](https://example.org/a_(b)) and ![chart](x.png \"t\")", "see the log and chart"],
    ["| a | b |\n| --- | ---: |\n| 1 | 2 |", "a · b\n\n1 · 2"],
    ["```c\nint *p = a ** b;\n```\n> said", "\nint *p = a ** b;\n\nsaid"],
    ["…cut in **the middle", "…cut in the middle"],
    ["snake_case_name, 2 * 3 * 4, \\*kept\\*, `**kw`", "snake_case_name, 2 * 3 * 4, *kept*, **kw"],
  ])("%j", (text, shown) => expect(plain(text)).toBe(shown));

  it("marks what was found, wherever the marks stood", () => {
    const text = "🪸 the **dark** [beacon](https://x.org) `beacon_1`";
    const at = (word: string, n = 0) => [...text.slice(0, text.indexOf(word, n))].length;
    const pieces = snippetOf(text, [
      [at("dark"), 4],
      [at("beacon"), 6],
      [at("beacon_1"), 6],
    ]);
    expect(pieces).toEqual([
      { text: "🪸 the ", isMatch: false },
      { text: "dark", isMatch: true },
      { text: " ", isMatch: false },
      { text: "beacon", isMatch: true },
      { text: " ", isMatch: false },
      { text: "beacon", isMatch: true },
      { text: "_1", isMatch: false },
    ]);
  });
});
