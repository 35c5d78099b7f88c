// Why it does not connect: found out by plain requests, told once in the console, and kept in `trouble`.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { connect, HoldfastError, MemoryStore } from "../../src/index.js";
import { diagnose } from "../../src/trouble.js";
import { liveScene, nextAttempt, scene, settle, type Scene } from "../support/script.js";

/** The behaviour of a browser's fetch, for each scheme: nobody there, an answer, and whether a page may read it. */
function world(answers: Record<string, "none" | "closed" | "open" | "no name" | "bad certificate">) {
  vi.stubGlobal("fetch", async (url: string, { mode }: RequestInit) => {
    const answer = answers[new URL(url).protocol] ?? "none";
    const refused = (code: string) => Object.assign(TypeError("fetch failed"), { cause: { code } });
    if (answer === "no name") throw refused("ENOTFOUND");
    if (answer === "bad certificate") throw refused("DEPTH_ZERO_SELF_SIGNED_CERT");
    if (answer === "none" || (mode === "cors" && answer === "closed")) throw TypeError("Failed to fetch");
    return new Response(null, { status: 404 });
  });
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("location", { origin: "http://localhost:5173", protocol: "http:" });
});
afterEach(() => vi.useRealTimers());

const URL_ = "ws://gateway:8080/v1/ws";

describe("diagnose()", () => {
  it("tells the usual causes apart, and says what to do", async () => {
    world({ "http:": "closed" });
    expect(await diagnose(URL_)).toEqual({
      cause: "origin",
      message:
        'gateway:8080 accepts no pages of http://localhost:5173: add it to "origins" in its configuration',
    });
    world({});
    expect(await diagnose(URL_)).toMatchObject({ cause: "gateway", message: /nothing answers at gateway:8080/ });
    world({ "http:": "no name" });
    expect((await diagnose(URL_)).cause).toBe("route");
    vi.stubGlobal("fetch", async () => Promise.reject(new DOMException("too late", "TimeoutError")));
    expect((await diagnose(URL_)).cause).toBe("route");
    world({ "http:": "open" });
    expect((await diagnose("ws://gateway:8080/ws")).cause).toBe("path");
    expect((await diagnose("http://gateway:8080")).cause).toBe("path");
    expect((await diagnose(URL_)).cause).toBe("proxy");
    expect((await diagnose("wss://gateway:8080/v1/ws")).cause).toBe("tls");
    world({ "https:": "bad certificate" });
    expect((await diagnose("wss://gateway:8080/v1/ws")).cause).toBe("tls");
  });

  it("blames nobody when the network comes back while it looks", async () => {
    const asked: string[] = [];
    vi.stubGlobal("fetch", async (url: string, { method }: RequestInit) => {
      const { protocol } = new URL(url);
      if (asked.push(`${method} ${protocol}`) === 1 || protocol === "https:") throw TypeError("Failed to fetch");
      return new Response(null, { status: method === "POST" ? 400 : 200 });
    });
    expect(await diagnose(URL_)).toEqual({ cause: "unknown", message: "gateway:8080 answers again" });
    expect(asked.splice(0)).toEqual(["GET http:", "POST http:", "GET http:"]);
    vi.stubGlobal("location", { origin: "http://gateway:8080", host: "gateway:8080", protocol: "http:" });
    expect((await diagnose(URL_)).cause).toBe("gateway");
    expect(asked, "its own gateway refuses no page").not.toContain("POST http:");
  });
});

describe("trouble", () => {
  const fail = async (its: Scene, times: number) => {
    for (let n = 0; n < times; n++) {
      its.script.socket.break();
      await nextAttempt(its);
      await settle();
    }
  };

  it("is said once in the console, after the third attempt that failed", async () => {
    world({ "http:": "closed" });
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const its = await scene();
    await fail(its, 2);
    expect(its.client.trouble).toMatchObject({ cause: "unknown", code: 1006, attempts: 2 });
    expect(warn).not.toHaveBeenCalled();
    await fail(its, 1);
    expect(its.client.trouble).toMatchObject({ cause: "origin", code: 1006, attempts: 3 });
    await fail(its, 7);
    expect(warn.mock.calls).toEqual([[expect.stringMatching(/^holdfast: gateway accepts no pages/)]]);
    its.script.socket.welcome();
    await settle();
    expect(its.client.trouble).toBeNull();
  });

  it("of a connection that was there is kept, and not said", async () => {
    world({});
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const its = await liveScene();
    await fail(its, 5);
    expect(its.client.trouble).toMatchObject({ cause: "gateway", attempts: 4 });
    expect(warn).not.toHaveBeenCalled();
  });

  it("is found by what the page brings along, without loading anything", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const found = { cause: "gateway", message: "it is down" } as const;
    const diagnose = vi.fn(async () => found);
    const its = await scene({ diagnose });
    await fail(its, 3);
    expect(diagnose.mock.calls).toEqual([["ws://gateway/v1/ws"]]);
    expect(its.client.trouble).toMatchObject(found);
  });

  it("of a bad token is that", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const its = await scene({ token: () => undefined });
    expect(its.client.trouble).toMatchObject({ cause: "token", message: "no token" });
    expect(its.client.error?.code).toBe("unauthorized");
  });
});

describe("debug", () => {
  it("says each line, both ways, and each change of the connection", async () => {
    const lines: string[] = [];
    const { client, socket } = await liveScene({ debug: (line) => lines.push(line) });
    void client.request("ping", {});
    socket.answer("ping", { type: "pong", ts: 1 });
    expect(lines.some((line) => line.startsWith("live"))).toBe(true);
    expect(lines.some((line) => line.startsWith("> ") && line.includes('"type":"ping"'))).toBe(true);
    expect(lines.some((line) => line.startsWith("< ") && line.includes('"type":"pong"'))).toBe(true);
  });
});

it("without a WebSocket says what to pass", () => {
  vi.stubGlobal("WebSocket", undefined);
  const trying = () => connect(URL_, { store: new MemoryStore() });
  expect(trying).toThrow(HoldfastError);
  expect(trying).toThrow(/pass \{ WebSocket \} of package ws/);
});
