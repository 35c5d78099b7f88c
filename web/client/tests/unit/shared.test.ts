// One connection for all tabs: who runs it, what goes to whom, and what happens when tabs go.

import { beforeEach, afterEach, describe, expect, it, vi } from "vitest";
import { MemoryStore, type Client, type Options } from "../../src/index.js";
import { connect } from "../../src/index.js";
import { lead } from "../../src/hub.js";
import { watchEvents } from "../../src/watch.js";
import { fakeLocks } from "../support/locks.js";
import { Script, summary, token } from "../support/script.js";

let script: Script;
let store: MemoryStore;
let count = 0;
let url: string;
const open: Client[] = [];

beforeEach(() => {
  script = new Script();
  store = new MemoryStore();
  url = `ws://gateway-${++count}/v1/ws`;
  vi.stubGlobal("navigator", { locks: fakeLocks() });
  vi.stubGlobal("WebSocket", script.WebSocket);
});
afterEach(() => {
  for (const client of open.splice(0)) client.close();
});

function tab(options: Options = {}): Client {
  const client = connect(url, { share: true, store, token: "token-1", ...options });
  open.push(client);
  return client;
}

const until = (condition: () => unknown) =>
  vi.waitUntil(condition, { timeout: 20_000, interval: 2 });

/** Comes back when a test says `retry`, not before: a wait can be over before anyone has looked. */
const WHEN_TOLD: Options = { backoff: { baseMs: 2 ** 31 - 1, capMs: 2 ** 31 - 1 } };

async function twoTabs(options?: Options) {
  const tabs = [tab(options), tab(options)] as const;
  await until(() => script.sockets.length === 1);
  script.socket.welcome();
  await until(() => tabs.every(({ state }) => state === "live"));
  return tabs;
}

const follows = (n: number) => script.socket.all("resume").length === n;

describe("tabs of one browser", () => {
  it("learn why it does not connect, those that come later too", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.stubGlobal("fetch", async () => Promise.reject(TypeError("Failed to fetch")));
    const first = tab({ backoff: { baseMs: 1, capMs: 1 } });
    await until(() => first.trouble?.cause === "gateway" || void (script.socket?.readyState === 0 && script.socket.break()));
    const late = tab();
    await until(() => late.trouble?.cause === "gateway");
    expect(late.trouble?.message).toMatch(/^nothing answers at gateway-/);
  });

  it("have no watch, which one of them would end for the others", async () => {
    const refused = (client: Client) => expect(() => watchEvents(client, { onEvent() {} })).toThrow("share: false");
    refused(tab()); // before it is known whether they share
    for (const each of await twoTabs()) {
      refused(each);
      const raw = each.request("watch", { events: true });
      await expect(raw).rejects.toMatchObject({ code: "unsupported", message: expect.stringContaining("share: false") });
    }
    expect(script.socket.all("watch")).toEqual([]);
    const alone = tab({ share: false });
    await until(() => script.sockets.length === 2);
    script.socket.welcome();
    await until(() => alone.state === "live");
    watchEvents(alone, { onEvent() {} });
    await until(() => script.socket.all("watch").length === 1);
  });

  it("share one socket, and see the same state", async () => {
    const tabs = await twoTabs(WHEN_TOLD);
    expect(script.sockets).toHaveLength(1);
    expect(script.socket.asked("hello")["token"]).toBe("token-1");
    expect(tabs.map(({ owner }) => owner)).toEqual(["ada", "ada"]);
    script.socket.break();
    await until(() => tabs.every(({ state }) => state === "waiting"));
    tabs[1].retry();
    await until(() => script.sockets.length === 2);
    script.socket.break(1008);
    await until(() => tabs.every(({ state }) => state === "closed"));
    expect(tabs[1].error).toMatchObject({ name: "HoldfastError", code: "closed" });
  });

  it("get the answers that they asked for, and all events", async () => {
    const tabs = await twoTabs();
    const tasks = tabs.map((client) => client.task("c1", "t1").follow());
    await until(() => follows(2));
    const listed = tabs[0].conversation("c1").history();
    await until(() => script.socket.all("history").length === 1);
    script.socket.answer("history", { type: "history", messages: [] });
    await listed;
    script.socket.say(token(1, "Hel"), token(2, "lo"));
    await until(() => tasks.every(({ text }) => text === "Hello"));
  });

  it("catch up each from where it is, though they share one cursor", async () => {
    const tabs = await twoTabs();
    const first = tabs[0].task("c1", "t1").follow();
    await until(() => follows(1));
    script.socket.say(token(1, "a"), token(2, "b"));
    await until(() => first.text === "ab");
    const second = tabs[1].task("c1", "t1").follow();
    await until(() => follows(2));
    expect(script.socket.asked("resume")["after"]).toBe(0);
    script.socket.say(token(1, "a"), token(2, "b"), token(3, "c"));
    await until(() => first.text === "abc" && second.text === "abc");
  });

  it("end no subscription that another one still wants", async () => {
    const tabs = await twoTabs();
    for (const client of tabs) {
      client.task("c1", "t1").follow();
      void client.conversation("c1").open();
    }
    await until(() => follows(2) && script.socket.all("open").length === 2);
    tabs[0].task("c1", "t1").unfollow();
    tabs[0].conversation("c1").close();
    const ping = tabs[0].request("ping", {});
    await until(() => script.socket.all("ping").length === 1);
    script.socket.answer("ping", { type: "pong", ts: 1 });
    await ping;
    expect(script.socket.all("unsubscribe")).toHaveLength(0);
    expect(script.socket.all("close")).toHaveLength(0);
    tabs[1].close(); // and what a tab wanted ends with it
    await until(() => script.socket.all("unsubscribe").length === 1);
    await until(() => script.socket.all("close").length === 1);
  });

  it("hold no subscription for one that let go while there was no connection", async () => {
    const tabs = await twoTabs(WHEN_TOLD);
    const tasks = tabs.map((client) => client.task("c1", "t1").follow());
    await until(() => follows(2));
    script.socket.break();
    await until(() => tabs.every(({ state }) => state === "waiting"));
    tasks[0]!.unfollow();
    tabs[1].retry();
    await until(() => script.sockets.length === 2);
    script.socket.welcome();
    await until(() => follows(1));
    tasks[1]!.unfollow();
    const ping = tabs[1].request("ping", {});
    await until(() => script.socket.all("ping").length === 1);
    script.socket.answer("ping", { type: "pong", ts: 1 });
    await ping;
    expect(script.socket.all("unsubscribe")).toHaveLength(1);
  });

  it("hand over when the one that leads is closed; nothing is lost", async () => {
    const tabs = await twoTabs();
    const task = tabs[1].task("c1", "t1").follow();
    await until(() => follows(1));
    script.socket.say(token(1, "a"));
    await until(() => task.text === "a");
    const outgoing = tabs[1].conversation("c1").ask("hi");
    await until(() => outgoing.state === "sent");

    const [before] = script.sockets;
    tabs[0].close();
    await until(() => before!.hungUp && script.sockets.length === 2);
    script.socket.welcome();
    await until(() => follows(1));
    expect(script.socket.asked("resume")["after"]).toBe(1);
    expect(script.socket.asked("chat")["request_key"]).toBe(outgoing.key);
    script.socket.say(token(2, "b"));
    await until(() => task.text === "ab");
    script.socket.answer("chat", { type: "started", task: summary({ task_id: "t2" }) });
    await outgoing.started;
  });

  it("close the socket when the last one has gone", async () => {
    const tabs = await twoTabs();
    for (const client of tabs) client.close();
    await until(() => script.socket.hungUp);
    expect(script.sockets).toHaveLength(1);
  });

  it("come live at once when the connection is there already", async () => {
    await twoTabs();
    const third = tab();
    await until(() => third.state === "live");
    expect(script.sockets).toHaveLength(1);
  });

  it("know who they are as soon as they are live, and ask for nothing twice", async () => {
    const owners = new Set<string | undefined>();
    const watched = (client: Client) => {
      const task = client.task("c1", "t1");
      client.subscribe(() => {
        if (client.state !== "live") return;
        owners.add(client.owner);
        task.follow();
      });
    };
    const first = tab();
    watched(first);
    await until(() => script.sockets.length === 1);
    script.socket.welcome();
    await until(() => first.state === "live");
    const second = tab();
    watched(second);
    await until(() => second.state === "live");
    const pings = [first, second].map((client) => client.request("ping", {}));
    await until(() => script.socket.all("ping").length === 2);
    for (const { id } of script.socket.all("ping")) script.socket.say({ type: "pong", id, ts: 1 });
    await Promise.all(pings); // what was asked before them has come
    expect([...owners]).toEqual(["ada"]);
    expect(script.socket.all("resume")).toHaveLength(2);
  });

  it("fetch tokens in the newest tab, and are refused together", async () => {
    const fetched: string[] = [];
    const first = tab({ token: () => (fetched.push("first"), "a") });
    await until(() => script.sockets.length === 1);
    script.socket.welcome();
    await until(() => first.state === "live");
    const second = tab({ token: (stale) => (fetched.push("second"), stale ? undefined : "b") });
    await until(() => second.state === "live");
    expect(fetched).toEqual(["first"]);
    script.socket.say({ type: "token_expiring", expires_at: 1 });
    await until(() => fetched.length === 2);
    script.socket.break(4401);
    await until(() => first.state === "closed" && second.state === "closed");
    expect(first.error?.code).toBe("unauthorized");
    expect(fetched).toEqual(["first", "second", "second"]);
  });

  it("are asked for a token last when they do not answer", async () => {
    const { setTimeout: later } = globalThis;
    vi.stubGlobal("setTimeout", (body: () => void, ms = 0) => later(body, ms === 5_000 ? 20 : ms));
    let fetched = 0;
    const alive = tab({ ...WHEN_TOLD, token: () => `t${++fetched}` });
    await until(() => script.sockets.length === 1);
    script.socket.welcome();
    await until(() => alive.state === "live");
    const frozen = [1, 2, 3].map((n) => `frozen-${n}`);
    const told: string[] = [];
    const place = `2 ${url} `;
    const hub = new BroadcastChannel(`${place} hub`);
    const inboxes = frozen.map((name) => {
      void navigator.locks.request(`${place} ${name}`, () => new Promise(() => {}));
      const inbox = new BroadcastChannel(`${place} ${name}`);
      inbox.onmessage = ({ data }) => told.push(`${name} ${data.kind}`);
      hub.postMessage({ kind: "join", tab: name });
      return inbox;
    });
    await until(() => told.length === 3); // they were welcomed
    for (const n of [2, 3]) {
      script.socket.say({ type: "error", id: "hello", code: "unauthorized", message: "expired" });
      script.socket.break(4401);
      await until(() => alive.state === "waiting");
      alive.retry();
      await until(() => fetched === n && script.sockets.length === n);
      script.socket.welcome();
      await until(() => alive.state === "live");
    }
    const asked = told.filter((each) => each.endsWith("token"));
    expect(asked).toEqual(["frozen-3 token", "frozen-2 token", "frozen-1 token"]); // and once
    for (const channel of [hub, ...inboxes]) channel.close();
  });

  it("are one guest", async () => {
    const guest = { ...WHEN_TOLD, token: undefined };
    const tabs = [tab(guest), tab(guest)];
    await until(() => script.sockets.length === 1);
    script.socket.welcome({ owner: "guest-1", token: "g1" });
    await until(() => tabs.every(({ owner }) => owner === "guest-1"));
    script.socket.break();
    await until(() => tabs.every(({ state }) => state === "waiting"));
    tabs[0]!.retry();
    await until(() => script.sockets.length === 2);
    script.socket.open();
    expect(script.socket.asked("hello")["token"]).toBe("g1");
  });

  it("share nothing with those of another user", async () => {
    tab({ user: "ada" });
    tab({ user: "bob" });
    await until(() => script.sockets.length === 2);
  });

  it("have a socket each where there are locks that refuse", async () => {
    const refused = () => Promise.reject(new DOMException("denied", "SecurityError"));
    vi.stubGlobal("navigator", { locks: { request: refused } });
    const client = tab(WHEN_TOLD);
    await until(() => script.sockets.length === 1);
    script.socket.welcome();
    expect(client.state).toBe("live");
    const listed = client.conversation("c1").history();
    script.socket.answer("history", { type: "history", messages: [] });
    await listed;
    script.socket.break();
    expect(client.state).toBe("waiting");
    client.retry();
    await until(() => script.sockets.length === 2);
    client.close();
    expect(script.socket.hungUp).toBe(true);
    expect(client.state).toBe("closed");
  });

  it("use a hub that runs elsewhere, such as in a worker", async () => {
    const stop = lead(`2 ${url} `);
    const [first] = await twoTabs();
    first.close();
    await new Promise((resolve) => setTimeout(resolve));
    expect(script.socket.hungUp).toBe(false);
    stop();
  });
});

/** A SharedWorker that does this when it is told the place. */
function worker(postMessage: (place: string) => void) {
  vi.stubGlobal("SharedWorker", class {
    port = { postMessage };
  });
}

describe("a worker", () => {
  afterEach(() => vi.stubGlobal("SharedWorker", undefined));

  it("that dies is followed by a tab; nothing is lost", async () => {
    let die = () => {};
    let starts = 0;
    worker((place) => starts++ || (die = lead(place)));
    const tabs = await twoTabs();
    expect(starts).toBe(2);
    const task = tabs[1].task("c1", "t1").follow();
    await until(() => follows(1));
    script.socket.say(token(1, "a"));
    await until(() => task.text === "a");
    die();
    await until(() => script.sockets.length === 2);
    script.socket.welcome();
    await until(() => follows(1));
    expect(script.socket.asked("resume")["after"]).toBe(1);
    script.socket.say(token(2, "b"));
    await until(() => task.text === "ab" && tabs.every(({ state }) => state === "live"));
    expect(script.sockets).toHaveLength(2);
  });

  it("that never runs is done without", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    worker(() => {});
    const client = tab();
    await vi.advanceTimersByTimeAsync(4_999);
    expect(script.sockets).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1);
    vi.useRealTimers();
    await until(() => script.sockets.length === 1);
    script.socket.welcome();
    await until(() => client.state === "live");
  });

  it("is not followed by a tab whose client was closed", async () => {
    let die: (() => void) | undefined;
    worker((place) => (die ??= lead(place)));
    const tabs = await twoTabs();
    tabs[0].close();
    die!();
    await until(() => script.sockets.length === 2);
    script.socket.welcome();
    await until(() => tabs[1].state === "live");
    expect(script.sockets).toHaveLength(2);
  });
});
