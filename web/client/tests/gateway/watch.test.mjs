// watch.test.mjs -- the events of all tasks, over a wire that is cut, against the built gateway.

import assert from "node:assert/strict";
import net from "node:net";
import { test } from "node:test";
import WebSocket from "ws";
import { Gateway } from "../../../../tests/browser/support/gateway.mjs";
import { connect, MemoryStore } from "../../dist/index.js";
import { watchEvents } from "../../dist/watch.js";

/** A relay to the gateway whose connections can be cut. */
async function relay(port) {
  const open = new Set();
  const server = net.createServer((near) => {
    const far = net.connect(port, "127.0.0.1");
    for (const [one, other] of [[near, far], [far, near]]) {
      open.add(one);
      one.pipe(other);
      one.on("error", () => {}).on("close", () => (open.delete(one), other.destroy()));
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => open.forEach((one) => one.destroy());
  return { port: server.address().port, cut, close: () => (cut(), server.close()) };
}

test("each event once, over cuts and from a kept cursor", { timeout: 120_000 }, async () => {
  const gateway = new Gateway({});
  await gateway.start();
  const wire = await relay(gateway.port);
  const store = new MemoryStore();
  const made = [];
  const open = (port) => {
    const client = connect(`ws://127.0.0.1:${port}/v1/ws`, { store, WebSocket, backoff: { baseMs: 1, capMs: 20 } });
    made.push(client);
    return client;
  };
  const asker = open(gateway.port);
  await asker.request("conversations", {});
  const { token } = asker.welcome;
  const events = new Map();
  let ended = 0, cursor, wake = () => {};
  const begin = () => {
    const client = connect(`ws://127.0.0.1:${wire.port}/v1/ws`, { token, store: new MemoryStore(), WebSocket, backoff: { baseMs: 1, capMs: 20 } });
    made.push(client);
    const stop = watchEvents(client, {
      cursor,
      onEvent: (event, task) => {
        const kept = events.get(event.task_id) ?? events.set(event.task_id, []).get(event.task_id);
        assert.equal(event.seq, kept.length + 1, `dense, once: ${task.conversation_id}`);
        kept.push(event);
        ended += /^task\.(completed|failed)$/.test(event.event);
        wake();
      },
      onCursor: (now) => ((cursor = now), wake()),
    });
    assert.throws(() => watchEvents(client, { onEvent: () => {} }), { code: "conflict" });
    return { client, stop };
  };
  const until = async (condition) => {
    while (!condition()) await new Promise((resolve) => (wake = resolve));
  };
  try {
    const { client, stop } = begin();
    await client.request("conversations", {});
    for (let n = 1; n <= 12; n++) {
      const task = await asker.conversation().ask(`number ${n}`).started;
      if (n % 3 === 0) wire.cut();
      await task.result();
    }
    await until(() => ended === 12);
    const before = cursor;
    await until(() => cursor !== undefined && cursor !== before);
    stop();
    client.close();
    const known = ended;
    for (let n = 0; n < 3; n++) await (await asker.conversation().ask("while it was away").started).result();
    begin();
    await until(() => ended === known + 3);
    assert.equal(events.size, 15);
  } finally {
    made.forEach((one) => one.close());
    wire.close();
    await gateway.remove();
  }
});
