import { expect, it, vi } from "vitest";

vi.mock("./gateway", () => ({ gateway: {} }));
const { queryOf } = await import("./search");

it("shortens a query to what the gateway takes, between characters", () => {
  expect(queryOf("  sea ")).toBe("sea");
  expect(queryOf("ü".repeat(200))).toBe("ü".repeat(128));
});
