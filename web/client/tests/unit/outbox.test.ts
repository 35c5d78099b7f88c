// The outbox: kept before it is sent, until `started` comes; sent once; over reloads and tabs.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { MemoryStore, type OutgoingState } from "../../src/index.js";
import { fakeLocks } from "../support/locks.js";
import {
  comeBack,
  liveScene,
  nextAttempt,
  scene,
  settle,
  summary,
  token,
} from "../support/script.js";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const KEPT = "ws://gateway/v1/ws  asked ";
const started = (more = {}) => ({ type: "started", task: summary({ status: "pending" }), ...more });

function states(outgoing: { state: OutgoingState; subscribe(listener: () => void): unknown }) {
  const seen = [outgoing.state];
  outgoing.subscribe(() => seen.push(outgoing.state));
  return seen;
}

describe("a message", () => {
  it("is queued, sent, started, and its task speaks from the first event on", async () => {
    const store = new MemoryStore();
    const { client, socket } = await liveScene({ store });
    const conversation = client.conversation("c1");
    const outgoing = conversation.ask("hi", { agent: "assistant", when_busy: "enqueue" });
    const seen = states(outgoing);
    expect(conversation.outgoing).toEqual([outgoing]);
    await settle();
    expect(socket.asked("chat")).toMatchObject({
      conversation_id: "c1",
      message: "hi",
      agent: "assistant",
      when_busy: "enqueue",
      request_key: outgoing.key,
    });
    expect(await store.list(KEPT)).toHaveLength(1);

    socket.say({ ...started(), id: socket.asked("chat")["id"] }, token(1, "Hel"), token(2, "lo"));
    const task = await outgoing.started;
    expect(task.text).toBe("Hello");
    expect(task).toBe(outgoing.task);
    expect(socket.all("resume")).toHaveLength(0);
    await settle();
    expect(seen).toEqual(["queued", "sent", "started"]);
    expect(client.outbox).toEqual([]);
    expect(await store.list(KEPT)).toEqual([]);
  });

  it("keeps its turn while there is no room: none overtakes one that waits longer", async () => {
    const its = await liveScene();
    const { client, socket } = its;
    const all = ["a", "b", "c"].map((text) => client.conversation(text).ask(text));
    await settle();
    const sent = () => socket.all("chat").map(({ message }) => message);
    expect(sent()).toEqual(["a", "b", "c"]);
    const full = { type: "error", code: "overloaded", message: "4 tasks run" };
    for (const [at, ms] of [500, 100, 300].entries()) {
      socket.say({ ...full, retry_after_ms: ms, id: socket.all("chat")[at]!["id"] });
    }
    await vi.advanceTimersByTimeAsync(400);
    expect(sent()).toEqual(["a", "b", "c"]);
    expect(all.map(({ state, error }) => [state, error?.code])).toEqual([
      ["queued", "overloaded"],
      ["queued", "overloaded"],
      ["queued", "overloaded"],
    ]);
    const late = client.conversation("d").ask("d");
    await settle();
    expect(late.error?.code).toBe("overloaded");
    await vi.advanceTimersByTimeAsync(100);
    expect(sent().slice(3)).toEqual(["a"]);
    for (const next of ["b", "c", "d"]) {
      socket.answer("chat", started());
      await settle();
      expect(sent().at(-1)).toBe(next);
    }
    expect(sent()).toHaveLength(7);
  });

  it("waits without a network, and goes out in order when it is back", async () => {
    const its = await liveScene();
    its.socket.break();
    const conversation = its.client.conversation("c1");
    const all = ["one", "two", "three"].map((text) => conversation.ask(text));
    await settle();
    expect(all.map(({ state }) => state)).toEqual(["queued", "queued", "queued"]);
    await nextAttempt(its);
    its.script.socket.welcome();
    await settle();
    expect(its.script.socket.all("chat").map(({ message }) => message)).toEqual([
      "one",
      "two",
      "three",
    ]);
  });

  it("is sent again under its key when `started` was lost", async () => {
    const its = await liveScene();
    const outgoing = its.client.conversation("c1").ask("hi");
    const seen = states(outgoing);
    await settle();
    const second = await comeBack(its);
    expect(second.asked("chat")["request_key"]).toBe(outgoing.key);
    second.answer("chat", started({ repeated: true }));
    await outgoing.started;
    await settle();
    expect(seen).toEqual(["queued", "sent", "queued", "sent", "started"]);
    const third = await comeBack(its);
    expect(third.all("chat")).toHaveLength(0);
  });

  it("waits, and says why, while the gateway has no room", async () => {
    const { client, socket } = await liveScene();
    const outgoing = client.conversation("c1").ask("hi");
    await settle();
    const busy = {
      type: "error",
      code: "overloaded",
      message: "too many tasks",
      retry_after_ms: 500,
    };
    socket.answer("chat", busy);
    expect(outgoing).toMatchObject({ state: "queued", error: { code: "overloaded" } });
    await vi.advanceTimersByTimeAsync(500);
    expect(socket.all("chat")).toHaveLength(2);
    expect(outgoing).toMatchObject({ state: "sent", error: null });
  });

  it("fails when it is refused, is kept no more, and can be tried again", async () => {
    const store = new MemoryStore();
    const { client, socket } = await liveScene({ store });
    const conversation = client.conversation("c1");
    const outgoing = conversation.ask("hi", { when_busy: "reject" });
    await settle();
    socket.answer("chat", { type: "error", code: "conflict", message: "busy" });
    await expect(outgoing.started).rejects.toMatchObject({ code: "conflict" });
    expect(outgoing).toMatchObject({ state: "failed", error: { code: "conflict" } });
    expect(conversation.outgoing).toEqual([outgoing]);
    await settle();
    expect(await store.list(KEPT)).toEqual([]);

    const again = outgoing.retry();
    await settle();
    expect(again.state).toBe("sent");
    expect(conversation.outgoing).toEqual([again]);
    expect(await store.list(KEPT)).toHaveLength(1);
  });

  it("fails when it is too large, before it is sent", async () => {
    const { client, socket } = await liveScene();
    const outgoing = client.conversation("c1").ask("x".repeat(2_000));
    await expect(outgoing.started).rejects.toMatchObject({ code: "too_large" });
    expect(socket.all("chat")).toHaveLength(0);
  });

  it("is forgotten when it is discarded", async () => {
    const store = new MemoryStore();
    const its = await liveScene({ store });
    its.socket.break();
    const outgoing = its.client.conversation("c1").ask("hi");
    await settle();
    outgoing.discard();
    await expect(outgoing.started).rejects.toMatchObject({ code: "discarded" });
    await nextAttempt(its);
    its.script.socket.welcome();
    await settle();
    expect(its.script.socket.all("chat")).toHaveLength(0);
    expect(its.client.outbox).toEqual([]);
    expect(await store.list(KEPT)).toEqual([]);
  });
});

describe("a page that is loaded again", () => {
  it("shows at once what was not sent, and sends it under the same key", async () => {
    const store = new MemoryStore();
    const before = await scene({ store });
    const first = before.client.conversation("c1").ask("one");
    const second = before.client.conversation("c2").ask("two");
    await settle();
    before.client.close();
    await expect(first.started).rejects.toMatchObject({ code: "closed" });

    const after = await scene({ store });
    expect(after.client.outbox.map(({ text, state }) => [text, state])).toEqual([
      ["one", "queued"],
      ["two", "queued"],
    ]);
    expect(after.client.conversation("c2").outgoing).toHaveLength(1);
    after.socket.welcome();
    await settle();
    expect(after.socket.all("chat").map((chat) => chat["request_key"])).toEqual([
      first.key,
      second.key,
    ]);
  });

  it("does not show, and does not send, what somebody else had asked; that stays kept", async () => {
    const store = new MemoryStore();
    const ada = await liveScene({ store });
    ada.socket.break();
    ada.client.conversation("c1").ask("secret");
    await settle();
    ada.client.close();

    const bob = await scene({ store });
    bob.socket.welcome({ owner: "bob" });
    await settle();
    expect(bob.client.outbox).toEqual([]);
    expect(bob.socket.all("chat")).toHaveLength(0);

    const again = await scene({ store });
    again.socket.welcome();
    await settle();
    expect(again.socket.all("chat")).toHaveLength(1);
  });

  it("keeps users apart by name", async () => {
    const store = new MemoryStore();
    const ada = await scene({ store, user: "ada" });
    ada.client.conversation("c1").ask("secret");
    await settle();
    ada.client.close();
    const bob = await scene({ store, user: "bob" });
    expect(bob.client.outbox).toEqual([]);
  });

  it("sends a guest's message as the new guest that it has become", async () => {
    const store = new MemoryStore();
    const before = await scene({ store, token: undefined });
    before.socket.welcome({ owner: "guest-1", token: "g1" });
    await settle();
    before.socket.break();
    before.client.conversation("c1").ask("hi");
    await settle();
    before.client.close();
    const after = await scene({ store, token: undefined });
    after.socket.welcome({ owner: "guest-2", token: "g2" });
    await settle();
    expect(after.socket.all("chat")).toHaveLength(1);
  });
});

describe("two tabs", () => {
  it("send it once: the second one when the first has gone", async () => {
    vi.stubGlobal("navigator", { locks: fakeLocks() });
    const store = new MemoryStore();
    const one = await scene({ store, share: false });
    one.client.conversation("c1").ask("hi");
    await settle();
    const two = await liveScene({ store, share: false });
    expect(two.client.outbox).toHaveLength(1);
    expect(two.socket.all("chat")).toHaveLength(0);
    one.client.close();
    await settle();
    expect(two.socket.all("chat")).toHaveLength(1);
  });

  it("send what they have where there are locks that refuse", async () => {
    const refused = () => Promise.reject(new DOMException("denied", "SecurityError"));
    vi.stubGlobal("navigator", { locks: { request: refused } });
    const { client, socket } = await liveScene({ share: false });
    client.conversation("c1").ask("hi");
    await settle();
    expect(socket.all("chat")).toHaveLength(1);
  });

  it("forget what the other one has sent", async () => {
    vi.stubGlobal("navigator", { locks: fakeLocks() });
    const store = new MemoryStore();
    const one = await scene({ store, share: false });
    one.client.conversation("c1").ask("hi");
    await settle();
    const two = await liveScene({ store, share: false });
    one.socket.welcome();
    await settle();
    one.socket.answer("chat", started());
    await settle();
    expect(two.client.outbox).toEqual([]);
    expect(two.socket.all("chat")).toHaveLength(0);
  });
});

describe("another owner on the same connection", () => {
  it("fails what the first one had asked, and forgets what was shown", async () => {
    const its = await liveScene();
    const conversation = its.client.conversation("c1");
    void conversation.open();
    its.socket.answer("open", {
      type: "conversation",
      conversation_id: "c1",
      messages: [{ message_id: "m1", role: "user", content: "mine" }],
      tasks: [summary()],
    });
    const outgoing = conversation.ask("hi");
    const cancel = conversation.cancelAll();
    await settle();
    const refusals = Promise.all([
      expect(outgoing.started).rejects.toMatchObject({ code: "owner_changed" }),
      expect(cancel).rejects.toMatchObject({ code: "owner_changed" }),
    ]);
    const second = await comeBack(its, { owner: "bob" });
    await refusals;
    expect(outgoing.state).toBe("failed");
    expect(second.all("chat")).toHaveLength(0);
    expect(second.all("resume")).toHaveLength(0);
    expect(conversation.messages).toEqual([]);
    expect(conversation.tasks).toEqual([]);
    expect(second.all("open")).toHaveLength(1);
  });
});
