// Conversations and their list: snapshots, pushes, turns, and all requests about them.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Conversation } from "../../src/index.js";
import {
  comeBack,
  completed,
  event,
  liveScene,
  scene,
  settle,
  summary,
  token,
} from "../support/script.js";
import type { Scene, ScriptedSocket } from "../support/script.js";

let its: Scene;
let socket: ScriptedSocket;
let conversation: Conversation;

beforeEach(async () => {
  vi.useFakeTimers();
  its = await liveScene();
  socket = its.socket;
  conversation = its.client.conversation("c1");
});
afterEach(() => vi.useRealTimers());

const message = (id: string, role: string, content: string, more = {}) => ({
  message_id: id,
  role,
  content,
  created_at: 1,
  ...more,
});
type Said = ReturnType<typeof message> & { parent_id?: string };
/** Messages whose parent is not told hang on the one before. */
const snapshot = (messages: Said[] = [], tasks: object[] = [], branch?: object) => ({
  type: "conversation",
  conversation_id: "c1",
  messages: messages.map((one, at) => ({ parent_id: messages[at - 1]?.message_id, ...one })),
  tasks,
  branch,
});
const pushed = (one: Said) => ({ type: "message", conversation_id: "c1", message: one });
const contents = () => conversation.messages.map(({ content }) => content);

it("a task that is known by its id alone is followed when the gateway tells that it lives", async () => {
  vi.useFakeTimers();
  const its = await liveScene();
  void its.client.conversation("c1").open();
  its.socket.answer("open", { type: "conversation", conversation_id: "c1", messages: [], tasks: [] });
  its.client.task("c1", "t9"); // as from the list of its parent's children
  expect(its.socket.all("resume")).toHaveLength(0);
  its.socket.say({ type: "task", task: summary({ task_id: "t9" }) });
  await settle();
  expect(its.socket.all("resume")).toMatchObject([{ task_id: "t9" }]);
  vi.useRealTimers();
});

describe("open()", () => {
  it("loads messages and tasks, follows those that are live, and keeps up", async () => {
    const opened = conversation.open();
    socket.answer(
      "open",
      snapshot(
        [message("m1", "user", "hi")],
        [summary(), summary({ task_id: "t0", status: "completed" })],
      ),
    );
    expect(await opened).toBe(conversation);
    expect(conversation.loaded).toBe(true);
    expect(conversation.tasks.map(({ id }) => id)).toEqual(["t0", "t1"]);
    expect(socket.all("resume").map(({ task_id }) => task_id)).toEqual(["t1"]);

    socket.say({
      type: "message",
      conversation_id: "c1",
      message: message("m2", "assistant", "yes"),
    });
    expect(contents()).toEqual(["hi", "yes"]);
    socket.say({ type: "task", task: summary({ task_id: "t2", status: "pending" }) });
    expect(socket.all("resume").map(({ task_id }) => task_id)).toEqual(["t1", "t2"]);
    socket.say({
      type: "task",
      task: summary({ task_id: "t2", status: "running", progress: 0.5 }),
    });
    expect(its.client.task("c1", "t2").summary.progress).toBe(0.5);
    expect(socket.all("resume")).toHaveLength(2);
  });

  it("keeps a message that was refused where it was asked, and what is on its way at the end", async () => {
    vi.setSystemTime(1_000);
    void conversation.open();
    socket.answer("open", snapshot([message("m1", "user", "first", { created_at: 900, task_id: "t0" })]));
    const refused = conversation.ask("refused");
    await settle();
    socket.answer("chat", { type: "error", code: "bad_request", message: "no" });
    await settle();
    expect(refused.state).toBe("failed");
    const later = message("m2", "user", "second", { created_at: 2_000, task_id: "t1" });
    socket.say({ type: "message", conversation_id: "c1", message: later });
    vi.setSystemTime(3_000);
    conversation.ask("third");
    expect(conversation.turns.map(({ input }) => input)).toEqual(["first", "refused", "second", "third"]);
  });

  it("is asked once for all who open it, and closed when the last one closes", () => {
    void conversation.open();
    void conversation.open();
    expect(socket.all("open")).toHaveLength(1);
    conversation.close();
    expect(socket.all("close")).toHaveLength(0);
    conversation.close();
    conversation.close();
    expect(socket.all("close")).toHaveLength(1);
  });

  it("lets go of the tasks that it followed", () => {
    void conversation.open();
    socket.answer("open", snapshot([], [summary()]));
    conversation.close();
    expect(socket.all("unsubscribe").map(({ task_id }) => task_id)).toEqual(["t1"]);
  });

  it("follows nothing of a snapshot that comes when it is closed again", () => {
    void conversation.open();
    conversation.close();
    socket.answer("open", snapshot([message("m1", "user", "hi")], [summary()]));
    expect(contents()).toEqual(["hi"]);
    expect(socket.all("resume")).toHaveLength(0);
  });

  it("is not left open when it was closed before there was a connection", async () => {
    const waiting = await scene();
    const early = waiting.client.conversation("c1");
    void early.open();
    early.close();
    void early.open();
    early.close();
    waiting.socket.welcome();
    const asked = waiting.socket.sent.map(({ type }) => type).slice(1);
    expect(asked).toEqual(["open", "open", "close"]); // a close counts until the next open
  });

  it("is closed also when its open had to wait for room, and the close had not", async () => {
    void conversation.open();
    socket.answer("open", { type: "error", code: "rate_limited", message: "", retry_after_ms: 9 });
    conversation.close();
    socket.answer("close", { type: "ok" });
    await vi.advanceTimersByTimeAsync(9);
    expect(socket.sent.at(-1)).toMatchObject({ type: "open" });
    socket.answer("open", snapshot([], [summary()]));
    expect(socket.all("resume")).toHaveLength(0);
    expect(socket.sent.at(-1)).toMatchObject({ type: "close", conversation_id: "c1" });
  });

  it("waits for room up to a minute", async () => {
    const soon = conversation.open();
    const full = { type: "error", code: "overloaded", message: "full" };
    socket.answer("open", { ...full, retry_after_ms: 9_000 });
    await vi.advanceTimersByTimeAsync(9_000);
    expect(socket.all("open")).toHaveLength(2);
    socket.answer("open", { ...full, retry_after_ms: 60_001 });
    await expect(soon).rejects.toMatchObject({ code: "overloaded", message: "full" });
    const never = conversation.open();
    socket.answer("open", full);
    await expect(never).rejects.toMatchObject({ code: "overloaded" });
  });

  it("resumes a task once on a new connection, though the snapshot names it again", async () => {
    void conversation.open();
    socket.answer("open", snapshot([], [summary()]));
    socket.answer("resume", { type: "resumed", task: summary(), after: 0, head: 1 });
    socket.say(token(1));
    const second = await comeBack(its);
    second.answer("open", snapshot([], [summary()]));
    expect(second.all("resume").map(({ after }) => after)).toEqual([1]);
  });

  it("is opened again on a new connection; what joins on is joined", async () => {
    void conversation.open();
    socket.answer("open", snapshot([message("m1", "user", "1"), message("m2", "assistant", "2")]));
    const second = await comeBack(its);
    const joined = message("m2", "assistant", "2", { parent_id: "m1" });
    second.answer("open", snapshot([joined, message("m3", "user", "3")]));
    expect(contents()).toEqual(["1", "2", "3"]);
  });

  it("begins anew with newest messages that do not join on", async () => {
    void conversation.open();
    socket.answer("open", snapshot([message("m1", "user", "1")]));
    const second = await comeBack(its);
    second.answer(
      "open",
      snapshot([message("m50", "user", "x", { parent_id: "m49" }), message("m51", "user", "x")]),
    );
    expect(conversation.messages[0]!.message_id).toBe("m50");
    expect(conversation.hasEarlier).toBe(true);
  });

  it("waits for a connection, and is asked once", async () => {
    socket.break();
    void conversation.open();
    await vi.advanceTimersByTimeAsync(its.client.retryAt - Date.now());
    its.script.socket.welcome();
    expect(its.script.socket.all("open")).toHaveLength(1);
  });

  it("follows nothing, and is closed, when it was let go before its snapshot came", async () => {
    socket.break();
    void conversation.open();
    conversation.close();
    await vi.advanceTimersByTimeAsync(its.client.retryAt - Date.now());
    its.script.socket.welcome();
    its.script.socket.answer("open", snapshot([], [summary()]));
    await settle();
    expect(its.script.socket.all("resume")).toHaveLength(0);
    expect(its.script.socket.sent.at(-1)).toMatchObject({ type: "close", conversation_id: "c1" });
  });

  it("is not closed by a close that had to wait when it is open again", async () => {
    void conversation.open();
    socket.answer("open", snapshot());
    await settle();
    conversation.close();
    socket.answer("close", { type: "error", code: "rate_limited", message: "", retry_after_ms: 9 });
    void conversation.open();
    socket.answer("open", snapshot());
    await vi.advanceTimersByTimeAsync(5_000);
    expect(socket.all("close")).toHaveLength(1);
  });
});

describe("earlier()", () => {
  it("loads what is older, until there is no more", async () => {
    void conversation.open();
    socket.answer("open", snapshot([message("m5", "user", "5")]));
    const earlier = conversation.earlier(2);
    expect(socket.asked("history")).toMatchObject({ before: "m5", limit: 2 });
    socket.answer("history", {
      type: "history",
      messages: [message("m3", "user", "3"), message("m4", "assistant", "4")],
      more: true,
    });
    expect(await earlier).toBe(true);
    expect(contents()).toEqual(["3", "4", "5"]);
  });
});

describe("turns", () => {
  it("puts stored messages, tasks and what is on its way together", async () => {
    void conversation.open();
    socket.answer(
      "open",
      snapshot(
        [
          message("m1", "user", "old question", { task_id: "t0" }),
          message("m2", "assistant", "half an answer", { task_id: "t0", partial: true }),
          message("m3", "user", "new question", { task_id: "t1" }),
        ],
        [summary(), summary({ task_id: "t2", type: "background" })],
      ),
    );
    socket.say(
      event(1, "task.created", { input: "new question" }),
      event(2, "task.started"),
      token(3, "so"),
    );
    const outgoing = conversation.ask("next question");
    const task = its.client.task("c1", "t1");
    expect(conversation.turns).toEqual([
      {
        key: "t0",
        input: "old question",
        notice: null,
        text: "half an answer",
        partial: true,
        task: null,
        outgoing: null,
      },
      {
        key: "t1",
        input: "new question",
        notice: null,
        text: "so",
        partial: false,
        task,
        outgoing: null,
      },
      {
        key: outgoing.key,
        input: "next question",
        notice: null,
        text: "",
        partial: false,
        task: null,
        outgoing,
      },
    ]);
  });

  it("shows what the events say in the place of the stored answer", () => {
    void conversation.open();
    socket.answer("open", snapshot([message("m0", "user", "q", { task_id: "t1" })], [summary()]));
    socket.say(
      event(1, "task.created", { input: "q" }),
      token(2, "streamed"),
      completed(3, "streamed"),
    );
    socket.say({
      type: "message",
      conversation_id: "c1",
      message: message("m1", "assistant", "stored", { task_id: "t1" }),
    });
    expect(conversation.turns).toMatchObject([{ key: "t1", input: "q", text: "streamed" }]);
  });

  it("shows no task of another branch, or whose messages are older than those that were loaded", () => {
    void conversation.open();
    const ended = (task_id: string) => summary({ task_id, status: "completed" });
    const messages = [message("m1", "user", "x", { task_id: "t2", parent_id: "m0" })];
    socket.answer("open", snapshot(messages, [ended("t0"), ended("t1"), ended("t2"), ended("t3")]));
    socket.say({ type: "task", task: summary({ task_id: "t4" }) }); // its message is on its way
    expect(conversation.turns.map(({ key }) => key)).toEqual(["t2", "t4"]);
  });

  it("shows the answer of another task under the question that it answers", () => {
    void conversation.open();
    const question = message("m1", "user", "?", { task_id: "t1" });
    const messages = [question, message("m3", "assistant", "anew", { task_id: "t2" })];
    const again = summary({ task_id: "t2", status: "completed", question_id: "m1" });
    socket.answer("open", snapshot(messages, [summary({ status: "completed" }), again]));
    expect(conversation.turns).toMatchObject([{ key: "t2", input: "?", text: "anew" }]);
  });

  it("shows the task that makes the newest answer again", () => {
    void conversation.open();
    const branch = { message_id: "m1", task_id: "t2", siblings: ["m2"] };
    const again = summary({ task_id: "t2", question_id: "m1" });
    const tasks = [summary({ status: "completed" }), again];
    socket.answer("open", snapshot([message("m1", "user", "?", { task_id: "t1" })], tasks, branch));
    expect(conversation.turns).toMatchObject([{ key: "t2", input: "?", task: { id: "t2" } }]);
    const answer = message("m3", "assistant", "anew", { task_id: "t2", parent_id: "m1" });
    socket.say(pushed(answer), pushed(message("m4", "user", "next", { task_id: "t3", parent_id: "m3" })));
    expect(conversation.turns).toMatchObject([{ key: "t2", text: "anew" }, { key: "t3", input: "next" }]);
  });

  it("looks again when another branch was chosen, or something came between", async () => {
    void conversation.open();
    const [one, two] = [message("m1", "user", "1"), message("m2", "user", "2")];
    socket.answer("open", snapshot([one, two]));
    await settle();
    socket.say(pushed(message("m3", "assistant", "!", { parent_id: "m1" })));
    expect(conversation.messages).toHaveLength(2);
    socket.answer("open", snapshot([one, message("m3", "assistant", "!"), two]));
    await settle();
    expect(contents()).toEqual(["1", "!", "2"]);
    socket.say({ type: "branch", conversation_id: "c1", message_id: "m4" });
    socket.answer("open", snapshot([one, message("m4", "user", "4")]));
    expect(contents()).toEqual(["1", "4"]);
  });

  it("begins anew when its first message was edited", async () => {
    void conversation.open();
    socket.answer("open", snapshot([message("m1", "user", "1"), message("m2", "assistant", "2")]));
    await settle();
    const edited = message("m3", "user", "3", { siblings: ["m1", "m3"] });
    socket.say(pushed(edited), { type: "branch", conversation_id: "c1", message_id: "m3" });
    socket.answer("open", snapshot([edited]));
    expect(contents()).toEqual(["3"]);
  });

  it("keeps what was loaded of the part that both branches have", async () => {
    void conversation.open();
    socket.answer("open", snapshot([message("m2", "user", "2", { parent_id: "m1" })]));
    await settle();
    const earlier = conversation.earlier();
    socket.answer("history", { type: "history", messages: [message("m1", "user", "1")] });
    expect(await earlier).toBe(false);
    socket.say({ type: "branch", conversation_id: "c1", message_id: "m5" });
    socket.answer("open", snapshot([message("m5", "user", "5", { parent_id: "m1" })]));
    expect(contents()).toEqual(["1", "5"]);
    expect(conversation.hasEarlier).toBe(false);
  });

  it("shows a notice", () => {
    void conversation.open();
    socket.answer(
      "open",
      snapshot(
        [message("m1", "system", "it has ended", { task_id: "t1" })],
        [summary({ type: "notice" })],
      ),
    );
    socket.say(event(1, "task.created", { input: "it has ended" }));
    expect(conversation.turns).toMatchObject([{ input: null, notice: "it has ended" }]);
  });

  it("marks what a task that failed had said as partial", () => {
    void conversation.open();
    socket.answer("open", snapshot([message("m1", "user", "?", { task_id: "t1" })], [summary()]));
    const error = { code: "timeout", message: "timeout" };
    socket.say(token(1, "ha"), event(2, "task.failed", { status: "failed", error, output: "ha" }));
    expect(conversation.turns).toMatchObject([{ text: "ha", partial: true }]);
  });
});

describe("requests", () => {
  it.each([
    ["cancel_all", () => conversation.cancelAll(), {}],
    ["title", () => conversation.rename("A title"), { title: "A title" }],
    ["delete", () => conversation.delete(), {}],
    ["results", () => conversation.results({ limit: 5 }), { limit: 5 }],
    ["ack", () => conversation.acknowledge(["t1"]), { task_ids: ["t1"] }],
    ["history", () => conversation.history({ before: "m1" }), { before: "m1" }],
  ] as const)("%s", async (type, ask, fields) => {
    const answered = ask();
    expect(socket.asked(type)).toMatchObject({ conversation_id: "c1", ...fields });
    socket.answer(type, { type: "ok", acked: 1 });
    await answered;
  });

  it("lists tasks as objects", async () => {
    const listed = conversation.listTasks({ status: "running", limit: 1 });
    expect(socket.asked("tasks")).toMatchObject({ status: "running", limit: 1 });
    socket.answer("tasks", { type: "tasks", tasks: [summary()], more: true });
    expect(await listed).toEqual({ tasks: [its.client.task("c1", "t1")], more: true });
  });

  it("asks for a background task, whose answer is fetched and acknowledged", async () => {
    const outgoing = conversation.ask("sums", {
      background: true,
      notify_on_complete: true,
      name: "sums",
    });
    await settle();
    expect(socket.asked("chat")).toMatchObject({
      background: true,
      notify_on_complete: true,
      name: "sums",
    });
    socket.answer("chat", { type: "started", task: summary({ type: "background" }) });
    await outgoing.started;
    const fetched = conversation.results();
    const result = {
      task_id: "t1",
      status: "completed",
      prompt: "sums",
      answer: "4",
      completed_at: 2,
    };
    socket.answer("results", { type: "results", results: [result] });
    expect((await fetched).results).toEqual([result]);
    const acked = conversation.acknowledge(["t1"]);
    socket.answer("ack", { type: "ok", acked: 1 });
    expect(await acked).toBe(1);
  });
});

describe("the list of conversations", () => {
  const listed = (...ids: string[]) => ({
    type: "conversations",
    conversations: ids.map((conversation_id, at) => ({ conversation_id, updated_at: 100 - at })),
    more: true,
  });
  const ids = () => its.client.conversations.items.map(({ conversation_id }) => conversation_id);

  it("loads the newest, takes changes, forgets the deleted, and loads older ones", async () => {
    const list = its.client.conversations.open();
    expect(socket.all("watch")).toHaveLength(1);
    socket.answer("conversations", listed("a", "b"));
    expect(ids()).toEqual(["a", "b"]);
    const changed = { conversation_id: "b", updated_at: 200, title: "B", running: 1 };
    socket.say({ type: "conversation_changed", conversation: changed });
    expect(list.items[0]).toEqual(changed);
    socket.say({
      type: "conversation_changed",
      conversation: { conversation_id: "a", updated_at: 1 },
      deleted: true,
    });
    expect(ids()).toEqual(["b"]);
    expect(list.hasOlder).toBe(true);
    const older = list.older();
    expect(socket.asked("conversations")["before"]).toBe("b");
    socket.answer("conversations", { ...listed("z"), more: false });
    expect(await older).toBe(false);
    expect(ids()).toEqual(["b", "z"]);
  });

  it("knows pinned ones far below the pages, and goes on below the pages", async () => {
    const list = its.client.conversations.open();
    socket.answer("conversations", listed("a", "b"));
    const also = list.also({ pinned: true });
    expect(socket.asked("conversations")).toMatchObject({ pinned: true });
    const far = { conversation_id: "far", updated_at: 3, pinned: true };
    socket.answer("conversations", { type: "conversations", conversations: [far], more: false });
    await also;
    expect(ids()).toEqual(["a", "b", "far"]);
    expect(list.hasOlder).toBe(true);
    void list.older();
    expect(socket.asked("conversations")["before"]).toBe("b");
    socket.answer("conversations", listed("a2", "b2"));
    await settle();
    // The last of the pages becomes the first of the list.
    socket.say({ type: "conversation_changed", conversation: { conversation_id: "b2", updated_at: 900 } });
    void list.older();
    expect(socket.asked("conversations")["before"]).toBe("b");
  });

  it("empties a conversation that was deleted elsewhere, and looks at it anew", () => {
    void conversation.open();
    socket.answer("open", snapshot([message("m1", "user", "hi")], [summary()]));
    const deleted = { conversation_id: "c1", updated_at: 1 };
    socket.say({ type: "conversation_changed", conversation: deleted, deleted: true });
    expect(conversation.messages).toEqual([]);
    expect(conversation.tasks).toEqual([]);
    expect(socket.all("open")).toHaveLength(2);
  });

  it("is read again on a new connection: what was deleted meanwhile is gone", async () => {
    its.client.conversations.open();
    socket.answer("conversations", listed("a", "b"));
    const second = await comeBack(its);
    expect(second.all("watch")).toHaveLength(1);
    second.answer("conversations", listed("b"));
    expect(ids()).toEqual(["b"]);
  });
});

describe("changes()", () => {
  it("gives the object now and after each change", async () => {
    const seen: string[] = [];
    const loop = (async () => {
      for await (const { state } of its.client.changes()) {
        seen.push(state);
        if (state === "closed") break;
      }
    })();
    await settle();
    socket.break();
    await settle();
    its.client.close();
    await loop;
    expect(seen).toEqual(["live", "waiting", "closed"]);
  });
});
