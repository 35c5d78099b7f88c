import { expect, it, vi } from "vitest";

vi.mock("./gateway", () => ({ gateway: {} }));
const { piecesOf, queryOf } = await import("./search");

it("cuts a text at what matches", () => {
  expect(piecesOf("How deep is the sea?", [[4, 4], [16, 3]])).toEqual([
    { text: "How ", isMatch: false },
    { text: "deep", isMatch: true },
    { text: " is the ", isMatch: false },
    { text: "sea", isMatch: true },
    { text: "?", isMatch: false },
  ]);
  expect(piecesOf("sea", [[0, 3]])).toEqual([{ text: "sea", isMatch: true }]);
  expect(piecesOf("sea")).toEqual([{ text: "sea", isMatch: false }]);
});

it("counts characters, also outside of the first plane", () => {
  expect(piecesOf("🌊🌊 sea", [[3, 3]])).toEqual([
    { text: "🌊🌊 ", isMatch: false },
    { text: "sea", isMatch: true },
  ]);
});

it("shows what overlaps once", () => {
  expect(piecesOf("seaside", [[0, 3], [2, 5]]).map(({ text }) => text).join("")).toBe("seaside");
});

it("shortens a query to what the gateway takes, between characters", () => {
  expect(queryOf("  sea ")).toBe("sea");
  expect(queryOf("ü".repeat(200))).toBe("ü".repeat(128));
});
