// Edited questions, answers made again, and the choice between them.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { choose, edit, fork, regenerate, versions } from "../../src/branches.js";
import type { Conversation } from "../../src/index.js";
import { comeBack, liveScene, settle, summary } from "../support/script.js";
import type { Scene, ScriptedSocket } from "../support/script.js";

let its: Scene;
let socket: ScriptedSocket;
let conversation: Conversation;

beforeEach(async () => {
  vi.useFakeTimers();
  its = await liveScene();
  socket = its.socket;
  conversation = its.client.conversation("c1");
  void conversation.open();
});
afterEach(() => vi.useRealTimers());

const message = (message_id: string, role: string, task_id: string, more = {}) => ({
  message_id,
  role,
  task_id,
  content: message_id,
  created_at: 1,
  ...more,
});
const opened = (messages: object[], tasks: object[] = [], branch?: object) =>
  socket.answer("open", { type: "conversation", conversation_id: "c1", messages, tasks, branch });
const turn = (at = 0) => conversation.turns[at]!;

it("tells the versions of a question and of its answer", () => {
  const siblings = ["m3", "m1"];
  opened([
    message("m1", "user", "t1", { siblings }),
    message("m2", "assistant", "t1", { parent_id: "m1" }),
    message("m5", "user", "t2", { parent_id: "m2" }),
    message("m6", "assistant", "t3", { parent_id: "m5", siblings: ["m6", "m7"] }),
  ]);
  expect(versions(conversation, turn())).toEqual({ question: { ids: siblings, at: 1 }, answer: null });
  expect(versions(conversation, turn(1))).toEqual({ question: null, answer: { ids: ["m6", "m7"], at: 0 } });
});

it("counts the answer that is being made", () => {
  const again = summary({ task_id: "t2", question_id: "m1" });
  opened([message("m1", "user", "t1")], [again], { message_id: "m1", task_id: "t2", siblings: ["m2"] });
  expect(versions(conversation, turn())).toEqual({ question: null, answer: { ids: ["m2", null], at: 1 } });
});

it("edits the message that the answer stands under, whoever answered it", async () => {
  opened([message("m1", "user", "t1"), message("m2", "assistant", "t2", { parent_id: "m1" })]);
  edit(conversation, turn(), "in other words", { agent: "second" });
  await settle();
  expect(socket.asked("chat")).toMatchObject({ message: "in other words", edit: "m1", agent: "second" });
});

it("has an answer made again, once", async () => {
  opened([message("m1", "user", "t1")]);
  const task = regenerate(its.client, conversation, turn());
  const asked = socket.asked("chat");
  expect(asked).toMatchObject({ conversation_id: "c1", regenerate: "t1" });
  expect(asked).not.toHaveProperty("message");
  expect(asked!.request_key).toBeTruthy();
  socket.answer("chat", { type: "started", task: summary({ task_id: "t2" }) });
  expect((await task).id).toBe("t2");
});

it("chooses a branch", async () => {
  opened([]);
  const chosen = choose(its.client, conversation, "m9");
  expect(socket.asked("branch")).toMatchObject({ conversation_id: "c1", message_id: "m9" });
  socket.answer("branch", { type: "branch", conversation_id: "c1", message_id: "m10" });
  expect(await chosen).toMatchObject({ message_id: "m10" });
});

it("forks once, also when the answer is lost with its connection", async () => {
  const made = fork(its.client, conversation, { message_id: "m1", title: "another" });
  await settle();
  const { to } = socket.asked("fork");
  expect(socket.asked("fork")).toMatchObject({ conversation_id: "c1", message_id: "m1", title: "another" });
  socket = await comeBack(its);
  expect(socket.asked("fork")).toMatchObject({ to });
  socket.answer("fork", { type: "error", code: "conflict", message: "there is one" });
  expect((await made).id).toBe(to);
});

it("tells what cannot be forked", async () => {
  const why = fork(its.client, conversation).catch(({ code }) => code);
  await settle();
  socket.answer("fork", { type: "error", code: "not_found", message: "no such conversation" });
  expect(await why).toBe("not_found");
});
