// Every state of the connection, every close code, and every reason to come back.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { connect, MemoryStore } from "../../src/index.js";
import { comeBack, liveScene, nextAttempt, scene, settle, WELCOME } from "../support/script.js";

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(0.5);
});
afterEach(() => vi.useRealTimers());

/** Waits until just before, then just after the next attempt. */
async function expectAttemptIn(ms: number, count: () => number) {
  const before = count();
  await vi.advanceTimersByTimeAsync(ms - 1);
  expect(count()).toBe(before);
  await vi.advanceTimersByTimeAsync(1);
  expect(count()).toBe(before + 1);
}

describe("connecting", () => {
  it("says hello when the socket opens, and is live when welcomed", async () => {
    const { client, socket } = await scene({ client: { name: "page", version: "7" } });
    expect(client.state).toBe("connecting");
    expect(socket.url).toBe("ws://gateway/v1/ws");
    expect(socket.protocol).toBe("holdfast.v1");
    socket.open();
    expect(socket.sent).toEqual([
      { type: "hello", id: "hello", token: "token-1", client: { name: "page", version: "7" } },
    ]);
    socket.say({ type: "welcome", owner: "ada", agents: [{ name: "assistant", default: true }] });
    expect(client.state).toBe("live");
    expect(client.owner).toBe("ada");
    expect(client.agents).toEqual([{ name: "assistant", default: true }]);
  });

  it("gives up an attempt that brings no welcome", async () => {
    const { client, script, socket } = await scene();
    socket.open();
    await vi.advanceTimersByTimeAsync(15_000);
    expect(socket.hungUp).toBe(true);
    expect(client.state).toBe("waiting");
    await vi.advanceTimersByTimeAsync(250);
    expect(script.sockets).toHaveLength(2);
    expect(client.state).toBe("connecting");
  });

  it("takes nothing more from a socket that it gave up", async () => {
    const { client, socket } = await scene();
    socket.open();
    await vi.advanceTimersByTimeAsync(15_000);
    socket.welcome();
    socket.break(1008);
    expect(client.state).toBe("waiting");
  });

  it("is closed by an address that is none", async () => {
    class Refusing {
      constructor() {
        throw new SyntaxError("bad address");
      }
    }
    const { client } = await scene({ WebSocket: Refusing });
    expect(client.state).toBe("closed");
    expect(client.error?.code).toBe("bad_url");
  });

  it("is told at once where there is no WebSocket", () => {
    vi.stubGlobal("WebSocket", undefined);
    try {
      expect(() => connect("ws://gateway/v1/ws")).toThrow("no WebSocket");
    } finally {
      vi.unstubAllGlobals();
    }
  });
});

describe("waiting", () => {
  it("waits a random part of a time that doubles, up to a cap", async () => {
    const { client, script } = await scene();
    for (const most of [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      script.socket.break();
      expect(client.state).toBe("waiting");
      expect(client.retryAt).toBe(Date.now() + most / 2);
      await expectAttemptIn(most / 2, () => script.sockets.length);
    }
  });

  it("uses all of the range: full jitter", async () => {
    const { client, script } = await scene();
    vi.spyOn(Math, "random").mockReturnValue(0);
    script.socket.break();
    expect(client.retryAt).toBe(Date.now());
    await settle();
    vi.spyOn(Math, "random").mockReturnValue(0.999);
    script.socket.break();
    expect(client.retryAt).toBe(Date.now() + 999);
  });

  it("takes its times from the options", async () => {
    const { client, script } = await scene({ backoff: { baseMs: 100, capMs: 150 } });
    for (const wait of [50, 75, 75]) {
      script.socket.break();
      expect(client.retryAt).toBe(Date.now() + wait);
      await vi.advanceTimersByTimeAsync(wait);
    }
  });

  it("begins with short waits again after a connection that lasted", async () => {
    const its = await scene();
    for (let n = 0; n < 4; n++) {
      its.script.socket.break();
      await nextAttempt(its);
    }
    its.script.socket.welcome();
    await vi.advanceTimersByTimeAsync(9_999);
    its.script.socket.break();
    expect(its.client.retryAt).toBe(Date.now() + 4_000); // too short: the fifth wait
    await nextAttempt(its);
    its.script.socket.welcome();
    await vi.advanceTimersByTimeAsync(10_000);
    its.script.socket.break();
    expect(its.client.retryAt).toBe(Date.now() + 250);
  });

  it("is offline while the browser says so, and tries all the same", async () => {
    vi.stubGlobal("navigator", { onLine: false });
    const { client, script } = await scene();
    script.socket.break();
    expect(client.state).toBe("offline");
    await vi.advanceTimersByTimeAsync(250);
    expect(client.state).toBe("connecting");
    expect(script.sockets).toHaveLength(2);
  });
});

describe("what a close asks for", () => {
  it.each([1000, 1005, 1006, 1011, 1012, 4408, 4413])(
    "%i: comes back after a backoff",
    async (code) => {
      const { client, socket } = await liveScene();
      socket.break(code);
      expect(client.state).toBe("waiting");
      expect(client.retryAt).toBe(Date.now() + 250);
    },
  );

  it("1001 after goaway: comes back a random part of what it said, after the close", async () => {
    const { client, socket } = await liveScene();
    socket.say({ type: "goaway", retry_after_ms: 10_000 });
    expect(client.state).toBe("live");
    await vi.advanceTimersByTimeAsync(3_000);
    socket.break(1001);
    expect(client.retryAt).toBe(Date.now() + 5_000);
  });

  it("1001 without goaway: comes back after a backoff", async () => {
    const { client, socket } = await liveScene();
    socket.break(1001);
    expect(client.retryAt).toBe(Date.now() + 250);
  });

  it.each([1007, 1008])("%i: never comes back", async (code) => {
    const { client, script, socket } = await liveScene();
    socket.break(code);
    expect(client.state).toBe("closed");
    expect(client.error).toMatchObject({ name: "HoldfastError", code: "closed" });
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(script.sockets).toHaveLength(1);
  });

  it("1009: comes back when live; never when it was hello that was too large", async () => {
    const { client, script, socket } = await liveScene();
    socket.break(1009);
    expect(client.state).toBe("waiting");
    await vi.advanceTimersByTimeAsync(250);
    script.socket.open();
    script.socket.break(1009);
    expect(client.state).toBe("closed");
    expect(client.error?.code).toBe("too_large");
  });

  it("4429: waits what the last error said, if that is longer", async () => {
    const { client, socket } = await liveScene();
    socket.say({
      type: "error",
      code: "rate_limited",
      message: "slow down",
      retry_after_ms: 7_000,
    });
    socket.break(4429);
    expect(client.retryAt).toBe(Date.now() + 7_000);
  });

  it("retry() comes back, whatever was said", async () => {
    const { client, script, socket } = await liveScene();
    socket.break(1008);
    client.retry();
    expect(client.state).toBe("connecting");
    await settle();
    script.socket.welcome();
    expect(client.state).toBe("live");
    expect(client.error).toBeNull();
    client.retry();
    expect(script.sockets).toHaveLength(2);
  });

  it("close() ends it for good", async () => {
    const { client, script, socket } = await liveScene();
    client.close();
    expect(client.state).toBe("closed");
    expect(client.error).toBeNull();
    expect(socket.hungUp).toBe(true);
    socket.break(1000);
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(script.sockets).toHaveLength(1);
  });
});

describe("tokens", () => {
  const unauthorized = (message: string) => ({
    type: "error",
    id: "hello",
    code: "unauthorized",
    message,
  });

  it("fetches one, keeps it, and fetches another when it was refused", async () => {
    const token = vi.fn((stale?: string) => (stale ? `${stale}+` : "a"));
    const its = await scene({ token });
    its.socket.welcome();
    const second = await comeBack(its);
    expect(second.asked("hello")["token"]).toBe("a");
    expect(token.mock.calls).toEqual([[undefined]]);

    second.break();
    await nextAttempt(its);
    its.script.socket.open().say(unauthorized("expired"));
    its.script.socket.break(4401);
    expect(its.client.state).toBe("waiting");
    await nextAttempt(its);
    expect(token.mock.calls).toEqual([[undefined], ["a"]]);
    its.script.socket.welcome();
    expect(its.script.socket.asked("hello")["token"]).toBe("a+");
    expect(its.client.state).toBe("live");
  });

  it("fetches another one when an open connection ends with 4401", async () => {
    const its = await scene({ token: (stale) => (stale === "a" ? "b" : "a") });
    its.socket.welcome();
    its.socket.break(4401);
    await vi.advanceTimersByTimeAsync(250);
    its.script.socket.open();
    expect(its.script.socket.asked("hello")["token"]).toBe("b");
  });

  it("says hello again with a fresh token before the old one expires", async () => {
    const token = vi.fn((stale?: string) => (stale ? "b" : "a"));
    const { client, socket } = await scene({ token });
    socket.welcome();
    socket.say({ type: "token_expiring", expires_at: Date.now() + 60_000 });
    await settle();
    expect(token).toHaveBeenLastCalledWith("a");
    expect(socket.all("hello").map(({ token }) => token)).toEqual(["a", "b"]);
    socket.say({ type: "welcome", id: "hello", owner: "ada" });
    expect(client.state).toBe("live");
  });

  it("renews tokens that live for seconds at a bounded pace", async () => {
    const token = vi.fn((stale = "") => `${stale}+`);
    const { client, socket } = await scene({ token });
    socket.open();
    for (let answered = 0, second = 0; second < 25; second++) {
      for (; answered < socket.all("hello").length; answered++) {
        socket.say(WELCOME, { type: "token_expiring", expires_at: Date.now() + 30_000 });
        await settle();
      }
      await vi.advanceTimersByTimeAsync(1_000);
    }
    expect(client.state).toBe("live");
    expect(token.mock.calls.map(([stale]) => stale)).toEqual([undefined, "+", "++", "+++"]);
  });

  it("renews no more for a connection that is gone while it waits", async () => {
    const token = vi.fn((stale = "") => `${stale}+`);
    const its = await scene({ token });
    const expiring = { type: "token_expiring", expires_at: Date.now() + 30_000 };
    its.socket.welcome();
    its.socket.say(expiring);
    await settle();
    its.socket.say(WELCOME, expiring);
    const second = await comeBack(its);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(second.all("hello").map(({ token }) => token)).toEqual(["++"]);
    expect(token).toHaveBeenCalledTimes(2);
  });

  it("waits with backoff while the token cannot be fetched", async () => {
    const token = vi
      .fn()
      .mockRejectedValueOnce(new TypeError("fetch failed"))
      .mockResolvedValue("a");
    const { client, script } = await scene({ token });
    expect(client.state).toBe("waiting");
    await vi.advanceTimersByTimeAsync(250);
    script.socket.welcome();
    expect(client.state).toBe("live");
  });

  it("is closed when there is no token to fetch", async () => {
    const { client, script } = await scene({ token: () => undefined });
    expect(client.state).toBe("closed");
    expect(client.error?.code).toBe("unauthorized");
    expect(script.sockets).toHaveLength(0);
  });

  it("is closed when the one token that there is was refused", async () => {
    const { client, socket } = await scene({ token: "wrong" });
    socket.open().say(unauthorized("bad signature"));
    socket.break(4401);
    await vi.advanceTimersByTimeAsync(250);
    expect(client.state).toBe("closed");
    expect(client.error).toMatchObject({ code: "unauthorized", message: "bad signature" });
  });

  it("is closed when three fresh tokens in a row were refused", async () => {
    let count = 0;
    const its = await scene({ token: () => `t${++count}` });
    for (let n = 0; n < 3; n++) {
      expect(its.client.state).toBe("connecting");
      its.script.socket.open().say(unauthorized("unknown key"));
      its.script.socket.break(4401);
      if (n < 2) await nextAttempt(its);
    }
    expect(its.client.state).toBe("closed");
    expect(count).toBe(3);
  });

  it("asks for another one when the one that it waits for never comes, and not before", async () => {
    const asked: number[] = [];
    const answers = [new Promise<string>(() => {}), Promise.resolve("token-2")];
    const start = Date.now();
    const { client, script } = await scene({
      token: () => (asked.push(Date.now() - start), answers[asked.length - 1]),
    });
    await vi.advanceTimersByTimeAsync(29_999); // one that is only slow is not asked for twice
    expect(asked).toEqual([0]);
    vi.setSystemTime(start - 3_600_000);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(asked).toHaveLength(2);
    script.socket.welcome();
    expect(client.state).toBe("live");
  });

  it.each([undefined, null, "no", new Error("offline")])(
    "waits when the function rejects with %s",
    async (reason) => {
      const { client } = await scene({ token: () => Promise.reject(reason) });
      expect(client.state).toBe("waiting");
    },
  );

  it("does not hang on a token that never comes", async () => {
    const { client } = await scene({ token: () => new Promise(() => {}) });
    await vi.advanceTimersByTimeAsync(15_000);
    expect(client.state).toBe("waiting");
  });
});

describe("guests", () => {
  const guest = (owner: string, token: string) => ({ owner, token });

  it("keeps its token, and brings it back", async () => {
    const store = new MemoryStore();
    const first = await scene({ token: undefined, store });
    first.socket.open();
    expect(first.socket.asked("hello")).not.toHaveProperty("token");
    first.socket.welcome(guest("guest-1", "g1"));
    await settle();
    expect(first.client.state).toBe("live");
    expect((await comeBack(first)).asked("hello")["token"]).toBe("g1");

    const second = await scene({ token: undefined, store });
    second.socket.open();
    expect(second.socket.asked("hello")["token"]).toBe("g1");
  });

  it("becomes a new one when the gateway does not know it", async () => {
    const store = new MemoryStore();
    const its = await scene({ token: undefined, store });
    its.socket.welcome(guest("guest-1", "g1"));
    await settle();
    its.socket.break();
    await vi.advanceTimersByTimeAsync(250);
    its.script.socket.open().say({
      type: "error",
      id: "hello",
      code: "unauthorized",
      message: "unknown guest: its time is gone",
    });
    its.script.socket.break(4401);
    await nextAttempt(its);
    its.script.socket.open();
    expect(its.script.socket.asked("hello")).not.toHaveProperty("token");
    its.script.socket.welcome(guest("guest-2", "g2"));
    await settle();
    expect(its.client.owner).toBe("guest-2");
  });

  it.each(["put", "update"] as const)("stays who it is when the store fails at %s", async (fails) => {
    const store = new MemoryStore();
    const its = await scene({ token: undefined, store });
    its.socket.welcome(guest("guest-1", "g1"));
    await settle();
    store[fails] = () => Promise.reject(new DOMException("full", "QuotaExceededError"));
    its.client.conversation("c1").ask("hi");
    await settle();
    expect(its.socket.all("chat")).toHaveLength(1);
    expect((await comeBack(its)).asked("hello")["token"]).toBe("g1");
  });

  it("is the guest of the tab that was first, when two start at once", async () => {
    const store = new MemoryStore();
    const tabs = [
      await scene({ token: undefined, store }),
      await scene({ token: undefined, store }),
    ];
    tabs[0]!.socket.welcome(guest("guest-1", "g1"));
    tabs[1]!.socket.welcome(guest("guest-2", "g2"));
    await settle();
    expect(tabs[0]!.client.state).toBe("live");
    expect(tabs[1]!.client.state).toBe("connecting");
    expect(tabs[1]!.script.sockets).toHaveLength(2);
    tabs[1]!.script.socket.open();
    expect(tabs[1]!.script.socket.asked("hello")["token"]).toBe("g1");
  });

  it("is closed where guests are not served", async () => {
    const { client, socket } = await scene({ token: undefined });
    socket.open().say({ type: "error", id: "hello", code: "unauthorized", message: "no token" });
    socket.break(4401);
    expect(client.state).toBe("closed");
    expect(client.error).toMatchObject({ code: "unauthorized", message: "no token" });
  });
});

describe("waking", () => {
  let page: EventTarget;
  let shown: EventTarget & { hidden: boolean };
  beforeEach(() => {
    page = new EventTarget();
    shown = Object.assign(new EventTarget(), { hidden: false });
    vi.stubGlobal("addEventListener", page.addEventListener.bind(page));
    vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page));
    vi.stubGlobal("document", shown);
  });

  it.each(["online", "pageshow"])("%s: comes back at once", async (name) => {
    const { client, script } = await liveScene();
    for (let n = 0; n < 8; n++) {
      script.socket.break();
      page.dispatchEvent(new Event(name));
      expect(client.state).toBe("connecting");
      await settle();
    }
    expect(script.sockets).toHaveLength(9);
  });

  it("begins an attempt anew that hangs", async () => {
    const { script } = await scene();
    await vi.advanceTimersByTimeAsync(4_000);
    page.dispatchEvent(new Event("online"));
    await settle();
    expect(script.sockets).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    page.dispatchEvent(new Event("online"));
    await settle();
    expect(script.sockets).toHaveLength(2);
  });

  it("visibilitychange: comes back when shown, not when hidden", async () => {
    const { client, script, socket } = await liveScene();
    socket.break();
    shown.hidden = true;
    shown.dispatchEvent(new Event("visibilitychange"));
    expect(client.state).toBe("waiting");
    shown.hidden = false;
    shown.dispatchEvent(new Event("visibilitychange"));
    expect(client.state).toBe("connecting");
    await settle();
    expect(script.sockets).toHaveLength(2);
  });

  it("asks a live socket whether it still lives, once, and keeps one that answers", async () => {
    const { client, socket } = await liveScene();
    page.dispatchEvent(new Event("online"));
    page.dispatchEvent(new Event("pageshow"));
    expect(socket.all("ping")).toHaveLength(1);
    socket.say({ type: "pong", id: "ping", ts: 1 });
    await vi.advanceTimersByTimeAsync(10_000);
    expect(client.state).toBe("live");
  });

  it("takes anything for an answer", async () => {
    const { client, socket } = await liveScene();
    page.dispatchEvent(new Event("online"));
    await vi.advanceTimersByTimeAsync(3_999);
    socket.onmessage?.({ data: "\n" });
    await vi.advanceTimersByTimeAsync(4_000);
    expect(client.state).toBe("live");
  });

  it("finds a half-open socket: nothing comes within 4 s", async () => {
    const { client, script, socket } = await liveScene();
    page.dispatchEvent(new Event("offline"));
    await vi.advanceTimersByTimeAsync(3_999);
    expect(client.state).toBe("live");
    await vi.advanceTimersByTimeAsync(1);
    expect(client.state).toBe("waiting");
    expect(socket.hungUp).toBe(true);
    await vi.advanceTimersByTimeAsync(250);
    expect(script.sockets).toHaveLength(2);
  });

  it("finds a half-open socket that nobody woke: after 25 s of silence", async () => {
    const { client, socket } = await liveScene();
    await vi.advanceTimersByTimeAsync(20_000);
    socket.onmessage?.({ data: "" });
    await vi.advanceTimersByTimeAsync(24_999);
    expect(socket.all("ping")).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(socket.all("ping")).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(4_000);
    expect(client.state).toBe("waiting");
  });

  it("finds it as soon when the clock was set back", async () => {
    const { client } = await liveScene();
    vi.setSystemTime(Date.now() - 3_600_000);
    await vi.advanceTimersByTimeAsync(29_000);
    expect(client.state).toBe("waiting");
  });

  it("does not ask while nobody looks", async () => {
    const { client, socket } = await liveScene();
    shown.hidden = true;
    await vi.advanceTimersByTimeAsync(600_000);
    expect(socket.all("ping")).toHaveLength(0);
    expect(client.state).toBe("live");
  });

  it("listens no more when it is closed", async () => {
    const { client, script } = await liveScene();
    client.close();
    page.dispatchEvent(new Event("online"));
    client.retry();
    await settle();
    expect(script.sockets).toHaveLength(1);
  });
});

describe("lines", () => {
  it("survives a line that is no JSON, and takes those around it", async () => {
    const complaint = vi.spyOn(console, "error").mockImplementation(() => {});
    const { client, socket } = await liveScene();
    const first = client.request("ping", {});
    const second = client.request("ping", {});
    const [a, b] = socket.all("ping").map(({ id }) => id);
    const pong = (id: string) => JSON.stringify({ type: "pong", id, ts: 1 });
    socket.onmessage!({ data: `${pong(a)}\n{"type":\n\n${pong(b)}\n` });
    await Promise.all([first, second]);
    expect(complaint).toHaveBeenCalledOnce();
    expect(client.state).toBe("live");
  });
});
