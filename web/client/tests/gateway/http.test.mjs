// http.test.mjs -- every verb of the protocol once more, over plain HTTP and Server-Sent Events.

import assert from "node:assert/strict";
import { test } from "node:test";
import WebSocket from "ws";
import { Gateway } from "../../../../tests/browser/support/gateway.mjs";
import { Network } from "../../../../tests/browser/support/network.mjs";
import { connect, MemoryStore } from "../../dist/index.js";
import { overHttp, withFallback } from "../../dist/sse.js";

process.env.HOLDFAST_OVER_HTTP = "1";
await import("./protocol.test.mjs");

/** The object, as soon as the condition holds. */
async function until(observable, condition) {
  for await (const now of observable.changes()) if (condition(now)) return now;
}

const COUNT = "count to 30 slowly";
const RIGHT = Array.from({ length: 30 }, (_, at) => at + 1).join(" ");
const FAST = { baseMs: 5, capMs: 20 };

test("over HTTP an answer goes on over twenty cuts, each event once", { timeout: 120_000 }, async () => {
  const gateway = new Gateway({});
  await gateway.start();
  const network = new Network(() => gateway.port);
  await network.restore();
  const url = `ws://127.0.0.1:${network.port}/v1/ws`;
  const client = connect(url, { WebSocket: overHttp({ pollMs: 100 }), store: new MemoryStore(), backoff: FAST });
  const task = await client.conversation().ask(COUNT).started;
  let cuts = 0;
  let last = 0;
  for await (const { seq, from = seq } of task.events({ exact: true })) {
    assert.equal(from, last + 1);
    last = seq;
    if (cuts >= 20) continue;
    cuts++;
    await network.cut();
    await network.restore();
  }
  assert.equal(cuts, 20);
  assert.equal((await task.result()).output.trim(), RIGHT);
  client.close();
  await network.close();
  await gateway.remove();
});

test("where WebSockets are blocked HTTP is taken, and after a break they are tried again", async () => {
  const gateway = new Gateway({});
  await gateway.start();
  const network = new Network(() => gateway.port);
  await network.restore();
  let isBlocked = true;
  const tried = [];
  class Blocked extends WebSocket {
    constructor(url, protocol) {
      tried.push(isBlocked);
      super(isBlocked ? url.replace("/v1/ws", "/blocked") : url, protocol);
      this.on("error", () => {});
    }
  }
  const Socket = withFallback({ WebSocket: Blocked, pollMs: 100 });
  const client = connect(`ws://127.0.0.1:${network.port}/v1/ws`, { WebSocket: Socket, store: new MemoryStore(), backoff: FAST });
  const task = await client.conversation().ask("count to 2").started;
  assert.equal((await task.result()).output.trim(), "1 2");
  assert.deepEqual(tried, [true]);
  isBlocked = false;
  const slow = (await client.conversation().ask("count to 100 slowly").started).follow();
  await until(slow, ({ text }) => text !== ""); // its stream is the one to break
  await network.cut();
  await network.restore();
  await until(client, ({ state, agents }) => state === "live" && agents.length > 0); // only a WebSocket tells them
  assert.ok(tried.includes(false));
  assert.ok(slow.live);
  client.close();
  await network.close();
  await gateway.remove();
});
