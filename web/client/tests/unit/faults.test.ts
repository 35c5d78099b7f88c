import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { faultsOf } from "../../src/faults.js";
import type { Options } from "../../src/index.js";
import { liveScene, nextAttempt, scene, settle, token } from "../support/script.js";

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(0.5);
});
afterEach(() => vi.useRealTimers());

async function faulty(faults: Options["faults"]) {
  const its = await scene({ faults });
  await vi.waitUntil(() => its.script.sockets.length === 1 || its.client.state === "waiting");
  return { ...its, socket: its.script.socket };
}

describe("faults", () => {
  it("dropAfter: cuts each connection after so many lines", async () => {
    const its = await faulty({ dropAfter: 3 });
    its.socket.welcome();
    const task = its.client.task("c1", "t1").follow();
    its.socket.say(token(1), token(2), token(3));
    expect(task.transcript.last).toBe(2);
    expect(its.client.state).toBe("waiting");
    expect(its.socket.hungUp).toBe(true);
    await nextAttempt(its);
    its.script.socket.welcome();
    expect(its.script.socket.asked("resume")["after"]).toBe(2);
  });

  it("freezeAfter: says nothing more, and is found out", async () => {
    const { client, socket } = await faulty({ freezeAfter: 1 });
    socket.welcome();
    socket.say(token(1));
    expect(client.state).toBe("live");
    await vi.advanceTimersByTimeAsync(29_000);
    expect(client.state).toBe("waiting");
  });

  it("latencyMs: delays both ways, in order", async () => {
    const { client, socket } = await faulty({ latencyMs: 200 });
    socket.open();
    await vi.advanceTimersByTimeAsync(399);
    expect(socket.sent).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(socket.all("hello")).toHaveLength(1);
    socket.say({ type: "welcome", owner: "ada" });
    await vi.advanceTimersByTimeAsync(199);
    expect(client.state).toBe("connecting");
    await vi.advanceTimersByTimeAsync(1);
    expect(client.state).toBe("live");
  });

  it("refuse: so many attempts in a row fail", async () => {
    const its = await faulty({ refuse: 2 });
    await nextAttempt(its);
    expect(its.client.state).toBe("connecting");
    await vi.advanceTimersByTimeAsync(1);
    expect(its.client.state).toBe("waiting");
    await nextAttempt(its);
    expect(its.script.sockets).toHaveLength(1);
  });

  it("reads them from the page's address", () => {
    expect(faultsOf("?x=1&fault=dropAfter:120,latencyMs:200")).toEqual({
      dropAfter: 120,
      latencyMs: 200,
    });
    expect(faultsOf("?x=1")).toBeNull();
  });

  it("does nothing when there are none", async () => {
    const { client } = await liveScene();
    expect(client.state).toBe("live");
    const its = await scene({ faults: true });
    await vi.waitUntil(() => its.script.sockets.length === 1);
    its.script.socket.welcome();
    await settle();
    expect(its.client.state).toBe("live");
  });
});
