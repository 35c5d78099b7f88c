// Words that are looked for, a page at a time, and where they stand.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { marked, search } from "../../src/search.js";
import { liveScene, settle, type Scene, type ScriptedSocket } from "../support/script.js";

let its: Scene;
let socket: ScriptedSocket;

beforeEach(async () => {
  vi.useFakeTimers();
  its = await liveScene();
  socket = its.socket;
});
afterEach(() => vi.useRealTimers());

const found = (more: object) => socket.answer("search", { type: "found", messages: [], ...more });

it("asks for the next page when it is wanted, and passes over those with nothing", async () => {
  const pages = search(its.client, "sea", { limit: 2 });
  const first = pages.next();
  await settle();
  expect(socket.asked("search")).toMatchObject({ query: "sea", limit: 2 });
  expect(socket.asked("search")).not.toHaveProperty("before");
  found({ conversations: [{ conversation_id: "c1" }], more: true, before: "m9" });
  expect((await first).value).toMatchObject({ conversations: [{ conversation_id: "c1" }] });
  expect(socket.all("search")).toHaveLength(1);

  const second = pages.next();
  await settle();
  expect(socket.asked("search")).toMatchObject({ query: "sea", limit: 2, before: "m9" });
  found({ more: true, before: "m5" });
  await settle();
  expect(socket.asked("search")).toMatchObject({ before: "m5" });
  found({ messages: [{ message_id: "m4" }], more: false });
  expect((await second).value).toMatchObject({ messages: [{ message_id: "m4" }] });
  expect((await pages.next()).done).toBe(true);
  expect(socket.all("search")).toHaveLength(3);
});

it("gives one page when nothing was found", async () => {
  const pages = search(its.client, "sea");
  const first = pages.next();
  await settle();
  expect(socket.asked("search")).not.toHaveProperty("limit");
  found({ conversations: [], more: false });
  expect((await first).value).toMatchObject({ conversations: [], messages: [] });
  expect((await pages.next()).done).toBe(true);
});

it("marks characters, not halves of them", () => {
  expect(marked("a \u{1F30A} sea", [[2, 1], [4, 3]])).toEqual([
    { text: "a ", isMatch: false },
    { text: "\u{1F30A}", isMatch: true },
    { text: " ", isMatch: false },
    { text: "sea", isMatch: true },
  ]);
  expect(marked("sea", [])).toEqual([{ text: "sea", isMatch: false }]);
  expect(marked("", [])).toEqual([]);
});
