// files.test.mjs -- an upload whose answers are lost, and a message with it.

import assert from "node:assert/strict";
import { test } from "node:test";
import WebSocket from "ws";
import { Gateway } from "../../../../tests/browser/support/gateway.mjs";
import { Network } from "../../../../tests/browser/support/network.mjs";
import { connect, MemoryStore } from "../../dist/index.js";
import { giveFile, readFile } from "../../dist/files.js";

test("an upload is tried until its answer comes, and its file goes with a message", { timeout: 120_000 }, async () => {
  const gateway = new Gateway({});
  await gateway.start();
  const network = new Network(() => gateway.port);
  await network.restore();
  const url = `http://127.0.0.1:${network.port}`;
  const guest = await (await fetch(`${url}/v1/guest`, { method: "POST" })).json();
  const options = { url, token: guest.token, waitMs: 5 };
  const bytes = crypto.getRandomValues(new Uint8Array(60_000));
  let tries = 0;
  /** No connection for the first try; the answers of the two after it are lost. */
  const by = async (address, init) => {
    if (init.method === "HEAD") return fetch(address, init);
    if (++tries === 1) await network.cut();
    try {
      return await fetch(address, init);
    } finally {
      await network.restore();
      if (tries <= 3) throw new TypeError("it is lost");
    }
  };
  const blob = new Blob([bytes], { type: "application/x-test" });
  const part = await giveFile("c-1", blob, { ...options, name: "a é.bin", fetch: by });
  assert.deepEqual([part.name, part.media_type, part.size], ["a é.bin", "application/x-test", 60_000]);
  assert.equal(tries, 4);
  assert.deepEqual(new Uint8Array(await (await readFile("c-1", part.file_id, options)).arrayBuffer()), bytes);
  const client = connect(`${url.replace("http", "ws")}/v1/ws`, { token: guest.token, store: new MemoryStore(), WebSocket });
  const { task } = await client.request("chat", {
    conversation_id: "c-1",
    message: [{ type: "text", text: "look" }, part],
  });
  const { messages } = await client.request("history", { conversation_id: task.conversation_id });
  assert.equal(messages[0].content, "look");
  assert.deepEqual(messages[0].parts, [{ type: "text", text: "look" }, part]);
  client.close();
  await network.close();
  await gateway.remove();
});
