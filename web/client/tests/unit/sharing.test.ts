// Shares, and what a page's address brings.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { MemoryStore } from "../../src/index.js";
import { broughtBy, handover, linkTo, share, shares, takeOver, unshare } from "../../src/sharing.js";
import { comeBack, liveScene, settle, type Scene, type ScriptedSocket } from "../support/script.js";

let its: Scene;
let socket: ScriptedSocket;

beforeEach(async () => {
  vi.useFakeTimers();
  its = await liveScene();
  socket = its.socket;
});
afterEach(() => vi.useRealTimers());

it("asks for a share once, also when the connection is lost before the answer", async () => {
  const shared = share(its.client, "c1", { rights: ["read", "ask"], actor: "bob" });
  const why = shared.catch(({ code }) => code);
  await settle();
  expect(socket.asked("share")).toMatchObject({ conversation_id: "c1", rights: ["read", "ask"], actor: "bob" });
  socket = await comeBack(its);
  expect(await why).toBe("connection_lost");
  expect(socket.all("share")).toHaveLength(0);
});

it("asks for a code once", async () => {
  const why = handover(its.client).catch(({ code }) => code);
  await settle();
  socket = await comeBack(its);
  expect(await why).toBe("connection_lost");
  expect(socket.all("handover")).toHaveLength(0);
});

it("lists all shares, over pages", async () => {
  const all = shares(its.client, "c1");
  await settle();
  expect(socket.asked("shares")).toMatchObject({ conversation_id: "c1" });
  socket.answer("shares", { type: "share_list", shares: [{ share_id: "s3" }, { share_id: "s2" }], more: true });
  await settle();
  expect(socket.asked("shares")).toMatchObject({ conversation_id: "c1", before: "s2" });
  socket.answer("shares", { type: "share_list", shares: [{ share_id: "s1" }], more: false });
  expect((await all).map(({ share_id }) => share_id)).toEqual(["s3", "s2", "s1"]);
});

it.each([
  ["ok", { type: "ok" }, true],
  ["not there any more", { type: "error", code: "not_found", message: "no such share" }, false],
])("takes a share back: %s", async (_, line, was) => {
  const gone = unshare(its.client, "s1");
  await settle();
  socket.answer("unshare", line);
  expect(await gone).toBe(was);
});

it("tells any other fault of taking a share back", async () => {
  const why = unshare(its.client, "s1").catch(({ code }) => code);
  await settle();
  socket.answer("unshare", { type: "error", code: "internal", message: "damage" });
  expect(await why).toBe("internal");
});

it("puts what it makes into the fragment, and finds it there", () => {
  const page = "https://chat.example/at/?x=1#old";
  const link = linkTo(page, { share: "a.b-c_d" });
  expect(link).toBe("https://chat.example/at/?x=1#share=a.b-c_d");
  expect(broughtBy(link)).toEqual({ share: "a.b-c_d" });
  expect(broughtBy(linkTo(page, { handover: "x/y+z" }))).toEqual({ handover: "x/y+z" });
  expect(broughtBy(page)).toEqual({});
});

it("gets a token for a code, and keeps it where the client looks for a guest's", async () => {
  const store = new MemoryStore();
  const asked: [string, RequestInit][] = [];
  const by = async (address: unknown, init?: RequestInit) => {
    asked.push([String(address), init!]);
    return new Response('{"type":"token","token":"token-9"}');
  };
  const url = "wss://gateway.example/at/v1/ws";
  expect(await takeOver(url, "code-1", { store, fetch: by })).toBe("token-9");
  expect(asked).toEqual([
    ["https://gateway.example/at/v1/handover/token", expect.objectContaining({ method: "POST", body: '{"code":"code-1"}' })],
  ]);
  const { socket } = await liveScene({ store, token: undefined as never });
  expect(socket.asked("hello")).not.toHaveProperty("token"); // another gateway's
  await store.put("ws://gateway/v1/ws  guest", undefined);
  await takeOver("ws://gateway/v1/ws", "code-2", { store, fetch: by });
  const other = await liveScene({ store, token: undefined as never });
  expect(other.socket.asked("hello")).toMatchObject({ token: "token-9" });
});

it("tells that a code is good no more", async () => {
  const by = async () => new Response('{"error":{"code":"not_found","message":"no such code"}}', { status: 404 });
  const why = takeOver("ws://gateway/v1/ws", "code", { store: new MemoryStore(), fetch: by });
  await expect(why).rejects.toMatchObject({ code: "not_found" });
});
