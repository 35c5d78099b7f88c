import { expect, it, vi } from "vitest";

vi.stubGlobal("location", { href: "http://page/" });
const { linkOf, link, may } = await import("./rights");

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
const token = (claims: object) => `${part({ alg: "HS256" })}.${part(claims)}.c2ln`;

it("reads what a link is about", () => {
  const its = token({ sub: "ann", holdfast: { conversations: [{ id: "c-1", rights: ["read", "ask"] }], actor: "bob" } });
  expect(linkOf(`http://page/#share=${its}`)).toEqual({ token: its, conversationId: "c-1", rights: ["read", "ask"], actor: "bob" });
});

it("takes nothing else for a link, and what is broken for one that gives no right", () => {
  expect(linkOf("http://page/#c-1")).toBe(null);
  expect(linkOf("http://page/#share=")).toBe(null);
  expect(linkOf("http://page/#share=abc")).toEqual({ token: "abc", conversationId: "", rights: [], actor: "" });
  expect(linkOf(`http://page/#share=${token({ sub: "ann" })}`)?.rights).toEqual([]);
});

it("lets the owner do everything", () => {
  expect(link).toBe(null);
  expect(may("cancel")).toBe(true);
});
